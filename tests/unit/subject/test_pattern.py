"""Subjects and patterns: the rules, at their edges."""

import pytest

from tidelog.subject.pattern import (
    has_wildcard,
    is_subset,
    is_valid_literal,
    is_valid_subject,
    matches,
    overlaps,
)


@pytest.mark.parametrize(
    ("subject", "valid", "literal"),
    [
        (b"a", True, True),
        (b"a.b.c", True, True),
        (b"*", True, False),
        (b">", True, False),
        (b"a.*.c", True, False),
        (b"a.>", True, False),
        (b"a.*.>", True, False),
        (b"a*", True, True),
        (b"a>b", True, True),
        (b"a.>>", True, True),
        (b"**.b", True, True),
        ("å.b".encode(), True, True),
        (b"\x00\x7f\xff", True, True),
        (b"$SYS.x", True, True),
        (b"", False, False),
        (b".", False, False),
        (b".a", False, False),
        (b"a.", False, False),
        (b"a..b", False, False),
        (b">.a", False, False),
        (b"a.>.b", False, False),
        (b">.>", False, False),
        (b"a b", False, False),
        (b"a\tb", False, False),
        (b"a\nb", False, False),
        (b"a\rb", False, False),
        (b"a\x0cb", False, False),
        (b" ", False, False),
    ],
)
def test_validity(subject: bytes, valid: bool, literal: bool) -> None:
    assert is_valid_subject(subject) is valid
    assert is_valid_literal(subject) is literal
    if valid:
        assert has_wildcard(subject) is not literal


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        (b"a.b", b"a.b", True),
        (b"a.b", b"a.c", False),
        (b"a.b", b"a", False),
        (b"a.*", b"a.b", True),
        (b"a.*", b"a", False),
        (b"a.*", b"a.b.c", False),
        (b"a.>", b"a.b.c", True),
        (b"a.>", b"a", False),
        (b">", b"a", True),
        (b"*.*", b"a.b", True),
        (b"*.>", b"a", False),
        (b"a*", b"ab", False),
        (b"*a", b"ba", False),
        (b">", b"a..b", False),
        (b"*.*", b"a.", False),
    ],
)
def test_matches(pattern: bytes, subject: bytes, expected: bool) -> None:
    assert matches(pattern, subject) is expected


@pytest.mark.parametrize(
    ("subject", "pattern", "expected"),
    [
        (b"a.*", b"a.>", True),
        (b"a.>", b"a.*", False),
        (b"a.>", b"a.>", True),
        (b"a.>", b">", True),
        (b">", b"*.>", False),
        (b"*.>", b">", True),
        (b"a.*.c", b"a.*.*", True),
        (b"a.*", b"a.b", False),
        (b"a.*.>", b"a.>", True),
        (b"a.>", b"a.*.>", False),
    ],
)
def test_is_subset(subject: bytes, pattern: bytes, expected: bool) -> None:
    assert is_subset(subject, pattern) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (b"a.*", b"*.b", True),
        (b"a.*", b"b.*", False),
        (b"a.>", b"*.b.c", True),
        (b"a.>", b"a", False),
        (b">", b"a.b", True),
        (b"a.>", b"a.>", True),
        (b"a.b.>", b"a.*", False),
        (b"a.b", b"a.b", True),
        (b"a.b", b"a.c", False),
        (b"a..b", b">", False),
    ],
)
def test_overlaps(a: bytes, b: bytes, expected: bool) -> None:
    assert overlaps(a, b) is expected
    assert overlaps(b, a) is expected
