from dataclasses import dataclass, field, replace

from tidelog.base.record import Record


@dataclass(frozen=True, eq=False, repr=False)
class Point(Record):
    x: int = 0
    secret: str = field(default="", repr=False)
    note: str = field(default="", compare=False)


@dataclass(frozen=True, eq=False, repr=False)
class Other(Record):
    x: int = 0
    secret: str = ""
    note: str = ""


def test_records_are_equal_by_class_and_compared_fields() -> None:
    assert Point(1) == Point(1, note="elsewhere")
    assert Point(1) != Point(2)
    assert Point(1) != Point(1, "s")
    assert Point() != Other()
    assert Point() != 0


def test_equal_records_have_one_hash() -> None:
    assert len({Point(1), Point(1, note="n"), Point(2)}) == 2


def test_what_is_kept_out_of_repr_is_not_shown() -> None:
    assert repr(Point(1, "s3cret", "n")) == "Point(x=1, note='n')"


def test_records_can_be_replaced() -> None:
    assert replace(Point(1), x=2) == Point(2)
