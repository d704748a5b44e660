"""Texts that clients parse (SESS-7)."""

import pytest

from tidelog.base.text import go_quote
from tidelog.broker.text import is_json_object


@pytest.mark.parametrize(
    ("data", "quoted"),
    [
        (b"", '""'),
        (b"foo.>", '"foo.>"'),
        (b'a"b\\c', r'"a\"b\\c"'),
        (b"'", '"\'"'),
        (b"\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (b"\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("grün".encode(), '"grün"'),
        (b"\xff\x80a", r'"\xff\x80a"'),
        ("\u2028\u00a0\ufeff".encode(), r'"\u2028\u00a0\ufeff"'),
        ("\U0001f30a".encode(), '"\U0001f30a"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),
    ],
)
def test_quoting_is_that_of_the_peer(data: bytes, quoted: str) -> None:
    assert go_quote(data) == quoted


@pytest.mark.parametrize(
    ("document", "is_object"),
    [
        (b"{}", True),
        (b' {"a": 1} ', True),
        (b"", False),
        (b"[]", False),
        (b"x", False),
        (b'{"a":"\xff"}', False),
    ],
)
def test_what_is_a_json_object(document: bytes, is_object: bool) -> None:
    assert is_json_object(document) is is_object
