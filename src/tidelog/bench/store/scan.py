"""Reading a log on disk: all of it in both directions, the newest message of a subject, and cursors instead of both."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.base.clock import SystemClock
from tidelog.bench.fault import require
from tidelog.bench.store import load
from tidelog.bench.store.figure import Figure, at_most
from tidelog.bench.store.load import Mix
from tidelog.bench.store.stage import MESSAGES, SUBJECTS, Stage, device_mix, disk_at, opened
from tidelog.log.cursor import CursorStore
from tidelog.log.filter import Filter
from tidelog.log.log import Log

CURSORS = 1000
# Look-ups in a round.
LOOK_UPS = 1000


@dataclass(frozen=True, slots=True)
class BothWays:
    """The same messages forwards and backwards."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        forward, backward = [], []
        for log, mix in open_copies(stage):
            ns, count = load.walk(log, mix)
            back_ns, back_count = load.walk(log, mix, backward=True)
            require(count == back_count >= stage.count(MESSAGES), f"{count} forwards, {back_count} backwards")
            forward.append(count * 1e3 / ns)
            backward.append(count * 1e3 / back_ns)
        yield Figure("forwards", "M msg/s", tuple(forward))
        yield Figure("backwards", "M msg/s", tuple(backward))
        ratios = tuple(back / ahead for ahead, back in zip(forward, backward, strict=True))
        yield Figure("backwards/forwards", "ratio", ratios)


@dataclass(frozen=True, slots=True)
class LatestValue:
    """The newest message of a subject: read backwards with a filter, or forwards through everything."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        subjects = stage.count(SUBJECTS, least=1)
        scans, look_ups = [], []
        for log, mix in open_copies(stage):
            subject = mix.subject(subjects // 2)
            start_ns = time.monotonic_ns()
            found = scan_for(log, subject)
            scans.append((time.monotonic_ns() - start_ns) / 1e3)
            wanted = [mix.subject(seq) for seq in range(1, subjects, max(1, subjects // LOOK_UPS))]
            start_ns = time.monotonic_ns()
            latest = [look_back(log, one) for one in wanted]
            look_ups.append((time.monotonic_ns() - start_ns) / 1e3 / len(wanted))
            require(look_back(log, subject) == found, f"{found} by a scan is another backwards")
            for one, seq in zip(wanted, latest, strict=True):
                require(
                    mix.subject(seq) == one and seq + subjects > log.state().last_seq, f"{seq} for {one!r}"
                )
        yield Figure("forward scan", "us", tuple(scans))
        yield Figure("backwards, filtered", "us", tuple(look_ups))
        ratios = tuple(scan / look_up for scan, look_up in zip(scans, look_ups, strict=True))
        yield Figure("scan/backwards", "ratio", ratios)


@dataclass(frozen=True, slots=True)
class CursorFetch:
    """A named position: fetched, against finding the newest message that says it in the log itself."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        cold, warm, scans = [], [], []
        for log, mix in open_copies(stage):
            cursors = CursorStore.open(log.disk, "log", SystemClock())
            names = [f"reader-{number}" for number in range(CURSORS)]
            for number, name in enumerate(names):
                cursors.set(name, number)
            cursors.sync()
            start_ns = time.monotonic_ns()
            cursors = CursorStore.open(log.disk, "log", SystemClock())
            first = cursors.fetch(names[-1])
            cold.append((time.monotonic_ns() - start_ns) / 1e3)
            start_ns = time.monotonic_ns()
            found = [cursors.fetch(name) for name in names]
            warm.append((time.monotonic_ns() - start_ns) / 1e3 / CURSORS)
            require(first is not None and first.seq == CURSORS - 1, f"the last cursor is {first}")
            require(
                [one and one.seq for one in found] == list(range(CURSORS)), "cursors are not what was set"
            )
            start_ns = time.monotonic_ns()
            scan_for(log, mix.subject(1))
            scans.append((time.monotonic_ns() - start_ns) / 1e3)
        yield Figure("fetch", "us", tuple(warm), at_most(100))
        yield Figure("open a thousand cursors, and fetch", "us", tuple(cold))
        yield Figure("forward scan", "us", tuple(scans))


def open_copies(stage: Stage) -> Iterator[tuple[Log, Mix]]:
    """The large log, freshly opened, once for every round."""
    mix = device_mix(stage.count(SUBJECTS, least=1))
    for _ in range(stage.rounds):
        with (
            stage.copied(stage.killed_log()) as path,
            opened(disk_at(path), stage.settings()) as (logs, _),
        ):
            yield logs[0], mix


def scan_for(log: Log, subject: bytes) -> int:
    """The newest message of a subject, by looking at every message from the oldest on."""
    reader, newest = log.reader(), 0
    while len(batch := reader.read(4096)):
        newest = load.newest(batch, subject) or newest
    return newest


def look_back(log: Log, subject: bytes) -> int:
    (seq,) = log.reader(Filter(subject), backward=True, limit=1).read().sequences()
    return seq
