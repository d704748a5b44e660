"""How fast messages go in, through the log's own interface, until every one of them is acknowledged."""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.bench.case import Goal
from tidelog.bench.fault import require
from tidelog.bench.store import load
from tidelog.bench.store.figure import Figure
from tidelog.bench.store.stage import Stage, device_mix, disk_at, opened
from tidelog.disk.disk import Disk
from tidelog.disk.real import RealDisk, RealFile
from tidelog.log.policy import PRESETS

# What one burst of a server's socket brings of messages of this size (base.limits.READ_BURST_SIZE).
BATCH = 1024
SYNC_PROBES = 32


class TimedFile(RealFile):
    """A file whose syncs take a fixed time and do nothing: for directories in memory."""

    sync_s = 0.0

    def sync(self) -> None:
        time.sleep(self.sync_s)


class TimedDisk(RealDisk):
    """A disk whose syncs take so long, whatever is below it."""

    def __init__(self, root: str, sync_s: float) -> None:
        super().__init__(root)
        self.sync_s = sync_s

    def _open(self, path: str, flags: int) -> RealFile:
        file = super()._open(path, flags)
        timed = TimedFile(file.fd, file.path, file.size)
        timed.sync_s = self.sync_s
        return timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """`logs` at once get `messages` together, over so many subjects."""

    messages: int
    policy: str = "throughput"
    on_disk: bool = False
    logs: int = 1
    subjects: int = 1
    in_flight: int = 0
    sync_s: float | None = None  # instead of the disk's own
    goal: Goal | None = None

    def measure(self, stage: Stage) -> Iterator[Figure]:
        rates, costs, syncs = [], [], []
        for _ in range(stage.rounds):
            with self.disk(stage) as disk:
                if self.on_disk and self.policy == "strict":
                    syncs.append(sync_time_ms(disk))
                ns, cpu_s, count = self.append(stage, disk)
            rates.append(count * 1e3 / ns)
            costs.append(cpu_s * 1e9 / count)
        yield Figure("", "M msg/s", tuple(rates), self.goal)
        yield Figure("CPU", "ns/msg", tuple(costs))
        if syncs:
            yield Figure("fdatasync of the disk", "ms", tuple(syncs))

    def append(self, stage: Stage, disk: Disk) -> tuple[int, float, int]:
        """Nanoseconds, CPU seconds of all threads, and how many messages."""
        each = stage.count(self.messages) // self.logs
        mix = device_mix(min(stage.count(self.subjects), each))
        names = tuple(f"log{number}" for number in range(self.logs))
        batch = min(BATCH, max(1, self.in_flight // self.logs // 2)) if self.in_flight else BATCH
        with opened(disk, stage.settings(PRESETS[self.policy]), names) as (logs, worker):
            start_s = time.process_time()
            ns = load.append(logs, mix, each, batch, self.in_flight, worker)
            cpu_s = time.process_time() - start_s
            for log in logs:
                _, count = load.walk(log, mix)
                require(count == each, f"{count} of {each} messages are there")
        return ns, cpu_s, each * self.logs

    @contextmanager
    def disk(self, stage: Stage) -> Iterator[Disk]:
        if not self.on_disk:
            yield disk_at(None)
            return
        path = stage.fresh()
        try:
            yield disk_at(path) if self.sync_s is None else TimedDisk(str(path), self.sync_s)
        finally:
            stage.remove(path)


def sync_time_ms(disk: Disk) -> float:
    """What a sync of 4 KiB takes, behind the file's end: the median of some."""
    file = disk.create("probe")
    times = []
    for _ in range(SYNC_PROBES):
        file.append([os.urandom(4096)])
        start_ns = time.monotonic_ns()
        file.sync()
        times.append((time.monotonic_ns() - start_ns) / 1e6)
    file.close()
    disk.remove("probe")
    return statistics.median(times)
