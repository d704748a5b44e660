"""Requests decoded as strictly as the peer does it, and refused in its words.

`decode` fills a struct of msgspec from a document: a field that the struct does not have, a value of another type or
out of range, and text that is no JSON raise `InvalidJson`, whose message stands behind `invalid JSON: ` in what the
client is told. As at the peer, names match whatever their case, null leaves a field alone, a later value replaces an
earlier one, an empty document leaves everything as it is, and several documents in a row are filled in in turn.

A struct describes itself by the annotations of its fields: `str`, `bool`, `list[str]`, `dict[str, str]`, other
structs, `object` for anything at all, and the names below. The types that a refusal names are Go's; a struct is called
`PEER_NAME` there, or as the class is. With `strict` off unknown fields are passed over.
"""

import json
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec

from tidelog.base.errors import TidelogError
from tidelog.base.instant import read_instant
from tidelog.base.text import go_quote
from tidelog.stream.syntax import CUT_SHORT, syntax_fault

_BLANK = re.compile(r"[ \t\r\n]*")
_OFFSET = re.compile(" at offset [0-9]+$")
_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidJson(TidelogError):
    """The document cannot be taken. The message says why, in the peer's words."""


@dataclass(frozen=True)
class Integer:
    go_type: str
    least: int
    most: int


@dataclass(frozen=True)
class Choice:
    """One of some words; `absent` are spellings that mean the default. `fault` makes the refusal."""

    words: tuple[str, ...]
    fault: Callable[[str], str]
    aliases: tuple[tuple[str, str], ...] = ()
    any_case: bool = False


@dataclass(frozen=True)
class GoType:
    """What the peer calls the type of a list of structs."""

    name: str


@dataclass(frozen=True)
class Time:
    pass


