"""Sealing and syncing run side by side, and finish in any order."""

import pytest

from sim.disk import SimDisk
from sim.worker import SimWorker
from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.log.policy import SyncPolicy
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings


@pytest.mark.parametrize("seed", range(5))
def test_no_file_is_closed_while_a_job_has_it(seed: int) -> None:
    """A segment of which nothing is left is closed once it is sealed; a sync that has its file may still be coming."""
    disk, worker, chance = SimDisk(), SimWorker(), Chance(seed)
    settings = LogSettings(policy=SyncPolicy(messages=1), segment_size=512)
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    for _ in range(60):
        log.append(b"s", b"p" * 200)
        log.commit()
        log.purge(before_seq=log.store.last_seq)
        while len(worker) > 3:
            worker.step_random(chance)
    log.commit()
    worker.run_all()
    log.tick()
    worker.run_all()
    assert (log.failure, list(log.keeper.troubles)) == (None, [])
    assert len(log.store.segments) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_a_log_may_be_closed_while_jobs_have_its_files(seed: int) -> None:
    disk, worker, chance = SimDisk(), SimWorker(), Chance(seed)
    settings = LogSettings(policy=SyncPolicy(messages=1), segment_size=512)
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    for _ in range(10):
        log.append(b"s", b"p" * 200)
        log.commit()
    assert len(worker) > 3
    log.close()
    while worker.step_random(chance):
        pass
    assert (log.failure, list(log.keeper.troubles)) == (None, [])
    assert disk.open_files == []
    again, findings = open_log(disk, "log", settings, ManualClock(), worker)
    assert (findings.clean, again.state().messages) == (True, 10)


def test_a_removed_segment_goes_after_its_index() -> None:
    """So that what is left by an end between them is a segment, and not an index that nobody removes any more."""
    disk, worker = SimDisk(), SimWorker()
    log, _ = open_log(disk, "log", LogSettings(segment_size=512), ManualClock(), worker)
    for _ in range(6):
        log.append(b"s", b"p" * 200)
        log.commit()
        worker.run_all()
    log.purge(before_seq=3)
    log.commit()
    worker.run_all()
    removed = [
        line.split("log/")[1] for line in disk.trace().splitlines() if "remove" in line and ".new" not in line
    ]
    assert [name[21:24] for name in removed[:2]] == ["idx", "seg"]
    assert removed[0][:20] == removed[1][:20]
