"""Nothing in a new segment is acknowledged before the segment's name is on the medium."""

from collections.abc import Callable
from typing import Any

from tidelog.base.clock import ManualClock
from tidelog.disk.memory import MemoryDisk
from tidelog.log.policy import STRICT
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings


class Names(MemoryDisk):
    """Notes when the directory's names are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def sync_directory(self, path: str) -> None:
        self.events.append("names")
        super().sync_directory(path)


class Later:
    """Does jobs when told."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))

    def run_all(self) -> None:
        while self.jobs:
            job, done = self.jobs.pop(0)
            done(job(), None)


def test_the_sync_that_covers_a_new_segment_covers_its_name() -> None:
    disk, worker = Names(), Later()
    log, _ = open_log(disk, "log", LogSettings(policy=STRICT, segment_size=256), ManualClock(), worker)
    log.append(b"s", b"p" * 150)
    log.commit()
    worker.run_all()
    disk.events.clear()
    log.append(b"s", b"p" * 150)
    log.commit()
    assert len(log.store.segments) == 2
    log.wait(2, lambda _: disk.events.append("acknowledged"))
    worker.run_all()
    assert disk.events[0] == "names"
    assert "acknowledged" in disk.events
