"""The files of a log: their names, and the header of a segment (docs/formats/log.md)."""

import struct
from contextlib import suppress
from dataclasses import dataclass

from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.record import Record
from tidelog.disk.disk import Disk
from tidelog.log.record import checksum

MAGIC = b"TIDESEG1"
VERSION = 1
HEADER_SIZE = 64
PACKED = 1
# Behind the name of a file that is being written.
NEW = ".new"

_BODY = struct.Struct("<HH16sQq16x")


@dataclass(frozen=True, eq=False, repr=False)
class SegmentHeader(Record):
    log_id: bytes
    base_seq: int
    created_ns: int
    flags: int = 0


class NotASegment(StorageError):
    """A file that does not begin as a segment does."""


def segment_header(log_id: bytes, base_seq: int, created_ns: int, flags: int = 0) -> bytes:
    body = _BODY.pack(VERSION, flags, log_id, base_seq, created_ns)
    return MAGIC + checksum(body).to_bytes(4, "little") + body


def read_header(data: bytes, path: str) -> SegmentHeader:
    if len(data) < HEADER_SIZE or data[:8] != MAGIC:
        raise NotASegment(f"{path} is not a segment of a log")
    body = data[12:HEADER_SIZE]
    if int.from_bytes(data[8:12], "little") != checksum(body):
        raise NotASegment(f"{path}: the header is damaged")
    version, flags, log_id, base_seq, created_ns = _BODY.unpack(body)
    if version != VERSION:
        raise StorageError(f"{path} has version {version}; this program reads version {VERSION}")
    return SegmentHeader(log_id, base_seq, created_ns, flags)


def segment_path(directory: str, base_seq: int) -> str:
    return f"{directory}/{base_seq:020d}.seg"


def index_path(directory: str, base_seq: int) -> str:
    return f"{directory}/{base_seq:020d}.idx"


def write_new(disk: Disk, path: str, data: bytes, sync: bool) -> None:
    """Beside `path`, to be renamed to it. If that fails nothing stays: a full disk is not fuller than before."""
    new = f"{path}{NEW}"
    if disk.exists(new):
        disk.remove(new)
    try:
        file = disk.create(new)
        try:
            file.append([data])
            if sync:
                file.sync()
        finally:
            file.close()
    except DiskFailed:
        with suppress(DiskFailed):
            disk.remove(new)
        raise


def write_index(disk: Disk, path: str, data: bytes) -> None:
    """Not synced: a bad one is made again."""
    write_new(disk, path, data, sync=False)
    disk.rename(f"{path}{NEW}", path)
