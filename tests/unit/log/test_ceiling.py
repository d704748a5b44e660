"""Sequences that the power may have taken are not used again, whatever happens next."""

from __future__ import annotations

import pytest

from sim.disk import SimDisk
from sim.medium import NOTHING
from sim.worker import SimWorker
from tidelog.base.clock import ManualClock
from tidelog.base.limits import CEILING_STEP
from tidelog.log.log import Log
from tidelog.log.policy import STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings


def opened(disk: SimDisk, policy: SyncPolicy = THROUGHPUT) -> Log:
    return open_log(disk, "log", LogSettings(policy=policy), ManualClock(), SimWorker())[0]


def after_a_power_cut() -> SimDisk:
    """100 messages were acknowledged, and none of them is left."""
    disk = SimDisk()
    log = opened(disk)
    disk.sync_directory("log")
    disk.sync_directory("")
    for _ in range(100):
        log.append(b"s", b"p")
    log.commit()
    disk.power_cut(NOTHING)
    return disk.reopen()


@pytest.mark.parametrize("policy", [THROUGHPUT, STRICT])
def test_a_log_goes_on_above_its_ceiling(policy: SyncPolicy) -> None:
    """Also with a policy that needs none: the one before did."""
    log = opened(after_a_power_cut(), policy)
    assert log.state().messages == 0
    assert log.append(b"s", b"p") == CEILING_STEP + 1


def test_what_was_left_out_stays_so_when_the_process_ends_soon() -> None:
    disk = after_a_power_cut()
    log = opened(disk)
    # This raises the ceiling, of this boot now; and nothing is committed before the end.
    assert log.append(b"s", b"p") == CEILING_STEP + 1
    disk.kill()
    log = opened(disk.reopen())
    assert log.append(b"s", b"p") == CEILING_STEP + 1