Int = Annotated[int, Integer("int", -(2**63), 2**63 - 1)]
Int64 = Annotated[int, Integer("int64", -(2**63), 2**63 - 1)]
Int32 = Annotated[int, Integer("int32", -(2**31), 2**31 - 1)]
Uint64 = Annotated[int, Integer("uint64", 0, 2**64 - 1)]
# Nanoseconds.
Duration = Annotated[int, Integer("time.Duration", -(2**63), 2**63 - 1)]
# RFC 3339, as `read_instant` spells it.
Instant = Annotated[str, Time()]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object in the order in which it was written."""


class _Fraction(str):
    """A number that is not an integer, as it was written."""


def _refuse_constant(_word: str) -> None:
    raise ValueError


_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=_Fraction, parse_constant=_refuse_constant)

S = TypeVar("S", bound=msgspec.Struct)
# What reads a value: (current value, value read, path) to the new value.
_Reader = Callable[[Any, Any, "_Path"], Any]


@dataclass(frozen=True)
class _Path:
    """Where a value stands; `strict` travels along."""

    names: tuple[str | int, ...]
    strict: bool

    def below(self, name: str | int) -> "_Path":
        return _Path((*self.names, name), self.strict)

    def mismatch(self, value: object, go_type: str, *, literal: bool = False) -> InvalidJson:
        """The value is of another type than the field."""
        found = f"{_kind(value)} {value}" if literal else _kind(value)
        if len(self.names) == 1:
            where = "Go value"
            go_type = go_type if "." in go_type or "[" in go_type else f"server.{go_type}"
        else:
            dotted = ".".join(str(name) for name in self.names)
            where = dotted if isinstance(self.names[-1], int) else f"Go struct field {dotted}"
        return InvalidJson(f"json: cannot unmarshal {found} into {where} of type {go_type}")


def decode(document: bytes, kind: type[S], *, strict: bool = True) -> S:
    """A `kind` with what `document` says."""
    text = document.decode("utf-8", "replace")
    made = kind()
    read = _struct_reader(kind)
    pos = _skip_blanks(text, 0)
    while pos < len(text):
        try:
            value, pos = _DECODER.raw_decode(text, pos)
        except (ValueError, RecursionError):
            raise InvalidJson(syntax_fault(document) or "exceeded max depth") from None
        if value is not None:
            read(made, value, _Path((_peer_name(kind),), strict))
        pos = _skip_blanks(text, pos)
    return made


def decode_whole(document: bytes, kind: type[S]) -> S:
    """Where the peer is less strict: unknown fields are passed over, and faults are told in fewer words."""
    if not document.strip():
        raise InvalidJson("unexpected end of JSON input")
    try:
        return decode(document, kind, strict=False)
    except InvalidJson as fault:
        why = _OFFSET.sub("", str(fault))
        raise InvalidJson("unexpected end of JSON input" if why == CUT_SHORT else why) from None


def is_empty(document: bytes) -> bool:
    """Whether a request has nothing to say: no text, or an empty object or list."""
    if not document or document == b"{}":
        return True
    try:
        value = _DECODER.decode(document.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and not value


def _skip_blanks(text: str, pos: int) -> int:
    found = _BLANK.match(text, pos)
    assert found is not None
    return found.end()


def _kind(value: object) -> str:
    if isinstance(value, _Pairs):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, _Fraction)):
        return "number"
    return "string"


def _written(value: object) -> str:
    """A value as it may have been written."""
    if isinstance(value, _Fraction):
        return str(value)
    if isinstance(value, _Pairs):
        return "{{{}}}".format(",".join(f"{_written(key)}:{_written(item)}" for key, item in value))
    if isinstance(value, list):
        return "[{}]".format(",".join(_written(item) for item in value))
    return json.dumps(value, ensure_ascii=False)


def _peer_name(kind: type[msgspec.Struct]) -> str:
    return getattr(kind, "PEER_NAME", kind.__name__)


@cache
def _struct_reader(kind: type[msgspec.Struct]) -> _Reader:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields: dict[str, tuple[str, str, _Reader]] = {}
    for field in msgspec.structs.fields(kind):
        fields[field.encode_name.lower()] = (
            field.name,
            field.encode_name,
            _reader(hints[field.name]),
        )
    name = _peer_name(kind)

    def read(current: Any, value: Any, path: _Path) -> Any:
        made = kind() if current is None else current
        if value is None:
            return made
        if not isinstance(value, _Pairs):
            raise path.mismatch(value, f"server.{name}")
        for key, item in value:
            found = fields.get(key.lower())
            if found is None:
                if path.strict:
                    raise InvalidJson(f"json: unknown field {go_quote(key.encode('utf-8', 'replace'))}")
                continue
            attribute, spelling, read_field = found
            setattr(made, attribute, read_field(getattr(made, attribute), item, path.below(spelling)))
        return made

    return read


def _reader(annotation: Any) -> _Reader:
    metadata: tuple[Any, ...] = ()
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        inner = next(part for part in typing.get_args(annotation) if part is not type(None))
        read = _reader(inner)
        return lambda current, value, path: None if value is None else read(current, value, path)
    if typing.get_origin(annotation) is Annotated:
        metadata = annotation.__metadata__
        annotation = typing.get_args(annotation)[0]
    for mark in metadata:
        if isinstance(mark, Integer):
            return _integer_reader(mark)
        if isinstance(mark, Choice):
            return _choice_reader(mark)
        if isinstance(mark, Time):
            return _read_time
    if annotation is str:
        return _read_text
    if annotation is bool:
        return _read_bool
    if annotation == dict[str, str]:
        return _read_words
    if annotation is object:
        return lambda _current, value, _path: value
    if typing.get_origin(annotation) is list:
        return _list_reader(typing.get_args(annotation)[0], metadata)
    assert issubclass(annotation, msgspec.Struct), annotation
    return _struct_reader(annotation)


def _read_text(current: Any, value: Any, path: _Path) -> Any:
    if value is None:
        return current
    if type(value) is not str:
        raise path.mismatch(value, "string")
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def _read_bool(current: Any, value: Any, path: _Path) -> Any:
    if value is None:
        return current
    if not isinstance(value, bool):
        raise path.mismatch(value, "bool")
    return value


def _read_words(current: Any, value: Any, path: _Path) -> Any:
    if value is None:
        return {}
    if not isinstance(value, _Pairs):
        raise path.mismatch(value, "map[string]string")
    words = dict(current)
    for key, item in value:
        words[_read_text("", key, path)] = _read_text("", item, path.below(key))
    return words


def _read_time(current: Any, value: Any, path: _Path) -> Any:
    if value is None:
        return current
    if type(value) is not str:
        raise path.mismatch(value, "time.Time")
    try:
        return read_instant(value)
    except ValueError as error:
        raise InvalidJson(str(error)) from None


def _integer_reader(mark: Integer) -> _Reader:
    def read(current: Any, value: Any, path: _Path) -> Any:
        if value is None:
            return current
        if isinstance(value, bool) or not isinstance(value, int):
            raise path.mismatch(value, mark.go_type, literal=isinstance(value, _Fraction))
        if not mark.least <= value <= mark.most:
            raise path.mismatch(value, mark.go_type, literal=True)
        return value

    return read


def _choice_reader(mark: Choice) -> _Reader:
    aliases = {**{word: word for word in mark.words}, **dict(mark.aliases)}

    def read(_current: Any, value: Any, _path: _Path) -> Any:
        if type(value) is str:
            word = value.lower() if mark.any_case else value
            if word in aliases:
                return aliases[word]
        raise InvalidJson(mark.fault(_written(value)))

    return read


def _list_reader(element: Any, metadata: tuple[Any, ...]) -> _Reader:
    read_element = _reader(element)
    names = {str: "string", Duration: "time.Duration"}
    go_type = next((mark.name for mark in metadata if isinstance(mark, GoType)), None)
    go_type = go_type or f"[]{names[element]}"
    empty: Callable[[], Any] = {str: str, Duration: int}.get(element, lambda: None)

    def read(_current: Any, value: Any, path: _Path) -> Any:
        if value is None:
            return []
        if not isinstance(value, list) or isinstance(value, _Pairs):
            raise path.mismatch(value, go_type)
        return [read_element(empty(), item, path.below(index)) for index, item in enumerate(value)]

    return read
