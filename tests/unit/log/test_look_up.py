"""Single messages out of files: what is read and checked for them, and what damage beside them costs."""

from __future__ import annotations

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.limits import LOOK_UP_NEAR
from tidelog.base.work import Inline
from tidelog.disk.memory import MemoryDisk, MemoryFile
from tidelog.log.filter import Filter
from tidelog.log.header import segment_path
from tidelog.log.log import Log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings

MESSAGES = 2000
EVERY = 100
PAYLOAD = b"x" * 60


class CountingFile(MemoryFile):
    reads = 0
    read_size = 0

    def read(self, pos: int, size: int) -> bytes:
        CountingFile.reads += 1
        CountingFile.read_size += size
        return super().read(pos, size)


class CountingDisk(MemoryDisk):
    def create(self, path: str) -> MemoryFile:
        return CountingFile(super().create(path).data)

    def open(self, path: str) -> MemoryFile:
        return CountingFile(super().open(path).data)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def log(disk: CountingDisk) -> Log:
    """Closed cleanly and opened again, so that nothing is in the tail; every so many messages are rare."""
    log = opened(disk)
    for number in range(MESSAGES):
        log.append(b"rare.%d" % number if number % EVERY == 0 else b"common", PAYLOAD)
    log.commit()
    log.close()
    return opened(disk)


def opened(disk: MemoryDisk) -> Log:
    log, findings = open_log(disk, "log", LogSettings(policy=THROUGHPUT), ManualClock(), Inline())
    assert not findings.lost
    return log


def reads_of(log: Log, *seqs: int) -> int:
    before = CountingFile.reads
    for seq in seqs:
        message = log.get(seq)
        assert message is not None
        assert (message.seq, message.payload) == (seq, PAYLOAD)
    return CountingFile.reads - before


def test_far_apart_each_message_is_read_alone_and_near_by_they_come_together(log: Log) -> None:
    assert reads_of(log, 500, 500) == 1
    # Too far from the one before: alone, and so is the one behind it.
    assert reads_of(log, 500 + LOOK_UP_NEAR + 1) == 1
    near = 500 + LOOK_UP_NEAR + 1 + LOOK_UP_NEAR
    assert reads_of(log, near) == 1
    assert reads_of(log, near - 1, near + 1) == 0
    assert reads_of(log, 1000, 1000 - LOOK_UP_NEAR) == 2
    assert reads_of(log, 1000 - LOOK_UP_NEAR + 1) == 0


@pytest.mark.parametrize("backward", [False, True])
def test_a_reader_of_rare_messages_keeps_only_them(log: Log, backward: bool) -> None:
    batch = log.reader(Filter(b"rare.*"), backward=backward).read()
    wanted = list(range(1, MESSAGES, EVERY))
    assert batch.sequences() == (wanted[::-1] if backward else wanted)
    assert [message.payload for message in batch] == [PAYLOAD] * len(wanted)


def test_damage_beside_a_message_does_not_hide_it(disk: CountingDisk, log: Log) -> None:
    log.get(500)
    # A size that leads astray, in a record in front of the one that is asked for and behind the same sample.
    place = disk.files[segment_path("log", 1)]
    at = place.index((700).to_bytes(8, "little")) - 8
    place[at + 4 : at + 8] = (1 << 20).to_bytes(4, "little")
    assert reads_of(log, 699) == 1
    assert reads_of(log, 701 + LOOK_UP_NEAR) >= 1
    assert log.get(700) is None
    assert (log.fact(700), log.state().messages) == ("lost", MESSAGES - 1)


def test_a_message_that_is_damaged_itself_is_lost_and_no_other(disk: CountingDisk, log: Log) -> None:
    place = disk.files[segment_path("log", 1)]
    at = place.index((700).to_bytes(8, "little"))
    place[at + 40] ^= 1
    assert log.get(700) is None
    assert log.fact(700) == "lost"
    # The closer look that found the damage has those beside it.
    assert reads_of(log, 699, 701) == 0
    assert log.state().messages == MESSAGES - 1


def test_after_a_clean_open_no_index_file_is_kept(log: Log) -> None:
    assert [segment.side.take_rows() for segment in log.store.segments] == [None]


@pytest.mark.parametrize("backward", [False, True])
def test_few_subjects_among_as_many_as_messages_are_found_by_the_index(
    disk: CountingDisk, backward: bool
) -> None:
    log = opened(disk)
    for number in range(MESSAGES):
        log.append(b"s.%d.%d" % divmod(number, 1000), PAYLOAD)
    log.commit()
    log.close()
    log = opened(disk)
    before = CountingFile.read_size
    batch = log.reader(Filter(b"s.*.500"), backward=backward).read()
    assert batch.sequences() == ([1501, 501] if backward else [501, 1501])
    # All of them are some 200 KB.
    assert CountingFile.read_size - before < 20_000
