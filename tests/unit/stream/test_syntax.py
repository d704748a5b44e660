import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.stream.syntax import syntax_fault


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b"{", "unexpected EOF"),
        (b'{"a"', "unexpected EOF"),
        (b'"abc', "unexpected EOF"),
        (b'"a\\u12', "unexpected EOF"),
        (b'{"a":1}x', "invalid character 'x' looking for beginning of value at offset 8"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string at offset 8"),
        (b'{"a" 1}', "invalid character '1' after object key at offset 6"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair at offset 8"),
        (b"[1 2]", "invalid character '2' after array element at offset 4"),
        (b"'", "invalid character '\\'' looking for beginning of value at offset 1"),
        ("é".encode(), "invalid character 'é' looking for beginning of value at offset 2"),
        (b'"\x01"', "invalid character '\\x01' in string at offset 2"),
        (b'"\\x"', "invalid escape sequence `\\x` in string at offset 3"),
        (b'"\\u12x4"', "invalid escape sequence `\\u12x4` in string at offset 7"),
        (b"trux", "invalid character 'x' in literal true (expecting 'e') at offset 4"),
        (b"[-]", "invalid character ']' in numeric literal at offset 3"),
        (b"[1.]", "invalid character ']' in numeric literal at offset 4"),
        (b"[01]", "invalid character '1' after array element at offset 3"),
        (b' {"a":[1,{"b":null}]} ', ""),
        (b"1 2", ""),
    ],
)
def test_the_first_byte_that_cannot_be_is_told(document: bytes, fault: str) -> None:
    assert syntax_fault(document) == fault


def test_depth_costs_no_stack() -> None:
    assert syntax_fault(b"[" * 100_000) == "unexpected EOF"


@given(st.text(alphabet='{}[]",:0123.eE+-tfn \\ultrase', max_size=12))
def test_it_finds_a_fault_where_another_decoder_does(text: str) -> None:
    try:
        json.loads(text, parse_constant=lambda _: 1 / 0)
        good = True
    except (ValueError, ZeroDivisionError):
        good = False
    if good:
        assert syntax_fault(text.encode()) == ""
    elif not text.isspace() and text:
        # Several values in a row are no fault here; that decoder stops behind the first.
        assert syntax_fault(text.encode()) or len(text.split()) > 1 or "Extra data" in fault_of(text)


def fault_of(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""
