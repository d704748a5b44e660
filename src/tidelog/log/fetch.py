"""Brings segments back of which only husks are here, when somebody wants to read them, and lets go of them again.

    fetcher.want(segment, backward)      by the store: somebody reads a husk
    fetcher.waiting[callback]            called, once, when something has come back

Promises
  * COLD-9: what is wanted comes back or is asked for again, for as long as somebody waits; nothing that the husk has
    and that does not come is taken for lost, and what comes without it is not taken.
  * The next one in the direction of reading is fetched ahead.
  * Few segments that have come back stay, those that were used last.

A segment that has come back is a file of its own (`.warm`), which is not synced, and removed when the log is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.clock import Clock
from tidelog.base.errors import ColdError, DiskFailed, TidelogError
from tidelog.base.limits import COLD_AGAIN_LEAST_NS, COLD_AGAIN_MOST_NS, COLD_FETCHES, COLD_WARM_LEAST
from tidelog.base.seqset import SequenceSet
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.depot import History, Tiering
from tidelog.log.header import segment_header, warm_path
from tidelog.log.husk import refill
from tidelog.log.segment import Segment
from tidelog.log.sidecar import Sidecar
from tidelog.log.survey import survey

if TYPE_CHECKING:
    from tidelog.log.log import Log


class Backoff:
    """When something is tried again that has failed."""

    def __init__(self) -> None:
        self.due_ns = 0
        self._delay_ns = 0

    def failed(self, now_ns: int) -> None:
        self._delay_ns = min(max(self._delay_ns * 2, COLD_AGAIN_LEAST_NS), COLD_AGAIN_MOST_NS)
        self.due_ns = now_ns + self._delay_ns

    def succeeded(self) -> None:
        self.due_ns = self._delay_ns = 0


@dataclass(frozen=True, slots=True)
class Fetching:
    """Everything that the worker needs to bring one segment back; nobody changes it."""

    disk: Disk
    path: str
    header: bytes
    salt: int
    stretch: tuple[int, int]
    dead: SequenceSet
    holes: list[tuple[int, int]]  # of the husk
    last_seq: int  # of its messages
    history: History

    def run(self) -> tuple[Sidecar, int]:
        start_seq, end_seq = self.stretch
        data = refill(self.history.rows(start_seq, end_seq), self.header, self.salt, start_seq, end_seq)
        found = survey(data, start_seq, self.salt, expected_end=len(data))
        self.compare(absent_in(start_seq, found.last_seq, found.holes, end_seq))
        file = self.disk.create(self.path)
        try:
            file.append([data])
        except DiskFailed:
            self.disk.remove(self.path)
            raise
        finally:
            file.close()
        return Sidecar.of(found), len(data)

    def compare(self, missing: SequenceSet) -> None:
        """Nothing may be missing that the husk has, and that was not deleted."""
        excused = absent_in(self.stretch[0], self.last_seq, self.holes, self.stretch[1])
        for start_seq, end_seq in self.dead.ranges():
            excused.add_range(start_seq, end_seq)
        for start_seq, end_seq in missing.ranges():
            seq = excused.next_absent(start_seq)
            if seq < end_seq:
                raise ColdError(f"message {seq} is not where the history of the log should have it")


def absent_in(start_seq: int, last_seq: int, holes: list[tuple[int, int]], end_seq: int) -> SequenceSet:
    """What of [start_seq, end_seq) a segment with these holes and this last message has not."""
    absent = SequenceSet()
    for first, count in holes:
        absent.add_range(first, first + count)
    if max(last_seq + 1, start_seq) < end_seq:
        absent.add_range(max(last_seq + 1, start_seq), end_seq)
    return absent


@dataclass
class FetchFigures:
    """For metrics: what was done since the log was opened."""

    segments: int = 0
    size: int = 0  # bytes of them
    failures: int = 0


class Fetcher:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        worker: Worker,
        clock: Clock,
        trouble: Callable[[BaseException], None],
        on_idle: Callable[[Log], None],
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.worker = worker
        self.clock = clock
        self.trouble = trouble
        self.on_idle = on_idle
        self.figures = FetchFigures()
        self.failing = ""  # what the last try has met; empty: it went well
        self.waiting: dict[Callable[[], None], None] = {}
        self.wanted: dict[Segment, None] = {}
        self.under_way: set[Segment] = set()
        self.warm: list[Segment] = []  # husks that have come back
        self.halted = False
        self.log: Log | None = None
        self.tiering: Tiering | None = None
        self.history: History | None = None
        self._again = Backoff()
        self._number = 0

    def opened(self, log: Log, tiering: Tiering | None, history: History | None) -> None:
        self.log, self.tiering, self.history = log, tiering, history
        log.store.on_wanted = self.want

    def want(self, segment: Segment, backward: bool) -> None:
        """Somebody reads a husk, and will go on with the one next to it."""
        log = self.log
        assert log is not None
        if segment.warm is None:
            self.wanted[segment] = None
        at = log.store.segments.index(segment) + (-1 if backward else 1)
        if 0 <= at < len(log.store.segments):
            after = log.store.segments[at]
            if after.husk and after.warm is None:
                self.wanted[after] = None
        self.tick(log)
        if self.wanted and log.on_idle is not None:
            # It has to be seen to later.
            log.on_idle()

    def tick(self, log: Log) -> None:
        while self.wanted and len(self.under_way) < COLD_FETCHES and not self.halted:
            if self.clock.monotonic_ns() < self._again.due_ns:
                return
            segment = next(iter(self.wanted))
            del self.wanted[segment]
            if segment not in self.under_way and segment.warm is None and log.store.holds(segment):
                self._fetch(log, segment)

    def next_due_ns(self) -> int | None:
        """When `tick` has something to do, in monotonic time."""
        if not self.wanted or len(self.under_way) >= COLD_FETCHES or self.halted:
            return None
        return max(self._again.due_ns, self.clock.monotonic_ns())

    def _fetch(self, log: Log, segment: Segment) -> None:
        assert self.tiering is not None
        assert self.history is not None
        store, side = log.store, segment.side
        self._number += 1
        path = warm_path(self.directory, segment.base_seq, self._number)
        job = Fetching(
            self.disk,
            path,
            segment_header(store.log_id, segment.base_seq, 0),
            store.log_salt,
            store.stretch_of(segment),
            store.dead_in(segment),
            side.holes,
            side.last_seq,
            self.history,
        )
        self.under_way.add(segment)

        def done(answer: tuple[Sidecar, int] | None, error: BaseException | None) -> None:
            self.under_way.discard(segment)
            if log.closed:
                return
            if answer is not None:
                self._again.succeeded()
                self.failing = ""
                self._take(log, segment, path, *answer)
            else:
                assert error is not None
                self._failed(log, segment, error)
            self.on_idle(log)

        self.tiering.depot.fetcher.submit(job.run, done)

    def _failed(self, log: Log, segment: Segment, error: BaseException) -> None:
        if not isinstance(error, TidelogError | ValueError):
            raise error
        self._again.failed(self.clock.monotonic_ns())
        self.figures.failures += 1
        self.failing = str(error)
        self.trouble(error)
        if isinstance(error, DiskFailed):
            # It may be full; what is here twice should not be the reason.
            for one in list(self.warm):
                self._let_go(log, one)
        if self.waiting:
            self.wanted[segment] = None

    def _take(self, log: Log, segment: Segment, path: str, side: Sidecar, size: int) -> None:
        """It is here again."""
        self.figures.segments += 1
        self.figures.size += size
        side.take_rows()
        warm = Segment(self.disk, path, segment.base_seq, side, None, None, True)
        if not log.store.holds(segment):
            self._remove(warm)
            return
        log.store.warm_now(segment, warm)
        self.warm.append(segment)
        self._make_room(log, segment)
        waiting, self.waiting = self.waiting, {}
        for callback in waiting:
            callback()

    def _make_room(self, log: Log, newest: Segment) -> None:
        """Let go of what was not used for long."""
        assert self.tiering is not None
        self.warm = [one for one in self.warm if one.warm is not None and log.store.holds(one)]
        size = sum(one.warm.side.size for one in self.warm if one.warm is not None)
        for segment in sorted(self.warm, key=last_use):
            if len(self.warm) <= COLD_WARM_LEAST or size <= self.tiering.warm_size:
                break
            if segment is not newest and segment.warm is not None:
                size -= segment.warm.side.size
                self._let_go(log, segment)

    def _let_go(self, log: Log, segment: Segment) -> None:
        warm = segment.warm
        self.warm.remove(segment)
        if warm is not None:
            log.store.warm_now(segment, None)
            self._remove(warm)

    def _remove(self, warm: Segment) -> None:
        disk, path = self.disk, warm.path

        def done(_: object, error: BaseException | None) -> None:
            if error is not None:
                self.trouble(error)

        self.worker.submit(lambda: disk.remove(path), done)

    def gone(self, segment: Segment) -> str | None:
        """A segment goes for good. Returns the file of what had come back of it."""
        return segment.warm.path if segment.warm is not None else None


def last_use(segment: Segment) -> int:
    return segment.warm.used if segment.warm is not None else 0
