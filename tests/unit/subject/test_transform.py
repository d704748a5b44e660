"""Transforms: results and refusals are the peer's."""

import random

import pytest

from tidelog.subject.transform import INT32_MAX, Transform, TransformError, numbered, partition


def transform(source: str, destination: str, *, strict: bool = False) -> Transform:
    return Transform(source.encode(), destination.encode(), random.Random(1).randrange, strict=strict)


@pytest.mark.parametrize(
    ("source", "destination", "subject", "expected"),
    [
        ("foo", "bar", "foo", "bar"),
        ("", "prefix.>", "foo", "prefix.foo"),
        ("foo.*.bar.*.baz", "req.$2.$1", "foo.A.bar.B.baz", "req.B.A"),
        ("foo.*.bar.*.baz", "req.{{wildcard(2)}}.{{ Wildcard ( 1 ) }}", "foo.A.bar.B.baz", "req.B.A"),
        ("baz.>", "my.pre.>", "baz.1.2.3", "my.pre.1.2.3"),
        ("baz.*.>", "x.$1.>", "baz.1.2.3", "x.1.2.3"),
        (">", ">", "a.b", "a.b"),
        ("*", "foo.bar.$1", "foo", "foo.bar.foo"),
        ("*.*", "$2", "a.b", "b"),
        ("*", "$JS.$x.$1", "a", "$JS.$x.a"),
        ("*", "{{}}.$1", "a", "{{}}.a"),
        ("*", "{{splitfromleft(1,3)}}", "12345", "123.45"),
        ("*", "{{SplitFromRight(1,3)}}", "12345", "12.345"),
        ("*", "{{splitFromLeft(1,5)}}", "12345", "12345"),
        ("*", "{{splitFromLeft(1,0)}}", "12345", "12345"),
        ("*", "{{SliceFromLeft(1,3)}}", "1234567890", "123.456.789.0"),
        ("*", "{{SliceFromLeft(1,5)}}", "1234567890", "12345.67890"),
        ("*", "{{SliceFromRight(1,3)}}", "1234567890", "1.234.567.890"),
        ("*", "{{SliceFromRight(1,5)}}", "1234567890", "12345.67890"),
        ("*", "{{sliceFromRight(1,10)}}", "1234567890", "1234567890"),
        ("*", "{{split(1,-)}}", "-abc-def--ghi-", "abc.def.ghi"),
        ("*", "{{split(1,-)}}", "abc-def--ghi-", "abc.def.ghi"),
        ("*.*", "{{split(2,-)}}.{{splitfromleft(1,2)}}", "foo.-abc-def--ghij-", "abc.def.ghij.fo.o"),
        ("*", "{{split(1,)}}", "abé", "a.b.é"),
        ("*", "{{right(1,1)}}", "1234", "4"),
        ("*", "{{right(1,3)}}", "1234", "234"),
        ("*", "{{Right(1,6)}}", "1234", "1234"),
        ("*", "{{left(1,1)}}", "1234", "1"),
        ("*", "{{left(1,-1)}}", "1234", "1234"),
        ("*", "{{Left(1,6)}}", "1234", "1234"),
        ("*", "bar.{{partition(0)}}", "baz", "bar.0"),
        ("*", "bar.{{partition(10, 0)}}", "foo", "bar.3"),
        ("*.*", "bar.{{partition(10)}}", "foo.bar", "bar.6"),
        ("*", "bar.{{partition(10)}}", "foo", "bar.3"),
        ("*", "bar.{{partition(10,1)}}", "baz", "bar.0"),
        ("*", "bar.{{Partition(10)}}", "qux", "bar.9"),
        ("foo.bar", "baz.{{partition(10)}}", "foo.bar", "baz.6"),
        ("foo.baz", "qux.{{partition(10,1)}}", "foo.baz", "qux.4"),
        ("test.subject", "result.{{partition(5)}}", "test.subject", "result.0"),
        ("*", "bar.{{random(0)}}", "qux", "bar.0"),
        ("*", "bar.{{random(1)}}", "qux", "bar.0"),
    ],
)
def test_results(source: str, destination: str, subject: str, expected: str) -> None:
    assert transform(source, destination).apply(subject.encode()) == expected.encode()


def test_the_named_wildcards_make_the_partition() -> None:
    by_both = transform("a.*.*", "{{partition(1000,1,2)}}")
    assert by_both.apply(b"a.x.y") == partition(b"xy", 1000)
    assert by_both.apply(b"a.xy.z") != by_both.apply(b"a.y.xz")
    assert transform("a.*.*", "{{partition(1000,2)}}").apply(b"a.x.y") == partition(b"y", 1000)


