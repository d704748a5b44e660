"""Sequences that the power may have taken are not used again, whatever happens next."""

from __future__ import annotations

import pytest

from sim.disk import SimDisk
from sim.medium import NOTHING
from sim.toxic import FailNth
from sim.worker import SimWorker
from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.limits import CEILING_STEP
from tidelog.log.ceiling import read_ceiling
from tidelog.log.flip import flipped
from tidelog.log.log import Log
from tidelog.log.policy import STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings
from unit.log.house import KIB, House

WEAK = LogSettings(policy=THROUGHPUT, segment_size=16 * KIB, window_size=KIB)


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


@pytest.mark.parametrize("by", ["committer", "keeper", "eraser"])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_sequences_that_went_with_a_failed_sync_are_not_used_again(by: str, told: bool, seed: int) -> None:
    """COMMIT-3: also when the process ends before its owner hears of it, or has begun to use more of them meanwhile."""
    house = House(WEAK, SimDisk(seed, survival=NOTHING))
    house.fill(20)
    if by == "eraser":
        house.log.remove(20, erase=True)
        house.log.commit()
        house.worker.run_all()
        house.log.remove(19, erase=True)
        house.log.commit()
        assert house.worker.step(), "the sync that makes the delete certain"
        assert len(house.worker) == 1, "and the erasing itself"
    house.fill(200 if by == "keeper" else 10)
    if by == "committer":
        house.log.committer.sync()
    last_seq = house.log.state().committed_seq
    house.disk.toxics.append(FailNth(1, "sync"))
    house.worker.half_step(Chance(1))
    assert house.disk.toxics[0].fired
    house.disk.toxics.clear()
    house.log.raise_ceiling()
    if told:
        house.worker.run_all()
        assert house.log.failure is not None
    house.crash()
    assert house.log.append(b"s", b"p") > last_seq


def test_a_turned_bit_of_the_ceiling_changes_nothing() -> None:
    disk = after_a_power_cut()
    file = disk.open("log/ceiling")
    whole = file.read(0, file.size)
    for bit in range(8 * len(whole)):
        assert read_ceiling(flipped(whole, bit)) == read_ceiling(whole)


def test_a_ceiling_that_cannot_be_read_is_no_reason_to_begin_again() -> None:
    """COMMIT-3: what was acknowledged and lost is not given out again."""
    disk = after_a_power_cut()
    for byte in (14, 15):
        disk.flip_bit("log/ceiling", byte, 3)
    log = opened(disk)
    assert log.state().last_seq == CEILING_STEP
    disk.power_cut(NOTHING)
    # Not once more for each opening.
    assert opened(disk.reopen(), STRICT).append(b"s", b"p") == CEILING_STEP + 1
