"""The files of a log: their names, and the header of a segment (docs/formats/log.md)."""

import struct
from contextlib import suppress
from dataclasses import dataclass

from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.record import Record
from tidelog.disk.disk import Disk
from tidelog.log.flip import find_flip, flipped
from tidelog.log.record import checksum

MAGIC = b"TIDESEG1"
VERSION = 1
# A husk: its messages are shells, which a program that knows version 1 only must not take for damage.
HUSK_VERSION = 2
HEADER_SIZE = 64
PACKED = 1
# Behind the name of a file that is being written.
NEW = ".new"
# Of a segment that has come back from elsewhere; nobody looks for it when the log is opened.
WARM = ".warm"

_BODY_POS = 12
_BODY = struct.Struct("<HH16sQq16x")


@dataclass(frozen=True, eq=False, repr=False)
class SegmentHeader(Record):
    log_id: bytes
    base_seq: int
    created_ns: int
    flags: int = 0
    version: int = VERSION

    @property
    def husk(self) -> bool:
        return self.version == HUSK_VERSION


class NotASegment(StorageError):
    """A file that does not begin as a segment does."""


def segment_header(
    log_id: bytes, base_seq: int, created_ns: int, flags: int = 0, version: int = VERSION
) -> bytes:
    body = _BODY.pack(version, flags, log_id, base_seq, created_ns)
    return MAGIC + checksum(body).to_bytes(4, "little") + body


def read_header(data: bytes, path: str) -> SegmentHeader:
    if len(data) < HEADER_SIZE or data[:8] != MAGIC:
        raise NotASegment(f"{path} is not a segment of a log")
    body = data[12:HEADER_SIZE]
    if int.from_bytes(data[8:12], "little") != checksum(body):
        raise NotASegment(f"{path}: the header is damaged")
    version, flags, log_id, base_seq, created_ns = _BODY.unpack(body)
    if version not in (VERSION, HUSK_VERSION):
        raise StorageError(
            f"{path} has version {version}; this program reads versions {VERSION} and {HUSK_VERSION}"
        )
    return SegmentHeader(log_id, base_seq, created_ns, flags, version)


def mended_header(data: bytes, base_seq: int) -> bytes | None:
    """That of the segment with this base, of which one bit was flipped. None: more than that is wrong."""
    if len(data) < HEADER_SIZE:
        return None
    body, said = data[_BODY_POS:HEADER_SIZE], int.from_bytes(data[len(MAGIC) : _BODY_POS], "little")
    if said != checksum(body):
        bit = find_flip(body, said)
        if bit is None:
            return None
        body = flipped(body, bit) if bit >= 0 else body
    version, flags, log_id, found_seq, created_ns = _BODY.unpack(body)
    # What is known of it says whether it was this bit.
    right = segment_header(log_id, base_seq, created_ns, flags)
    return right if (version, found_seq) == (VERSION, base_seq) and right[_BODY_POS:] == body else None


def segment_path(directory: str, base_seq: int) -> str:
    return f"{directory}/{base_seq:020d}.seg"


def index_path(directory: str, base_seq: int) -> str:
    return f"{directory}/{base_seq:020d}.idx"


def warm_path(directory: str, base_seq: int, number: int) -> str:
    """Where a segment of which only a husk is left is put when it comes back for the `number`th time, for a while."""
    return f"{directory}/{base_seq:020d}-{number}{WARM}"


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
