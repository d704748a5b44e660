"""Archives: a whole stream as a row of bytes, for backups. docs/formats/archive.md has the bytes.

    pieces = Packer(members(stream, consumers=True)).read(size)        b"" at the end

What reads one back is `unpack`.

Promises
  * An archive is the stream at one moment: what comes or goes while it is read is not in it.

How: the outside is what tools of NATS can read, a snappy stream (in which nothing is compressed) around a tar. In it
are the files of the log as they are. Segments only grow or are replaced by new files, so those that are opened at the
moment of the snapshot, up to the size that they have then, are the stream at that moment.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import ARCHIVE_FRAME_SIZE, ARCHIVE_TRIES
from tidelog.disk.disk import Disk, File
from tidelog.log.record import checksum
from tidelog.stream.catalog import CONSUMERS, LOG, META

if TYPE_CHECKING:
    from tidelog.stream.stream import Stream

DESCRIPTION = "tidelog.json"
VERSION = 1
# A member is one of these and nothing else.
NAME = re.compile(
    rf"{re.escape(DESCRIPTION)}|{LOG}/(\d{{20}}\.(seg|idx)|cursors)"
    rf"|{CONSUMERS}/[A-Za-z0-9_$%-][A-Za-z0-9_$%.-]*/({META}|state\.[01])"
)
BLOCK = 512
IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
STREAM_ID, PACKED, PLAIN = 0xFF, 0x00, 0x01
MASK_DELTA = 0xA282EAD8


class Description(msgspec.Struct):
    """What an archive says of itself, in its first member."""

    version: int
    name: str
    created_ns: int
    config: msgspec.Raw


class Member:
    """A file as it is at one moment."""

    def __init__(self, name: str, file: File | None, data: bytes = b"") -> None:
        self.name = name
        self.file = file
        self.data = data
        self.size = file.size if file is not None else len(data)

    def read(self, pos: int, size: int) -> bytes:
        size = min(size, self.size - pos)
        return self.file.read(pos, size) if self.file is not None else self.data[pos : pos + size]


# ---- packing ----


def members(stream: Stream, *, consumers: bool) -> list[Member]:
    """All that a stream is made of, as it is now. What is not written yet is written for that."""
    stream.commit()
    if stream.log.refusal is not None:
        raise StorageError(f"not all of the stream could be written: {stream.log.refusal}")
    if any(segment.husk for segment in stream.log.store.segments):
        raise StorageError("a part of the stream is in the cold tier only, and a backup would not have it")
    config = msgspec.Raw(msgspec.json.encode(stream.config))
    about = Description(VERSION, stream.name, stream.created_ns, config)
    found = [Member(DESCRIPTION, None, msgspec.json.encode(about))]
    for attempt in range(ARCHIVE_TRIES):
        try:
            found += opened(stream.log.disk, stream.log.store.path, LOG)
            break
        except DiskFailed:
            # Retention has just removed one.
            if attempt == ARCHIVE_TRIES - 1:
                raise
            found = found[:1]
    if consumers and stream.keeper is not None:
        for name, path in stream.keeper.paths.items():
            consumer = stream.consumers[name]
            target, state = stream.keeper.store.document(path, consumer)
            # That is not where it is kept.
            stream.keeper.changed(consumer)
            directory = f"{CONSUMERS}/{path.rpartition('/')[2]}"
            found.append(Member(f"{directory}/{META}", stream.log.disk.open(f"{path}/{META}")))
            found.append(Member(f"{directory}/{target.rpartition('/')[2]}", None, state))
    return found


def opened(disk: Disk, path: str, name: str) -> list[Member]:
    """The files of a directory that belong into an archive."""
    return [
        Member(f"{name}/{one}", disk.open(f"{path}/{one}"))
        for one in disk.list(path)
        if NAME.fullmatch(f"{name}/{one}")
    ]


class Packer:
    """The bytes of an archive, as many as are asked for at a time."""

    def __init__(self, found: list[Member]) -> None:
        self.members = found
        self._frames = self._framed(found)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end."""
        parts, there = [self._rest], len(self._rest)
        while there < size:
            frame = next(self._frames, None)
            if frame is None:
                break
            parts.append(frame)
            there += len(frame)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def close(self) -> None:
        for member in self.members:
            if member.file is not None:
                member.file.close()
        self.members = []

    def _framed(self, found: list[Member]) -> Iterator[bytes]:
        yield IDENTIFIER
        for data in tarred(found):
            head = (len(data) + 4).to_bytes(3, "little")
            yield b"%c%s%s%s" % (PLAIN, head, masked(checksum(data)).to_bytes(4, "little"), data)


def tarred(found: list[Member]) -> Iterator[bytes]:
    for member in found:
        info = tarfile.TarInfo(member.name)
        info.size = member.size
        yield info.tobuf(tarfile.USTAR_FORMAT)
        for pos in range(0, member.size, ARCHIVE_FRAME_SIZE):
            data = member.read(pos, ARCHIVE_FRAME_SIZE)
            if len(data) != min(ARCHIVE_FRAME_SIZE, member.size - pos):
                raise StorageError(f"{member.name} has become shorter")
            yield data
        if member.size % BLOCK:
            yield bytes(BLOCK - member.size % BLOCK)
    yield bytes(2 * BLOCK)


def masked(crc: int) -> int:
    """As checksums stand in a snappy stream."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFF_FFFF
