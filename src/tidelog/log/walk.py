"""The records of a segment one by one, and what is no record between them, with the reason.

Promises
  * What comes out covers the bytes behind the header once, in order: each place is a record, or a stretch of damage.
  * It agrees with the survey of the same bytes: a record that recovery does not take is not one here.

It is for tools: recovery and readers have their own ways, which make no object per record.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidelog.base.errors import DiskFailed, KeyUnavailable, StorageError
from tidelog.disk.disk import Disk, File
from tidelog.log.header import HEADER_SIZE, NotASegment, read_header
from tidelog.log.key_ring import KeyRing
from tidelog.log.packed import PackedFile, is_packed
from tidelog.log.packed_block import MAGIC as PACKED_MAGIC
from tidelog.log.record import RECORD_HEADER_SIZE, decode, is_valid
from tidelog.log.survey import Survey

KINDS = {1: "message", 2: "delete", 3: "trim", 4: "skip"}
HAS_EXPIRY, ERASED = 1, 2

_HEAD = struct.Struct("<IIQqBBHI")
_EXPIRY_SIZE = 8


class Place(NamedTuple):
    """`size` bytes at `pos`: a record, or none for the `reason` that is said."""

    pos: int
    size: int
    record: dict[str, Any] | None
    reason: str = ""


def open_plain(disk: Disk, path: str, keys: KeyRing | None) -> File:
    """A segment's file with the bytes of the plain segment. Raises KeyUnavailable, or StorageError."""
    file = disk.open(path)
    try:
        head = file.read(0, HEADER_SIZE + len(PACKED_MAGIC))
        described = head[HEADER_SIZE:] == PACKED_MAGIC
        if not (described or is_packed(head)):
            return file
        try:
            return PackedFile(file, keys)
        except (DiskFailed, KeyUnavailable):
            raise
        except StorageError:
            if described or has_valid_header(head):
                raise
            # Nothing but the flag in a damaged header says that it is packed.
            return file
    except Exception:
        file.close()
        raise


def has_valid_header(data: bytes) -> bool:
    try:
        read_header(data[:HEADER_SIZE], "")
    except NotASegment:
        return False
    return True


def read_plain(file: File) -> bytes:
    """All of it, with zeros for what is damaged in a packed file."""
    return file.read_lenient(0, file.size) if isinstance(file, PackedFile) else file.read(0, file.size)


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
    if flags > HAS_EXPIRY | ERASED:
        return f"flags {flags} are not known"
    front_size = RECORD_HEADER_SIZE + (_EXPIRY_SIZE if flags & HAS_EXPIRY else 0)
    if front_size + subject_size + header_size > size:
        return f"subject and headers do not fit into {size} bytes"
    if size > room:
        return f"cut short: {room} bytes of a record of {size}"
    if not is_valid(data, pos, salt):
        return f"the checksum does not match ({KINDS[kind]} {seq}, {size} bytes, if its header is right)"
    return f"valid and out of order: {KINDS[kind]} {seq} with the time {ts_ns}"
