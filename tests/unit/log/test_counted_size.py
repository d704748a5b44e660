"""A log leaves out of each record what its settings say, in its figures and in its limits."""

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.work import Inline
from tidelog.disk.memory import MemoryDisk
from tidelog.log.log import LimitReached, Log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.record import RECORD_HEADER_SIZE
from tidelog.log.recover import open_log
from tidelog.log.settings import Limits, LogSettings


def open_with(uncounted: int, limits: Limits, disk: MemoryDisk | None = None) -> Log:
    settings = LogSettings(policy=THROUGHPUT, limits=limits, uncounted=uncounted)
    return open_log(disk or MemoryDisk(), "log", settings, ManualClock(), Inline())[0]


@pytest.mark.parametrize("uncounted", [0, 2, RECORD_HEADER_SIZE])
def test_what_is_left_out_is_left_out_of_every_record(uncounted: int) -> None:
    disk = MemoryDisk()
    log = open_with(uncounted, Limits(), disk)
    for number in range(3):
        log.append(b"ab", b"x" * number)
    each = RECORD_HEADER_SIZE - uncounted + 2
    assert log.state().size == log.counted_size() == 3 * each + 3
    log.remove(2)
    assert log.counted_size() == 2 * each + 2
    log.close()
    assert open_with(uncounted, Limits(), disk).counted_size() == 2 * each + 2


def test_the_oldest_go_when_the_counted_size_is_beyond_the_limit() -> None:
    each = 16 + 2 + 10
    log = open_with(RECORD_HEADER_SIZE - 16, Limits(max_size=3 * each))
    for _ in range(3):
        log.append(b"ab", b"0123456789")
    assert log.state().first_seq == 1
    log.append(b"ab", b"0123456789")
    assert (log.state().first_seq, log.state().messages) == (2, 3)


def test_the_newest_is_refused_when_the_counted_size_would_be_beyond_the_limit() -> None:
    each = 16 + 2 + 10
    log = open_with(RECORD_HEADER_SIZE - 16, Limits(max_size=3 * each, discard_new=True))
    for _ in range(3):
        log.append(b"ab", b"0123456789")
    with pytest.raises(LimitReached, match="maximum bytes exceeded"):
        log.append(b"ab", b"")
