"""Whole streams as a row of bytes, and back."""

import tarfile

import pytest

from tidelog.base.errors import StorageError
from tidelog.disk.memory import MemoryDisk
from tidelog.log.log import Log
from tidelog.log.record import checksum
from tidelog.stream.archive import IDENTIFIER, Member, Packer, masked, members
from tidelog.stream.stream import Stream
from tidelog.stream.unpack import Unpacker
from unit.stream.shore import Shore, contents


def no_log() -> Log:
    raise AssertionError("archives of ours have logs as they are")


def packed(stream: Stream, size: int = 1000) -> bytes:
    packer = Packer(members(stream, consumers=True))
    pieces = []
    while piece := packer.read(size):
        pieces.append(piece)
    packer.close()
    assert all(len(piece) == size for piece in pieces[:-1])
    return b"".join(pieces)


def framed(data: bytes) -> bytes:
    return (
        b"\x01" + (len(data) + 4).to_bytes(3, "little") + masked(checksum(data)).to_bytes(4, "little") + data
    )


def tar_head(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.type = kind
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.fixture
def stream() -> Stream:
    shore = Shore()
    stream = shore.stream(allow_msg_ttl=True)
    for number in range(500):
        shore.send(b"S.%d" % (number % 7), b"p" * number, Nats_TTL="1h")
    shore.engine.commit()
    stream.delete(3)
    stream.purge(before_seq=3)
    return stream


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_stream_comes_back_as_it_was(stream: Stream, storage: str) -> None:
    data = packed(stream)
    there = Shore()
    there.clock.advance(seconds=50)
    config = stream.config.copy()
    config.storage = storage
    disk, path = there.account.begin_restore(config)
    unpacker = Unpacker(disk, path, no_log)
    for start in range(0, len(data), 777):
        unpacker.feed(data[start : start + 777])
    found = there.account.restore(config, unpacker.close(), disk, path)
    assert contents(found) == contents(stream)
    assert found.created_ns == stream.created_ns
    assert (found.log.store.first_seq, found.log.store.last_seq) == (4, 500)
    assert there.publish(b"S.x")["seq"] == 501
    if storage == "file":
        there.crash()
        assert len(contents(there.account.find("S"))) == 498
        there.advance(3600)
        assert len(contents(there.account.find("S"))) == 1


def test_what_comes_while_it_is_packed_is_not_in_it(stream: Stream) -> None:
    packer = Packer(members(stream, consumers=False))
    before = contents(stream)
    parts = [packer.read(5000)]
    stream.account.post.publish(b"S.later", b"")
    stream.purge(before_seq=100)
    stream.commit()
    while piece := packer.read(5000):
        parts.append(piece)
    there = Shore()
    disk, path = there.account.begin_restore(stream.config)
    unpacker = Unpacker(disk, path, no_log)
    unpacker.feed(b"".join(parts))
    assert contents(there.account.restore(stream.config, unpacker.close(), disk, path)) == before


def test_what_is_not_whole_is_refused(stream: Stream) -> None:
    """ARCHIVE-1"""
    data = packed(stream)
    for cut in (0, 5, 100, 5000, len(data) - 600, len(data) - 1):
        unpacker = Unpacker(MemoryDisk(), "here", no_log)
        unpacker.feed(data[:cut])
        with pytest.raises(StorageError, match="not complete"):
            unpacker.close()
        unpacker.abandon()
    broken = bytearray(data)
    broken[20_000] ^= 1
    with pytest.raises(StorageError, match="damaged"):
        Unpacker(MemoryDisk(), "here", no_log).feed(bytes(broken))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no archive at all", "no archive"),
        (IDENTIFIER + b"\x00\x05\x00\x00abcd\xff", "damaged"),
        (IDENTIFIER + b"\x02\x04\x00\x00abcd", "kind 2"),
        (IDENTIFIER + framed(tar_head("index.html", 5) + b"xxxxx" + bytes(507)), "does not begin"),
        (IDENTIFIER + framed(tar_head("log/00000000000000000001.seg", 5)), "does not begin"),
        (IDENTIFIER + framed(tar_head("tidelog.json", 2) + b"{}" + bytes(510)), "cannot be read"),
        (
            IDENTIFIER
            + framed(
                tar_head("tidelog.json", 54)
                + b'{"version":2,"name":"S","created_ns":1,"config":{}}   '
                + bytes(458)
            ),
            "version 2",
        ),
        (IDENTIFIER + framed(b"x" * 512), "damaged"),
    ],
)
def test_what_is_something_else_is_refused(data: bytes, why: str) -> None:
    """ARCHIVE-1"""
    with pytest.raises(StorageError, match=why):
        Unpacker(MemoryDisk(), "here", no_log).feed(data)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "log/../../x",
        "log/x",
        "log/00000000000000000001.seg/x",
        "consumers/..",
        "consumers/a/b/c",
    ],
)
def test_nothing_is_put_elsewhere(stream: Stream, name: str) -> None:
    """ARCHIVE-1"""
    disk = MemoryDisk()
    unpacker = Unpacker(disk, "here", no_log)
    about = members(stream, consumers=False)[0]
    text = about.read(0, about.size)
    unpacker.feed(IDENTIFIER + framed(tar_head("tidelog.json", len(text)) + text + bytes(-len(text) % 512)))
    with pytest.raises(StorageError):
        unpacker.feed(framed(tar_head(name, 1)))
    assert disk.files == {}


def test_links_are_refused() -> None:
    """ARCHIVE-1"""
    unpacker = Unpacker(MemoryDisk(), "here", no_log)
    unpacker.feed(IDENTIFIER)
    with pytest.raises(StorageError, match="not made by"):
        unpacker.feed(framed(tar_head("tidelog.json", 0, tarfile.SYMTYPE)))


def test_a_file_that_became_shorter_is_told() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    file.append([b"123456"])
    member = Member("log/00000000000000000001.seg", file)
    file.truncate(3)
    with pytest.raises(StorageError, match="shorter"):
        Packer([member]).read(10_000)
