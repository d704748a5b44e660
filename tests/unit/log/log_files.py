"""A log for tests, closed or not, with something of everything in its files."""

from tidelog.base.clock import ManualClock
from tidelog.base.work import Inline
from tidelog.disk.disk import Disk
from tidelog.log.log import Log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings

SETTINGS = LogSettings(policy=THROUGHPUT, segment_size=2048)
FIRST, SECOND, LAST = (f"log/{seq:020d}" for seq in (1, 39, 114))


def fill(disk: Disk, close: bool = True) -> Log:
    """120 messages in four segments, some deleted, trimmed and skipped."""
    clock = ManualClock()
    log, _ = open_log(disk, "log", SETTINGS, clock, Inline())
    for number in range(120):
        clock.advance(seconds=1)
        log.append(b"orders.%d" % (number % 7), b"payload %03d" % number)
        if number == 60:
            for seq in (1, 2, 40, 41, 50):
                log.remove(seq)
        log.commit()
    log.remove(118)
    log.commit()
    if close:
        log.close()
    return log
