"""The records of a segment one by one, and what is no record between them, with the reason.

Promises
  * What comes out covers the bytes behind the header once, in order: each place is a record, or a stretch of damage.
  * It agrees with the survey of the same bytes: a record that recovery does not take is not one here.

It is for tools: recovery and readers have their own ways, which make no object per record.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidelog.log.header import HEADER_SIZE
from tidelog.log.record import RECORD_HEADER_SIZE, decode, is_valid
from tidelog.log.survey import Survey

KINDS = {1: "message", 2: "delete", 3: "trim", 4: "skip"}
MESSAGE = 1
HAS_EXPIRY, ERASED, SHELL = 1, 2, 4

_HEAD = struct.Struct("<IIQqBBHI")
_EXPIRY_SIZE = 8


class Place(NamedTuple):
    """`size` bytes at `pos`: a record, or none for the `reason` that is said."""

    pos: int
    size: int
    record: dict[str, Any] | None
    reason: str = ""


def walk(data: bytes, found: Survey, salt: int) -> Iterator[Place]:
    """Everything behind the header of the segment `data`, of which `found` is the survey."""
    pos = HEADER_SIZE
    for start_pos, size in [*found.damages, (found.end, found.torn_size)]:
        while pos < start_pos:
            record = decode(data, pos, salt)
            yield Place(pos, record["size"], record)
            pos += record["size"]
        if size:
            yield Place(pos, size, None, reason(data, pos, salt))
        pos = start_pos + size


def reason(data: bytes, pos: int, salt: int) -> str:
    """Why there is no record at `pos` that recovery takes."""
    room = len(data) - pos
    if room < RECORD_HEADER_SIZE:
        return f"cut short: {room} bytes are less than a record has"
    if not any(data[pos : pos + RECORD_HEADER_SIZE]):
        return "zeros, which are no record"
    _, size, seq, ts_ns, kind, flags, subject_size, header_size = _HEAD.unpack_from(data, pos)
    if size < RECORD_HEADER_SIZE:
        return f"a record of {size} bytes is impossible"
    if kind not in KINDS:
        return f"kind {kind} is not known"
    if flags > HAS_EXPIRY | ERASED | SHELL:
        return f"flags {flags} are not known"
    front_size = RECORD_HEADER_SIZE + (_EXPIRY_SIZE if flags & HAS_EXPIRY else 0)
    if front_size + subject_size + header_size > size:
        return f"subject and headers do not fit into {size} bytes"
    if size > room:
        return f"cut short: {room} bytes of a record of {size}"
    if not is_valid(data, pos, salt):
        return f"the checksum does not match ({KINDS[kind]} {seq}, {size} bytes, if its header is right)"
    return f"valid and out of order: {KINDS[kind]} {seq} with the time {ts_ns}"
