"""Readers at the end of a log: what it costs to begin there, to be there, and to fall behind."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.bench.fault import require
from tidelog.bench.store import load
from tidelog.bench.store.figure import Figure, at_most
from tidelog.bench.store.flock import Flock
from tidelog.bench.store.stage import Stage, child, device_mix, disk_at, opened, settle
from tidelog.disk.real import RealDisk, RealFile
from tidelog.log.filter import Filter
from tidelog.log.log import Start

BATCH = 1024
ONE_BY_ONE, TOGETHER, ELSEWHERE = "told one by one", "told together", "that wait for other subjects"
OPENINGS = 10_000
FOLLOWERS = ((1, ONE_BY_ONE), (100, ONE_BY_ONE), (1_000, ONE_BY_ONE), (1_000, TOGETHER), (1_000, ELSEWHERE))
READERS = 10_000
STALL = 1_000_000


class CountingFile(RealFile):
    """A file that knows how often it was read from."""

    reads = 0

    def read(self, pos: int, size: int) -> bytes:
        CountingFile.reads += 1
        return super().read(pos, size)


class CountingDisk(RealDisk):
    def _open(self, path: str, flags: int) -> RealFile:
        file = super()._open(path, flags)
        return CountingFile(file.fd, file.path, file.size)


@dataclass(frozen=True, slots=True)
class Latest:
    """To begin at the end of a log on disk whose tail has more than its window."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        mix = device_mix(1)
        middles, worst = [], []
        for _ in range(stage.rounds):
            path = stage.fresh()
            with opened(CountingDisk(str(path)), stage.settings()) as (logs, worker):
                (log,) = logs
                load.append(logs, mix, stage.count(STALL), BATCH, worker=worker)
                settle(worker)
                next_seq = log.state().last_seq + 1
                reads, times = CountingFile.reads, []
                for _ in range(stage.count(OPENINGS)):
                    start_ns = time.perf_counter_ns()
                    reader = log.reader(start=Start.NEW)
                    times.append((time.perf_counter_ns() - start_ns) / 1e3)
                    require(reader.next_seq == next_seq, f"it begins at {reader.next_seq}")
                require(CountingFile.reads == reads, f"{CountingFile.reads - reads} reads from files")
                load.append(logs, mix, 1, 1, worker=worker)
                require(reader.read().sequences() == [log.state().last_seq], "the next message did not come")
            stage.remove(path)
            middles.append(statistics.median(times))
            worst.append(sorted(times)[len(times) * 99 // 100])
        yield Figure("median", "us", tuple(middles), at_most(50))
        yield Figure("p99", "us", tuple(worst))


@dataclass(frozen=True, slots=True)
class ReaderMemory:
    """Readers that have followed for a while, read from the tail and wait."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        sizes = []
        readers = stage.count(READERS, least=500)
        for _ in range(stage.rounds):
            path = stage.fresh()
            sizes.append(child(stage, "follow", str(path), str(readers), str(20 * BATCH))["size"] / readers)
            stage.remove(path)
        yield Figure("", "B", tuple(sizes), at_most(10 * 1024))


@dataclass(frozen=True, slots=True)
class Followers:
    """What registered followers cost those who append: rounds with and without them take turns.

    Those who want everything are told of every commit: together, as the owner of a log is, or one by one, where each
    registers again, in the same thread; what they would then read is their own affair. Others wait for subjects on
    which nothing comes.
    """

    def measure(self, stage: Stage) -> Iterator[Figure]:
        for count, how in FOLLOWERS:
            ratios = []
            for _ in range(stage.rounds):
                ratios.append(100 * (self.cost(stage, count, how) / self.cost(stage, 0, how) - 1))
            yield Figure(
                f"append is slower with {count:,} {how}",
                "%",
                tuple(ratios),
                None if how == ONE_BY_ONE else at_most(5),
            )

    def cost(self, stage: Stage, followers: int, how: str) -> float:
        """CPU seconds of this thread for the same appends."""
        mix = device_mix(1)
        with opened(disk_at(None), stage.settings()) as (logs, worker):
            (log,) = logs
            load.append(logs, mix, BATCH, BATCH, worker=worker)
            flock = Flock(log, 0 if how == ELSEWHERE else followers, together=how == TOGETHER)
            for number in range(followers if how == ELSEWHERE else 0):
                log.follow(Filter(b"elsewhere.%d" % number), flock.ring).wait()
            commits = stage.count(STALL) // BATCH
            start_s = time.thread_time()
            for _ in range(commits):
                load.append(logs, mix, BATCH, BATCH, worker=worker)
                flock.arm_again()
            spent_s = time.thread_time() - start_s
            wakes = commits * {ONE_BY_ONE: followers, TOGETHER: 1, ELSEWHERE: 0}[how]
            require(flock.wakes == wakes, f"{flock.wakes} wakes of {followers} and {commits} commits")
            require(log.horizon.waiting() == (0 if how == TOGETHER else followers), "somebody does not wait")
        return spent_s


@dataclass(frozen=True, slots=True)
class Stalled:
    """A follower that stands still while a million messages pass, and then reads on, from files into the tail."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        mix = device_mix(1)
        rates = []
        for _ in range(stage.rounds):
            path, passed = stage.fresh(), stage.count(STALL)
            with opened(disk_at(path), stage.settings()) as (logs, worker):
                (log,) = logs
                reader = log.reader(start=Start.NEW)
                load.append(logs, mix, BATCH, BATCH, worker=worker)
                require(len(reader.read(BATCH, 1 << 20)) == BATCH, "it does not follow")
                load.append(logs, mix, passed, BATCH, worker=worker)
                ns, count = load.drain(reader, mix)
                require(count == passed, f"{count} of {passed} messages")
                load.append(logs, mix, 10, 10, worker=worker)
                require(load.drain(reader, mix)[1] == 10, "it does not follow any more")
            stage.remove(path)
            rates.append(count * 1e3 / ns)
        yield Figure("catching up", "M msg/s", tuple(rates))
