"""Mappings: which source decides, and how weights are drawn."""

from collections import Counter

import pytest

from tidelog.subject.mapping import SubjectMap
from tidelog.subject.transform import TransformError


class Wheel:
    """Chance that gives every number in turn."""

    def __init__(self) -> None:
        self.next = 0

    def __call__(self, bound: int) -> int:
        self.next += 1
        return (self.next - 1) % bound


def subject_map(*entries: tuple[str, str, int]) -> SubjectMap:
    return SubjectMap([(one.encode(), other.encode(), weight) for one, other, weight in entries], Wheel())


def shares(mapped: SubjectMap, subject: bytes) -> dict[bytes | None, int]:
    return dict(Counter(mapped.apply(subject) for _ in range(100)))


def test_no_mapping_gives_the_same_object_back() -> None:
    subject = b"a.b"
    assert not subject_map()
    assert subject_map(("x", "y", 100)).apply(subject) is subject


def test_the_first_source_decides() -> None:
    mapped = subject_map(("a.*", "one.$1", 100), ("a.b", "two", 100), (">", "rest.>", 100))
    assert mapped
    assert mapped.apply(b"a.b") == b"one.b"
    assert mapped.apply(b"a.b.c") == b"rest.a.b.c"


def test_wildcards_in_a_published_subject_are_tokens() -> None:
    assert subject_map(("a.*", "b.$1", 100)).apply(b"a.*") == b"b.*"


def test_weights_are_shares() -> None:
    assert shares(subject_map(("a", "b", 20), ("a", "c", 80)), b"a") == {b"b": 20, b"c": 80}


def test_what_is_left_over_stays() -> None:
    assert shares(subject_map(("a.*.*", "b.$2", 30)), b"a.x.y") == {b"b.y": 30, b"a.x.y": 70}
    assert shares(subject_map(("a.>", "b.>", 0)), b"a.x") == {b"a.x": 100}


def test_what_is_left_over_is_lost_if_the_source_is_named() -> None:
    assert shares(subject_map(("a", "a", 60), ("a", "b", 10)), b"a") == {b"a": 60, b"b": 10, None: 30}


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([("a", "b", 50), ("a", "b", 50)], 'duplicate entry for "b"'),
        ([("a", "b", 101)], "individual weights"),
        ([("a", "b", -1)], "individual weights"),
        ([("a", "b", 50), ("a", "c", 51)], "total weight"),
        ([("a..b", "c", 100)], "not a valid subject"),
        ([("a", "$1", 100)], "wildcard index out of range"),
    ],
)
def test_refusals(entries: list[tuple[str, str, int]], text: str) -> None:
    with pytest.raises(TransformError) as caught:
        subject_map(*entries)
    assert text in str(caught.value)
