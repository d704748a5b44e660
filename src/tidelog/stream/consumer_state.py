"""The bytes in which it is kept where a consumer stands. docs/formats/consumer.md has the layout.

What cannot be read as a whole is not read at all: a consumer that does not know where it stood delivers again.
"""

import struct
from typing import NamedTuple

from tidelog.base.errors import StorageError
from tidelog.log.record import checksum

MAGIC = b"TIDECON1"
VERSION = 1

_FRONT = struct.Struct("<8sI")
_FACTS = struct.Struct("<HHQQQQQQqqqII")
_ITEM_SIZE = 32
_SKIP_SIZE = 8
HEADER_SIZE = _FRONT.size + _FACTS.size


class State(NamedTuple):
    """`items` and `skips` are packed as `Position.pack` writes them."""

    number: int  # grows with every state that is written
    next_seq: int
    dseq: int
    delivered_seq: int
    floor_dseq: int
    floor_seq: int
    delivered_ns: int
    acked_ns: int
    written_ns: int
    items: bytes = b""
    skips: bytes = b""


def encode_state(state: State) -> bytes:
    facts = _FACTS.pack(
        VERSION, 0, *state[:9], len(state.items) // _ITEM_SIZE, len(state.skips) // _SKIP_SIZE
    )
    body = facts + state.items + state.skips
    return _FRONT.pack(MAGIC, checksum(body)) + body


def decode_state(data: bytes) -> State:
    """Raises StorageError."""
    if len(data) < HEADER_SIZE:
        raise StorageError(f"it has {len(data)} bytes and should have {HEADER_SIZE} at least")
    magic, crc = _FRONT.unpack_from(data)
    if magic != MAGIC or crc != checksum(data[_FRONT.size :]):
        raise StorageError("its checksum is wrong")
    version, _, *facts, items, skips = _FACTS.unpack_from(data, _FRONT.size)
    if version != VERSION:
        raise StorageError(f"it is of version {version}, this program knows {VERSION}")
    middle = HEADER_SIZE + items * _ITEM_SIZE
    if len(data) != middle + skips * _SKIP_SIZE:
        raise StorageError(f"it has {len(data)} bytes and should have {middle + skips * _SKIP_SIZE}")
    return State._make([*facts, data[HEADER_SIZE:middle], data[middle:]])
