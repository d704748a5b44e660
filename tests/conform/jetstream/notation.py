"""JSON with less ink, as scripts write requests: `{name: S, subjects: [s.>], max_age: 100ms}`.

A word is a number, `true`, `false`, `null`, a duration (`100ms`, in nanoseconds) or else a string; it ends before a
comma, a bracket or the end. What a word cannot be stands in quotes, as in JSON.
"""

import json
import re
from typing import Any

WORD = re.compile(r"[^,\[\]{}]*")
KEY = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+)):')
NUMBER = re.compile(r"-?\d+(\.\d+)?")
DURATION = re.compile(r"(-?\d+)(ns|us|ms|s|m|h)")
UNITS_NS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
CONSTANTS = {"true": True, "false": False, "null": None}


def parse(text: str) -> Any:
    """The value that `text` stands for; ValueError if there is none, or more."""
    value, end = _value(text, 0)
    if text[end:].strip():
        raise ValueError(f"more than one value: {text!r}")
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    at = _skip(text, at)
    match text[at : at + 1]:
        case "{":
            return _object(text, at + 1)
        case "[":
            return _list(text, at + 1)
        case '"':
            return json.JSONDecoder().raw_decode(text, at)
        case _:
            found = WORD.match(text, at)
            assert found is not None
            return word(found[0].strip()), found.end()


def word(text: str) -> Any:
    if text in CONSTANTS:
        return CONSTANTS[text]
    if NUMBER.fullmatch(text):
        return json.loads(text)
    if found := DURATION.fullmatch(text):
        return int(found[1]) * UNITS_NS[found[2]]
    return text


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    fields = dict[str, Any]()
    while not text.startswith("}", at := _skip(text, at)):
        key = KEY.match(text, at)
        if key is None:
            raise ValueError(f"no key at {text[at:]!r}")
        fields[key[2] if key[1] is None else key[1]], at = _value(text, key.end())
        at = _after(text, at, "}")
    return fields, at + 1


def _list(text: str, at: int) -> tuple[list[Any], int]:
    values = list[Any]()
    while not text.startswith("]", at := _skip(text, at)):
        value, at = _value(text, at)
        values.append(value)
        at = _after(text, at, "]")
    return values, at + 1


def _after(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    if text.startswith(",", at):
        return at + 1
    if not text.startswith(end, at):
        raise ValueError(f"neither a comma nor {end} at {text[at:]!r}")
    return at


def _skip(text: str, at: int) -> int:
    while text.startswith(" ", at):
        at += 1
    return at