@pytest.mark.parametrize(("key", "digest"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_the_hash_is_fnv_1a(key: bytes, digest: int) -> None:
    assert partition(key, INT32_MAX) == b"%d" % (digest % INT32_MAX)


def test_random_follows_chance_and_stays_in_range() -> None:
    one, other = transform("*", "{{random(6)}}"), transform("*", "{{random(6)}}")
    drawn = [one.apply(b"x") for _ in range(100)]
    assert drawn == [other.apply(b"x") for _ in range(100)]
    assert set(drawn) == {b"%d" % number for number in range(6)}


@pytest.mark.parametrize("subject", [b"bar", b"foo", b"foo.a.b", b"foo.", b"foo.*", b"foo.>", b""])
def test_other_subjects_are_left_alone(subject: bytes) -> None:
    assert transform("foo.*", "bar.$1").apply(subject) is None


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("foo..", "bar", "invalid subject"),
        ("foo.*", "bar.*", "invalid subject"),
        ("foo.*", "bar.$1.>", "invalid subject"),
        ("foo.>", "bar.baz", "invalid subject"),
        ("foo", "", "invalid subject"),
        ("foo", "a..b", "invalid subject"),
        ("foo.>", ">.a.>", "invalid subject"),
        ("foo.*", "a b", "invalid transform"),
        ("foo.*", "bar.$2", "wildcard index out of range in $2: [2]"),
        ("foo.*", "foo.{{wildcard(2)}}", "wildcard index out of range in {{wildcard(2)}}: [2]"),
        ("foo", "bla.{{wildcard(1)}}", "wildcard index out of range"),
        ("foo", "bla.$1", "wildcard index out of range"),
        ("foo", "bla.{{left(1,1)}}", "wildcard index out of range"),
        ("foo.*", "foo.{{unimplemented(1)}}", "unknown function"),
        ("foo.*", "foo.{{WILDCARD(1)}}", "unknown function"),
        ("foo.*", "foo.{{ wildcard5) }}", "unknown function"),
        ("foo.*", "foo.{{splitLeft(2,2}}", "unknown function"),
        ("foo.*", "foo.{{partition()}}", "function argument is invalid"),
        ("foo.*", "foo.{{random()}}", "function argument is invalid"),
        ("foo.*", "foo.{{random(1,2)}}", "not enough arguments"),
        ("foo.*", "foo.{{wildcard(foo)}}", "function argument is invalid"),
        ("foo.*", "foo.{{wildcard()}}", "not enough arguments"),
        ("foo.*", "foo.{{wildcard(1,2)}}", "too many arguments"),
        ("foo.*", "foo.{{left(1)}}", "not enough arguments"),
        ("foo.*", "foo.{{left(1,2,3)}}", "too many arguments"),
        ("foo.*", "foo.{{left(1,x)}}", "function argument is invalid"),
        ("foo.*", "foo.{{split(1)}}", "not enough arguments"),
        ("foo.*", "foo.{{split(1,a b)}}", "function argument is invalid"),
        ("foo.*", f"foo.{{{{partition({INT32_MAX + 1})}}}}", "function argument is invalid"),
        ("foo.*", f"foo.{{{{random({INT32_MAX + 1})}}}}", "function argument is invalid"),
        ("foo.*", f"foo.{{{{random({'9' * 10000})}}}}", "function argument is invalid"),
    ],
)
def test_refusals(source: str, destination: str, text: str) -> None:
    with pytest.raises(TransformError) as caught:
        transform(source, destination)
    assert text in str(caught.value)


def test_the_largest_numbers_are_allowed() -> None:
    transform("foo.*", f"foo.{{{{partition({INT32_MAX})}}}}")
    transform("foo.bar", f"foo.{{{{random({INT32_MAX})}}}}")


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("foo.*.*", "bar.$2", "not using all of the token wildcard(s)"),
        ("foo.*", "foo.$foo", "not using all of the token wildcard(s)"),
        ("foo.*", "bar.{{Partition(2,1)}}", "only mapping function allowed for import"),
    ],
)
def test_strict_refusals(source: str, destination: str, text: str) -> None:
    transform(source, destination)
    with pytest.raises(TransformError) as caught:
        transform(source, destination, strict=True)
    assert text in str(caught.value)


def test_strict_allows_wildcards() -> None:
    assert transform("foo.*.*", "bar.{{Wildcard(2)}}.$1", strict=True).apply(b"foo.a.b") == b"bar.b.a"
    assert transform("foo.>", "bar.>", strict=True).apply(b"foo.a.b") == b"bar.a.b"


@pytest.mark.parametrize(
    ("subject", "destination"),
    [(b"a.b", b"a.b"), (b"a.*.b.*", b"a.$1.b.$2"), (b"*.>", b"$1.>"), (b"a*.$1", b"a*.$1")],
)
def test_wildcards_are_numbered_in_their_order(subject: bytes, destination: bytes) -> None:
    assert numbered(subject) == destination
