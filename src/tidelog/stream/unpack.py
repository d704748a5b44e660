"""Archives read back: those that this server makes, and those of nats-server.

    unpacker = Unpacker(disk, directory, open_log)
    unpacker.feed(data), unpacker.close()        puts the files of the stream below `directory`

Promises
  * Reading one back puts nothing anywhere but below the directory, whatever the bytes are, and what is not whole is
    refused (ARCHIVE-1).
  * It takes the memory of one frame, and for archives of nats-server that of the message that is being read.

How: the outside is a snappy or S2 stream. In it is what nats-server makes from 2.15 on (tidelog.stream.peer_archive),
or a tar, whose first member tells who made it: ours has files that are taken as they are (`Files`), that of an older
nats-server others that are made into a log (tidelog.stream.peer_files).
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import Protocol

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.limits import ARCHIVE_BLOCK_SIZE
from tidelog.base.s2 import decode
from tidelog.disk.disk import Disk, File
from tidelog.log.log import Log
from tidelog.log.record import checksum
from tidelog.stream.archive import (
    BLOCK,
    DESCRIPTION,
    NAME,
    PACKED,
    PLAIN,
    STREAM_ID,
    VERSION,
    Description,
    masked,
)
from tidelog.stream.catalog import LOG
from tidelog.stream.peer_archive import MAGIC, PeerArchive
from tidelog.stream.peer_files import PEER_DESCRIPTION, PeerFiles


class Inside(Protocol):
    """What is in the frames. All raise StorageError for what they do not want."""

    def feed(self, data: bytes) -> None: ...

    def close(self) -> Description:
        """That was all."""

    def abandon(self) -> None: ...


class Taker(Protocol):
    """What becomes of the members of a tar."""

    def begin(self, name: str) -> None: ...

    def put(self, part: bytes) -> None: ...

    def finish(self) -> None:
        """Of the member."""

    def close(self) -> Description: ...

    def abandon(self) -> None: ...


class Unpacker:
    def __init__(self, disk: Disk, directory: str, open_log: Callable[[], Log], first_seq: int = 0) -> None:
        """`open_log`: the log below the directory, for messages that are put into it one by one.

        `first_seq`: where the stream begins, as the request to restore says.
        """
        self.disk = disk
        self.directory = directory
        self.open_log = open_log
        self.first_seq = first_seq
        self.size = 0  # bytes that came
        self.inside: Inside | None = None
        self._frames = bytearray()
        self._front = b""
        self._begun = False

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
        if self._frames or self.inside is None:
            raise StorageError("the archive is not complete")
        description = self.inside.close()
        for directory in (f"{self.directory}/{LOG}", self.directory):
            if self.disk.exists(directory):
                self.disk.sync_directory(directory)
        return description

    def abandon(self) -> None:
        if self.inside is not None:
            self.inside.abandon()

    def _take_frame(self, kind: int, body: bytes) -> None:
        if not self._begun:
            self._begun = True
        elif kind in (PACKED, PLAIN):
            data = body[4:]
            if kind == PACKED:
                try:
                    data = decode(data, ARCHIVE_BLOCK_SIZE)
                except ValueError as error:
                    raise StorageError(f"the archive is damaged: {error}") from None
            if int.from_bytes(body[:4], "little") != masked(checksum(data)):
                raise StorageError("the archive is damaged")
            self._take(data)
        elif kind < 0x80:
            raise StorageError(f"the archive has a frame of kind {kind}, which this program does not know")

    def _take(self, data: bytes) -> None:
        if self.inside is None:
            self._front += data
            if len(self._front) < len(MAGIC):
                return
            data = self._front
            if data.startswith(MAGIC):
                self.inside = PeerArchive(self.disk, self.directory, self.open_log)
                data = data[len(MAGIC) :]
            else:
                self.inside = Tar(self.disk, self.directory, self.open_log, self.first_seq)
        self.inside.feed(data)


class Tar:
    """Members, one after the other."""

    def __init__(self, disk: Disk, directory: str, open_log: Callable[[], Log], first_seq: int) -> None:
        self.disk = disk
        self.directory = directory
        self.open_log = open_log
        self.first_seq = first_seq
        self.taker: Taker | None = None
        self._tar = bytearray()
        self._left = 0  # of the member that is being read
        self._padding = 0
        self._extended: bytearray | None = None  # what is said of the next member
        self._name = ""
        self._ended = False

    def close(self) -> Description:
        if not self._ended or self.taker is None:
            raise StorageError("the archive is not complete")
        return self.taker.close()

    def abandon(self) -> None:
        if self.taker is not None:
            self.taker.abandon()

    def feed(self, data: bytes) -> None:
        self._tar += data
        tar = self._tar
        while tar and not self._ended:
            if self._left:
                part = bytes(tar[: self._left])
                del tar[: len(part)]
                self._left -= len(part)
                self._put(part)
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
        self._left = info.size
        self._padding = -info.size % BLOCK
        if info.type == tarfile.XHDTYPE and info.size <= BLOCK * BLOCK:
            self._extended = bytearray()
            return
        name = self._name or info.name
        self._name = ""
        if not info.isreg():
            raise StorageError(f"the archive was not made by a server: {name!r} in it is no file")
        if self.taker is None:
            self.taker = self._taker_for(name)
        self.taker.begin(name)
        if info.size == 0:
            self._finish_member()

    def _taker_for(self, name: str) -> Taker:
        if name == DESCRIPTION:
            return Files(self.disk, self.directory)
        if name == PEER_DESCRIPTION:
            return PeerFiles(self.disk, self.directory, self.open_log, self.first_seq)
        raise StorageError("the archive does not begin with what it is")

    def _put(self, part: bytes) -> None:
        if self._extended is not None:
            self._extended += part
        elif self.taker is not None:
            self.taker.put(part)

    def _finish_member(self) -> None:
        if self._extended is not None:
            self._name = path_in(bytes(self._extended))
            self._extended = None
        elif self.taker is not None:
            self.taker.finish()


def path_in(extended: bytes) -> str:
    """The name that an extended header gives the member behind it; empty: it gives none."""
    path = ""
    while extended:
        size, _, rest = extended.partition(b" ")
        if not size.isdigit() or not 0 < int(size) <= len(extended):
            raise StorageError("the archive is damaged: a header cannot be read")
        key, _, value = rest[: int(size) - len(size) - 1].partition(b"=")
        if key == b"path":
            path = value.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        extended = extended[int(size) :]
    return path


class Files:
    """The members of an archive of ours: files as they are."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.description: Description | None = None
        self._file: File | None = None
        self._text: bytearray | None = None

    def begin(self, name: str) -> None:
        if NAME.fullmatch(name) is None:
            raise StorageError(f"the archive was not made by this kind of server: it has {name!r} in it")
        if name == DESCRIPTION:
            if self.description is not None:
                raise StorageError("the archive says twice what it is")
            self._text = bytearray()
        else:
            path = f"{self.directory}/{name}"
            self.disk.make_directory(path.rpartition("/")[0])
            self._file = self.disk.create(path)

    def put(self, part: bytes) -> None:
        if self._text is not None:
            self._text += part
        elif self._file is not None:
            self._file.append([part])

    def finish(self) -> None:
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

    def close(self) -> Description:
        if self.description is None:
            raise StorageError("the archive is not complete")
        return self.description

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
