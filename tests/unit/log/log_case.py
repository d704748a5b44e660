"""A log on a disk in memory, under a clock that a test moves, for tests of what readers and writers see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.base.clock import ManualClock
from tidelog.base.work import Inline, Worker
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.log.fact import Lost, Trimmed
from tidelog.log.header import segment_path
from tidelog.log.log import Log
from tidelog.log.policy import THROUGHPUT, SyncPolicy
from tidelog.log.read import Reader
from tidelog.log.recover import Findings, open_log
from tidelog.log.settings import Limits, LogSettings


class LogCase:
    """Segments of a few dozen messages, and a tail of a few."""

    def __init__(
        self,
        *,
        policy: SyncPolicy = THROUGHPUT,
        limits: Limits | None = None,
        worker: Worker | None = None,
        disk: Disk | None = None,
        segment_size: int = 4096,
        window_size: int = 512,
    ) -> None:
        self.memory = MemoryDisk()
        self.disk: Disk = disk or self.memory
        self.clock = ManualClock()
        self.worker = worker or Inline()
        self.settings = LogSettings(
            policy=policy, segment_size=segment_size, window_size=window_size, limits=limits or Limits()
        )
        self.findings: Findings
        self.log: Log
        self.open()

    def open(self) -> None:
        """As another process would, that the one before has left in whatever state."""
        self.log, self.findings = open_log(self.disk, "log", self.settings, self.clock, self.worker)

    def fill(self, count: int, subjects: int = 3, size: int = 40) -> None:
        """Committed one by one, a second apart; message n of the log is `n` on the subject `s.<n modulo subjects>`."""
        for _ in range(count):
            number = self.log.state().last_seq + 1
            self.clock.advance(seconds=1)
            self.log.append(b"s.%d" % (number % subjects), (b"%d" % number).ljust(size))
            self.log.commit()

    def damage(self, payload: bytes) -> None:
        """Turn a bit in the record with this in its payload, wherever it is."""
        for data in self.memory.files.values():
            pos = data.find(payload)
            if pos >= 0:
                data[pos] ^= 1
                return
        raise AssertionError("no file has such a record")

    def segments(self) -> list[str]:
        return [name for name in self.disk.list("log") if name.endswith(".seg")]

    def segment(self, seq: int) -> bytearray:
        return self.memory.files[segment_path("log", seq)]


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


Facts = list[Trimmed | Lost]


def drain(reader: Reader, most: int = 7) -> tuple[list[int], Facts]:
    """What there is now, in batches: sequences, and what was told beside them."""
    seqs: list[int] = []
    facts: Facts = []
    while True:
        batch = reader.read(most)
        seqs += batch.sequences()
        facts += batch.facts
        if not len(batch):
            return seqs, facts
