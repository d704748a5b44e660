"""NATS header blocks: bytes to names and values, and back.

The bytes
    NATS/1.0[ <status>[ <description>]]\\r\\n
    Name: value\\r\\n        any number of times; a name may come again and then has several values, in order
    \\r\\n

What it promises: names keep their case and are compared by it, values keep their order, and whatever `encode`
accepts `decode` returns. `encode` refuses what would break the block (line ends anywhere, a colon or blanks
in a name). `decode` is lenient, because blocks are written by strangers: white space around a value is not
part of it, a line without a colon is passed over, bytes that are no UTF-8 survive as surrogate escapes.

What it does not do: know what any name means.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Headers = dict[str, list[str]]
"""Names to their values, as received."""

HeadersLike = Mapping[str, str | Sequence[str]]
"""What `encode` takes: a lone string is one value."""

VERSION_LINE = b"NATS/1.0"
_WHITE = b" \t"
# What has more digits is no number, as everywhere on the wire; Python itself refuses some thousands of them.
_STATUS_DIGITS = 9
# Visible ASCII and anything beyond ASCII, but the colon that ends a name.
_NAME_REFUSED = frozenset(map(chr, range(0x21))) | {":", "\x7f"}


class HeaderBlock(NamedTuple):
    """`status` is 0 and `description` empty when the version line carries none."""

    status: int
    description: str
    headers: Headers


def encode(headers: HeadersLike) -> bytes:
    """The block, blank line included. Raises ValueError for a name or value that cannot stand in one."""
    lines = [VERSION_LINE]
    for name, values in headers.items():
        if not name or not _NAME_REFUSED.isdisjoint(name):
            raise ValueError(f"header name {name!r} is empty or has a colon, a blank or a control character")
        for value in (values,) if isinstance(values, str) else values:
            if "\r" in value or "\n" in value:
                raise ValueError(f"value of header {name!r} has a line end in it")
            lines.append(f"{name}: {value}".encode("utf-8", "surrogateescape"))
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def decode(block: bytes) -> HeaderBlock:
    """Read a block. Raises ValueError when its first line is not a version line."""
    lines = block.split(b"\r\n")
    if not lines[0].startswith(VERSION_LINE):
        raise ValueError(f"a header block starts with {VERSION_LINE.decode()}, not with {lines[0][:32]!r}")
    code, _, description = lines[0][len(VERSION_LINE) :].strip(_WHITE).partition(b" ")
    status = int(code) if code.isdigit() and len(code) <= _STATUS_DIGITS else 0
    headers: Headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if colon and name:
            headers.setdefault(_text(name), []).append(_text(value.strip(_WHITE)))
    return HeaderBlock(status, _text(description.strip(_WHITE)), headers)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
