"""Archives that nats-server made: those in `golden` were, by the versions in their names, of one stream:

12 messages on s.0 to s.2, every fourth with a header, the sixth with a time to live; the first two purged, the fifth
and the last deleted; a consumer that got five, acknowledged the first and the fourth, and refused the second, which it
got again.
"""

import random
from functools import partial
from pathlib import Path

import pytest

from tidelog.base.errors import StorageError
from tidelog.disk.memory import MemoryDisk
from tidelog.log.record import checksum
from tidelog.stream.archive import IDENTIFIER, masked
from tidelog.stream.peer_archive import MAGIC
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.unpack import Unpacker
from unit.stream.quay import Quay

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.s2"))
CONFIG = StreamConfig(name="S", subjects=["s.>"], max_msg_size=-1, allow_msg_ttl=True)


def arrival(quay: Quay) -> Unpacker:
    disk, path = quay.account.begin_restore(CONFIG)
    return Unpacker(disk, path, partial(quay.account.restored_log, CONFIG, disk, path), first_seq=3)


def restored(quay: Quay, data: bytes, piece: int = 1000) -> Stream:
    unpacker = arrival(quay)
    for start in range(0, len(data), piece):
        unpacker.feed(data[start : start + piece])
    return quay.account.restore(CONFIG, unpacker.close(), unpacker.disk, unpacker.directory)


def refusal(quay: Quay, data: bytes) -> str:
    """Why it is not restored; empty: it is."""
    unpacker = arrival(quay)
    try:
        unpacker.feed(data)
        quay.account.restore(CONFIG, unpacker.close(), unpacker.disk, unpacker.directory)
    except StorageError as error:
        unpacker.abandon()
        return str(error)
    return ""


def framed(data: bytes) -> bytes:
    size = (len(data) + 4).to_bytes(3, "little")
    return IDENTIFIER + b"\x01" + size + masked(checksum(data)).to_bytes(4, "little") + data


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_what_nats_server_made_is_read(path: Path, piece: int) -> None:
    """ARCHIVE-1"""
    quay = Quay()
    stream = restored(quay, path.read_bytes(), piece)
    state = stream.log.state()
    assert (state.first_seq, state.last_seq, state.messages, state.lost) == (3, 12, 8, ())
    for seq in (3, 4, 6, 7, 8, 9, 10, 11):
        message = stream.get(seq)
        assert message is not None
        assert message.subject == b"s.%d" % (seq % 3)
        assert message.payload == b"payload %d " % seq * 20
        assert message.header == (
            b"NATS/1.0\r\nA: %d\r\n\r\n" % seq
            if seq % 4 == 0
            else b"NATS/1.0\r\nNats-TTL: 1000000h\r\n\r\n"
            if seq == 6
            else b""
        )
    assert len(stream.log.expiries) == 1
    consumer = stream.consumers["c"]
    info = quay.info(consumer)
    assert (info.delivered.stream_seq, info.ack_floor.stream_seq) == (8, 3)
    assert (info.num_ack_pending, info.num_redelivered, info.num_pending) == (3, 1, 3)
    assert consumer.config.description == "golden"
    assert [one.seq for one in quay.fetch(consumer, 3)] == [9, 10, 11]
    quay.advance(30)
    assert [one.numbers[:2] for one in quay.fetch(consumer, 10)][:3] == [(3, 4), (2, 6), (2, 8)]
    assert quay.publish(b"s.new")["seq"] == 13
    quay.restart()
    assert quay.account.find("S").log.state().messages == 9


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_what_is_cut_short_or_damaged_is_refused(path: Path) -> None:
    """ARCHIVE-1: whatever the bytes are, nothing but a refusal comes of it."""
    data = path.read_bytes()
    for cut in range(0, len(data), 50):
        assert refusal(Quay(), data[:cut])
    chance = random.Random(1)
    for _ in range(200):
        broken = bytearray(data)
        broken[chance.randrange(10, len(data))] ^= 1 << chance.randrange(8)
        quay = Quay()
        if not refusal(quay, bytes(broken)):
            # It was in what fills the end of a tar.
            assert quay.account.find("S").log.state().messages == 8


STATE = b"\x0a\x00\x00\x00\x10state.json" + b'{"last_seq": 5} '


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (b"\x01\x00\x05\x00\x01ax", "does not begin"),
        (STATE, "not complete"),
        (STATE + b"\x01\x00\x00\x00\x01ax", "does not know"),
        (STATE + b"\x01\x00\x02\x00\x01ax" * 2, "not where it belongs"),
        (STATE + b"\x02\x00\x02\x00\x01a.x", "cannot be"),
        (STATE + b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01ax", "has the sequence"),
        (STATE + b"\x01" + b"\xff" * 12, "too long"),
        (STATE + b"\x01\x00\x02\x00\xff\xff\xff\xff\x7fa", "too large"),
        (STATE + b"\x0b\x00\x00\x00\x02consumers/c{}", "cannot be read"),
        (STATE.replace(b": 5} ", b':"a"}'), "cannot be read"),
    ],
)
def test_entries_that_make_no_sense_are_refused(entries: bytes, why: str) -> None:
    """ARCHIVE-1"""
    assert why in refusal(Quay(), framed(MAGIC + entries))


def test_a_stream_of_which_everything_was_deleted_goes_on_behind_it() -> None:
    quay = Quay()
    stream = restored(quay, framed(MAGIC + STATE + bytes(5)))
    assert stream.log.state().messages == 0
    assert quay.publish(b"s.new")["seq"] == 6


def test_a_stream_that_comes_back_into_memory() -> None:
    quay = Quay()
    config = CONFIG.copy()
    config.storage = "memory"
    disk, path = quay.account.begin_restore(config)
    assert isinstance(disk, MemoryDisk)
    unpacker = Unpacker(disk, path, partial(quay.account.restored_log, config, disk, path))
    unpacker.feed(GOLDEN[1].read_bytes())
    stream = quay.account.restore(config, unpacker.close(), disk, path)
    assert stream.log.state().messages == 8
