"""Go's spelling of times, durations and numbers, and its way to read options."""

import pytest

from tidelog.base.instant import timestamp
from tidelog.serve.monitor.document import Document, age, duration, encode, number, text
from tidelog.serve.monitor.query import BadQuery, page, read_bool, read_int, read_subscriptions, read_unsigned


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (1_794_996_000_000_000_000, "2026-11-18T10:00:00Z"),
        (1_794_996_000_120_000_000, "2026-11-18T10:00:00.12Z"),
        (1_794_996_000_000_000_001, "2026-11-18T10:00:00.000000001Z"),
        (0, "1970-01-01T00:00:00Z"),
    ],
)
def test_timestamp(ns: int, expected: str) -> None:
    assert timestamp(ns) == expected


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0s"),
        (999, "999ns"),
        (1_000, "1µs"),
        (480_500, "480.5µs"),
        (1_500_000, "1.5ms"),
        (999_999_999, "999.999999ms"),
        (1_000_000_000, "1s"),
        (120_250_000_000, "2m0.25s"),
        (3_600_000_000_000, "1h0m0s"),
        (100 * 3_600_000_000_000 + 1, "100h0m0.000000001s"),
    ],
)
def test_duration(ns: int, expected: str) -> None:
    assert duration(ns) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (3600, "1h0m0s"),
        (86_400, "1d0h0m0s"),
        (365 * 86_400 + 61, "1y0d0h1m1s"),
    ],
)
def test_age(seconds: float, expected: str) -> None:
    assert age(int(seconds * 1e9)) == expected


def test_document_keeps_order_and_leaves_defaults_out() -> None:
    class Part(Document, frozen=True, kw_only=True):
        z: int
        gone: str = ""
        a: int | float
        empty: tuple[str | int, ...] = ()

    assert encode(Part(z=0, a=number(2.0)), 0) == b'{"z":0,"a":2}'
    assert encode(Part(z=0, a=number(0.5), gone="x", empty=("y",))) == (
        b'{\n  "z": 0,\n  "gone": "x",\n  "a": 0.5,\n  "empty": [\n    "y"\n  ]\n}'
    )
    # A default that was computed is left out as well as one that was written.
    assert encode(Part(z=0, a=1, gone="".join([]), empty=tuple(range(0))), 0) == b'{"z":0,"a":1}'


def test_text_that_is_no_utf8() -> None:
    assert text(b"a\xff") == "a\ufffd"


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(value: str) -> None:
    assert read_bool({"auth": value}, "auth")


@pytest.mark.parametrize("query", [{}, {"auth": ""}, {"auth": "0"}, {"auth": "False"}])
def test_false(query: dict[str, str]) -> None:
    assert not read_bool(query, "auth")


def test_bool_that_is_none() -> None:
    with pytest.raises(BadQuery) as raised:
        read_bool({"auth": 'j"a'}, "auth")
    expected = r"""Error decoding boolean for 'auth': strconv.ParseBool: parsing "j\"a": invalid syntax"""
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", 0), ("7", 7), ("+7", 7), ("-7", -7), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)
def test_int(value: str, expected: int) -> None:
    assert read_int({"limit": value}, "limit") == expected


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("a", "invalid syntax"),
        ("1_0", "invalid syntax"),
        ("-", "invalid syntax"),
        ("\u0661", "invalid syntax"),
        (str(2**63), "value out of range"),
        (str(-(2**63) - 1), "value out of range"),
        ("9" * 10_000, "value out of range"),
    ],
)
def test_int_that_is_none(value: str, fault: str) -> None:
    with pytest.raises(BadQuery) as raised:
        read_int({"limit": value}, "limit")
    assert str(raised.value).startswith("Error decoding int for 'limit': strconv.Atoi: parsing ")
    assert str(raised.value).endswith(f": {fault}")


@pytest.mark.parametrize(("value", "expected"), [("", 0), (str(2**64 - 1), 2**64 - 1)])
def test_unsigned(value: str, expected: int) -> None:
    assert read_unsigned({"cid": value}, "cid") == expected


@pytest.mark.parametrize(
    ("value", "fault"),
    [("-3", "invalid syntax"), ("+3", "invalid syntax"), (str(2**64), "value out of range")],
)
def test_unsigned_that_is_none(value: str, fault: str) -> None:
    with pytest.raises(BadQuery) as raised:
        read_unsigned({"cid": value}, "cid")
    expected = f"Error decoding uint64 for 'cid': strconv.ParseUint: parsing \"{value}\": {fault}"
    assert str(raised.value) == expected


def test_subscriptions() -> None:
    assert read_subscriptions({}) == (False, False)
    assert read_subscriptions({"subs": "true"}) == (True, False)
    assert read_subscriptions({"subs": "DETAIL"}) == (False, True)


def test_page() -> None:
    things = list(range(10))
    assert things[page(0, 3, 10)] == [0, 1, 2]
    assert things[page(8, 3, 10)] == [8, 9]
    assert things[page(11, 3, 10)] == []
    assert things[page(-4, 2**63, 10)] == things
