"""Archives: a whole stream as a row of bytes, for backups. docs/formats/archive.md has the bytes.

    pieces = Packer(members(stream, consumers=True)).read(size)        b"" at the end
    unpacker = Unpacker(disk, directory)
    unpacker.feed(data), unpacker.close()                              puts the files of the stream below `directory`

Promises
  * An archive is the stream at one moment: what comes or goes while it is read is not in it.
  * Reading one back puts nothing anywhere but below the directory, whatever the bytes are, and what is not whole is
    refused (ARCHIVE-1).

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
STREAM_ID, PLAIN, PADDING = 0xFF, 0x01, 0xFE
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


# ---- unpacking ----


class Unpacker:
    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.description: Description | None = None
        self.size = 0  # bytes that came
        self._frames = bytearray()
        self._tar = bytearray()
        self._file: File | None = None
        self._text: bytearray | None = None
        self._left = 0  # of the member that is being read
        self._padding = 0
        self._begun = False
        self._ended = False

    def feed(self, data: bytes) -> None:
        """More of the archive. Raises StorageError."""
        self.size += len(data)
        self._frames += data
        if self._frames and not self._begun and self._frames[0] != STREAM_ID:
            raise StorageError("this is no archive of a stream")
        frames, pos = self._frames, 0
        while len(frames) - pos >= 4:
            size = int.from_bytes(frames[pos + 1 : pos + 4], "little")
            if len(frames) - pos < 4 + size:
                break
            self._take_frame(frames[pos], bytes(frames[pos + 4 : pos + 4 + size]))
            pos += 4 + size
        del frames[:pos]

    def close(self) -> Description:
        """That was all; what was put down is synced."""
        if self._frames or not self._ended or self.description is None:
            raise StorageError("the archive is not complete")
        for directory in (f"{self.directory}/{LOG}", self.directory):
            if self.disk.exists(directory):
                self.disk.sync_directory(directory)
        return self.description

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take_frame(self, kind: int, body: bytes) -> None:
        if not self._begun:
            self._begun = True
        elif kind == PLAIN:
            data = body[4:]
            if int.from_bytes(body[:4], "little") != masked(checksum(data)):
                raise StorageError("the archive is damaged")
            self._take_tar(data)
        elif kind < 0x80:
            raise StorageError("the archive is compressed in a way that only the server that made it reads")

    def _take_tar(self, data: bytes) -> None:
        self._tar += data
        tar = self._tar
        while tar and not self._ended:
            if self._left:
                part = bytes(tar[: self._left])
                self._put(part)
                self._left -= len(part)
                del tar[: len(part)]
                if self._left == 0:
                    self._finish_member()
            elif self._padding:
                size = min(self._padding, len(tar))
                self._padding -= size
                del tar[:size]
            elif len(tar) < BLOCK:
                return
            else:
                self._begin_member(bytes(tar[:BLOCK]))
                del tar[:BLOCK]

    def _begin_member(self, head: bytes) -> None:
        if not head.strip(b"\0"):
            self._ended = True
            return
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise StorageError(f"the archive is damaged: {error}") from None
        if not info.isreg() or NAME.fullmatch(info.name) is None:
            raise StorageError(f"the archive was not made by this kind of server: it has {info.name!r} in it")
        if (info.name == DESCRIPTION) != (self.description is None):
            raise StorageError("the archive does not begin with what it is")
        self._left = info.size
        self._padding = -info.size % BLOCK
        if info.name == DESCRIPTION:
            self._text = bytearray()
        else:
            path = f"{self.directory}/{info.name}"
            self.disk.make_directory(path.rpartition("/")[0])
            self._file = self.disk.create(path)
        if info.size == 0:
            self._finish_member()

    def _put(self, part: bytes) -> None:
        if self._text is not None:
            self._text += part
        elif self._file is not None:
            self._file.append([part])

    def _finish_member(self) -> None:
        if self._text is not None:
            try:
                self.description = msgspec.json.decode(self._text, type=Description)
            except msgspec.MsgspecError as error:
                raise StorageError(f"the archive cannot be read: {error}") from None
            if self.description.version != VERSION:
                raise StorageError(
                    f"the archive is of version {self.description.version}; this program reads {VERSION}"
                )
            self._text = None
        elif self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None
