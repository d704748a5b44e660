"""Takes complete segments of a log to the place where its history goes, and leaves husks of them.

    ferry.tick(log)              by the keeper: send what is complete, reduce what is too much, forget what has gone
    ferry.fetcher                brings them back (log.fetch)

Promises
  * COLD-5: a segment becomes a husk only when all of it is in the history, and was put there by this process or
    compared with it since; so if somebody else writes to the same history, nothing here goes.
  * COLD-8: segments are sent in order, each once it is complete, and what retention has let go of is kept here until
    it was sent, if the history is to outlive the log.
  * Nothing here waits for a network: that is done in the depot's workers, one job of sending at a time.
  * What fails is told as a trouble, and tried again, ever more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidelog.base.clock import Clock
from tidelog.base.errors import ColdError, ColdForeign, TidelogError
from tidelog.base.limits import COLD_TRIM_NS
from tidelog.base.seqset import SequenceSet
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.columns import Columns, segment_columns
from tidelog.log.compact import Compactor
from tidelog.log.depot import History, Tiering
from tidelog.log.fetch import Backoff, Fetcher
from tidelog.log.key_ring import KeyRing
from tidelog.log.plain import open_plain, read_plain
from tidelog.log.segment import Segment

if TYPE_CHECKING:
    from tidelog.log.log import Log


@dataclass
class FerryFigures:
    """For metrics: what was done since the log was opened."""

    sent: int = 0  # segments
    sent_size: int = 0  # bytes of objects
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """What is complete and not in the history."""

    segments: int
    size: int
    since_ns: int  # the time of its newest message, of the oldest segment; 0: there is none


@dataclass(frozen=True, slots=True)
class Sending:
    """Everything that the worker needs to send a stretch of one segment, or to compare it; nobody changes it."""

    disk: Disk
    path: str
    keys: KeyRing | None
    salt: int
    dead: SequenceSet
    start_seq: int
    end_seq: int
    history: History

    def columns(self) -> Columns:
        file = open_plain(self.disk, self.path, self.keys)
        try:
            data = read_plain(file)
        finally:
            file.close()
        return segment_columns(data, self.salt, self.dead, self.start_seq, self.end_seq)[0]

    def send(self) -> int:
        return self.history.add(self.start_seq, self.end_seq, self.columns())

    def check(self) -> None:
        self.history.check(self.start_seq, self.end_seq, self.columns())


@dataclass
class Ferry:
    disk: Disk
    directory: str
    worker: Worker
    clock: Clock
    compactor: Compactor
    trouble: Callable[[BaseException], None]
    on_idle: Callable[[Log], None]  # a job has come to its end
    figures: FerryFigures = field(default_factory=FerryFigures)
    archived_seq: int | None = None  # what is in front of it is in the history; None: nobody has looked yet
    foreign: str = ""  # why nothing is sent any more
    failing: str = ""  # what the last thing that was tried has met; empty: it went well
    halted: bool = False
    held: bool = False  # something is being erased, and must not be sent first

    def __post_init__(self) -> None:
        self.log: Log | None = None
        self.tiering: Tiering | None = None
        self.history: History | None = None
        self.sending = False
        self.sending_seq = 0  # what is in front of it may be on its way
        self.fetcher = Fetcher(self.disk, self.directory, self.worker, self.clock, self.trouble, self.on_idle)
        self._end_seq = -1  # what `archived_seq` was when it was known last
        self._mine_seq = 0  # from there on, this process has sent everything
        self._checked: set[int] = set()  # bases of segments in front of it that are the same in the history
        self._again = Backoff()
        self._stale = True  # something has happened by which there may be more to do
        self._age_due_ns = 0  # when the next segment is old enough, in wall time; 0: no one will be
        self._syncing = False  # what follows the next husk
        self._front_seq = 0
        self._trim_due_ns = 0
        self._trim_wanted = True
        self._forgotten: Callable[[BaseException | None], None] | None = (
            None  # told when the history has gone
        )

    # ---- what the keeper calls ----

    def opened(self, log: Log) -> None:
        """The log was opened, or has other settings now."""
        if self.log is None:
            self._front_seq = log.store.segments[0].base_seq
        self.log = log
        tiering = log.settings.tiering
        if tiering is None and self.tiering is not None and log.store.husk_end:
            tiering = replace(self.tiering, sends=False)
        if tiering is not None and (self.tiering is None or tiering.depot != self.tiering.depot):
            self.history = tiering.depot.history(log.store.log_id)
            self.archived_seq = None
        self.tiering = tiering
        self.fetcher.opened(log, tiering, self.history)
        self._stale = self._trim_wanted = True
        self._hold_back(log)

    def changed(self) -> None:
        """A segment is complete, or has gone, or is not busy any more."""
        self._stale = True

    def removed(self, front_seq: int) -> None:
        """Files of segments have gone for certain: the oldest one that is left, or may be, begins there."""
        self._front_seq = front_seq
        self._stale = self._trim_wanted = True

    def tick(self, log: Log) -> None:
        if self.tiering is None or self.halted or log.failure is not None:
            return
        self.fetcher.tick(log)
        now_ns = self.clock.now_ns()
        if self.tiering.keep_ns and self.clock.monotonic_ns() >= self._trim_due_ns:
            self._stale = True
        if self._stale or (self._age_due_ns and now_ns >= self._age_due_ns):
            if not self.sending:
                self._send(log)
            if not self.foreign:
                self._reduce(log)

    def next_due_ns(self, log: Log) -> int | None:
        """When `tick` has something to do, in monotonic time."""
        if self.tiering is None or self.halted or log.failure is not None:
            return None
        now_ns = self.clock.monotonic_ns()
        dues = []
        if self._stale and not self.sending and self._next_job(log) is not None:
            dues.append(max(self._again.due_ns, self.tiering.depot.throttle.ready_ns, now_ns))
        if self.tiering.keep_ns and not self.foreign:
            dues.append(max(self._trim_due_ns, self._again.due_ns))
        if self._age_due_ns:
            dues.append(now_ns + max(0, self._age_due_ns - self.clock.now_ns()))
        dues += [due_ns for due_ns in (self.fetcher.next_due_ns(),) if due_ns is not None]
        return min(dues, default=None)

    def forget(self, done: Callable[[BaseException | None], None]) -> None:
        """The log is deleted, and its history goes as well, unless that is to outlive it."""
        tiering = self.tiering
        if tiering is None or self.history is None or tiering.keep_ns != 0 or self.foreign:
            return
        self._forgotten = done
        if not self.sending:
            self._forget(done)

    def has_sent(self, seq: int) -> bool:
        """Whether a message may be in the history."""
        if self.tiering is None or self.log is None:
            return False
        if self.archived_seq is None:
            return seq < self.log.store.segments[-1].base_seq
        return seq < max(self.archived_seq, self.sending_seq) or self.log.store.segment_at(seq).husk

    def lag(self) -> Lag:
        log = self.log
        if log is None or self.tiering is None or not self.tiering.sends:
            return Lag(0, 0, 0)
        end_seq = self.archived_seq or 0
        left = [
            one for one in log.store.segments[:-1] if not one.husk and log.store.stretch_of(one)[1] > end_seq
        ]
        return Lag(len(left), sum(one.side.size for one in left), left[0].side.last_ts_ns if left else 0)

    def cold_messages(self) -> int:
        """How many are in the history only."""
        segments = self.log.store.segments if self.log is not None else []
        return sum(one.side.messages - one.dead_count for one in segments if one.husk)

    def trouble_now(self) -> str:
        """Why not everything is done that should be; empty: it is."""
        return self.foreign or self.failing or self.fetcher.failing

    # ---- sending ----

    def _job(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """One of those of which there is one at a time."""
        assert self.tiering is not None
        assert self.log is not None
        log = self.log
        self.sending = True

        def told(answer: Any, error: BaseException | None) -> None:
            self.sending = False
            if error is None:
                self._again.succeeded()
                self.failing = ""
                done(answer)
            elif isinstance(error, ColdForeign):
                self.foreign = str(error)
                self._failed(error)
                self._hold_back(log)
            elif isinstance(error, TidelogError | ValueError | MemoryError):
                # Perhaps it was done all the same, or somebody else has done something.
                self.archived_seq, self._trim_wanted = None, True
                self._again.failed(self.clock.monotonic_ns())
                self._failed(error)
            else:
                raise error
            if self._forgotten is not None:
                self._forget(self._forgotten)
            elif not log.closed:
                self._stale = True
                self.on_idle(log)

        self.tiering.depot.sender.submit(job, told)

    def _failed(self, error: BaseException) -> None:
        self.figures.failures += 1
        self.failing = str(error)
        self.trouble(error)

    def _send(self, log: Log) -> None:
        assert self.tiering is not None
        now_ns = self.clock.monotonic_ns()
        if now_ns < self._again.due_ns or now_ns < self.tiering.depot.throttle.ready_ns:
            return
        start = self._next_job(log)
        if start is not None:
            start()

    def _next_job(self, log: Log) -> Callable[[], None] | None:
        """What is to be done next, if there is something."""
        tiering, history = self.tiering, self.history
        if tiering is None or history is None or self.foreign:
            return None
        if self.archived_seq is None:
            return lambda: self._job(history.end_seq, self._take_end)
        if tiering.sends:
            segment = log.store.segment_at(self.archived_seq)
            if segment is not log.store.segments[-1]:
                # Sealed one after the other; and what is busy may be about to be another file.
                if not segment.sealed or segment.busy or self.held or log.store.unsaid():
                    return None
                before = self._before(log)
                if before is not None:
                    return lambda: self._check_segment(log, before)
                return lambda: self._send_segment(log, segment)
        doubtful = self._next_husk(log)
        if doubtful is not None and not self._is_known(doubtful):
            return lambda: self._check_segment(log, doubtful)
        by_time = tiering.keep_ns and self.clock.monotonic_ns() >= self._trim_due_ns
        if tiering.keep_ns is None or not (self._trim_wanted or by_time):
            return None
        doubt = self._before(log)
        if doubt is None:
            return self._trim
        # What is beyond all that is complete here is somebody else's.
        if doubt is log.store.segments[-1]:
            return None
        return lambda: self._check_segment(log, doubt)

    def _before(self, log: Log) -> Segment | None:
        """What stands at the end of the history, if that may be somebody else's: nothing is put behind it then."""
        end_seq = self.archived_seq
        if not end_seq or end_seq > self._mine_seq:
            return None
        segment = log.store.segment_at(end_seq - 1)
        return None if end_seq <= segment.base_seq or segment.husk or self._is_known(segment) else segment

    def _take_end(self, end_seq: int) -> None:
        assert self.log is not None
        if end_seq != self._end_seq:
            self._mine_seq = end_seq
        self.archived_seq = self._end_seq = end_seq
        self._hold_back(self.log)

    def _sending_of(self, log: Log, segment: Segment, start_seq: int, end_seq: int) -> Sending:
        assert self.tiering is not None
        assert self.history is not None
        store = log.store
        if self.tiering.keep_ns == 0:
            dead = store.dead_in(segment)
        else:
            # What retention has let go of is kept there.
            dead = store.deleted.copy(segment.base_seq, end_seq)
        return Sending(
            self.disk, segment.path, log.settings.keys, store.log_salt, dead, start_seq, end_seq, self.history
        )

    def _send_segment(self, log: Log, segment: Segment) -> None:
        assert self.tiering is not None
        assert self.archived_seq is not None
        throttle = self.tiering.depot.throttle
        end_seq = log.store.stretch_of(segment)[1]
        # What retention removed before it was sent is a part of the next stretch, in which nothing is left of it.
        job = self._sending_of(log, segment, self.archived_seq or segment.base_seq, end_seq)
        self.sending_seq = end_seq

        def done(size: int) -> None:
            self.archived_seq = self._end_seq = end_seq
            self.figures.sent += 1
            self.figures.sent_size += size
            throttle.spend(self.clock.monotonic_ns(), size)
            self._hold_back(log)

        self._job(job.send, done)

    def _check_segment(self, log: Log, segment: Segment) -> None:
        start_seq, end_seq = log.store.stretch_of(segment)
        job = self._sending_of(log, segment, start_seq, min(end_seq, self._mine_seq))
        self._job(job.check, lambda _: self._checked.add(start_seq))

    def _is_known(self, segment: Segment) -> bool:
        return segment.base_seq >= self._mine_seq or segment.base_seq in self._checked

    def _trim(self) -> None:
        assert self.tiering is not None
        assert self.history is not None
        history, keep_ns = self.history, self.tiering.keep_ns
        # What is not removed for certain may come back with the power, and be wanted.
        first_seq, end_seq = self._front_seq, self._end_seq
        before_ns = self.clock.now_ns() - keep_ns if keep_ns else None

        def done(_: object) -> None:
            self._trim_due_ns = self.clock.monotonic_ns() + COLD_TRIM_NS

        self._trim_wanted = False
        self._job(lambda: history.trim(first_seq, before_ns, end_seq), done)

    def _forget(self, told: Callable[[BaseException | None], None]) -> None:
        assert self.tiering is not None
        assert self.history is not None
        history, end_seq = self.history, self._end_seq
        self._forgotten = None
        self.halted = True
        if end_seq < 0:
            if self.log is not None and len(self.log.store.segments) > 1:
                told(
                    ColdError(f"nobody has looked yet what is there, so it stays in {self.tiering.depot.url}")
                )
            return
        self.tiering.depot.sender.submit(lambda: history.remove(end_seq), lambda _, error: told(error))

    def _hold_back(self, log: Log) -> None:
        """What is to outlive the log does not go before it was sent."""
        tiering = self.tiering
        outlives = tiering is not None and tiering.sends and tiering.keep_ns != 0 and not self.foreign
        log.store.kept_seq = (self.archived_seq or 0) if outlives else 2**64 - 1

    # ---- leaving husks ----

    def _next_husk(self, log: Log) -> Segment | None:
        """The oldest segment of which too much is here, and that is in the history."""
        tiering = self.tiering
        assert tiering is not None
        self._age_due_ns = 0
        if not tiering.sends or self.archived_seq is None:
            return None
        now_ns = self.clock.now_ns()
        hot = [one for one in log.store.segments if not one.husk]
        size = sum(one.side.size for one in hot)
        for segment in hot[:-1]:
            if log.store.stretch_of(segment)[1] > self.archived_seq:
                break
            dues = (
                [segment.side.last_ts_ns + tiering.local_age_ns] if tiering.local_age_ns is not None else []
            )
            if tiering.local_size is not None and size > tiering.local_size:
                dues.append(0)
            due_ns = max(min(dues), segment.side.last_ts_ns + tiering.least_age_ns) if dues else None
            if due_ns is None or segment.stuck:
                continue
            if due_ns <= now_ns:
                return segment
            self._age_due_ns = due_ns
            break
        return None

    def _reduce(self, log: Log) -> None:
        segment = self._next_husk(log)
        self._stale = False
        if segment is None or not self._is_known(segment) or segment.busy or not segment.sealed:
            # When that is another way, this is told.
            self._stale = segment is not None or self.sending or self.held or self._next_job(log) is not None
            return
        end_seq = log.store.stretch_of(segment)[1]
        if log.committer.synced_seq < end_seq:
            self._await_end(log, end_seq)
        else:
            # Then something changes.
            self.compactor.cool(segment)

    def _await_end(self, log: Log, end_seq: int) -> None:
        """A husk is never the end of a log, as nobody who looks there should wait: what follows is synced first."""
        if log.committer.written_seq < end_seq:
            self._stale = True
        elif not self._syncing:
            self._syncing = True

            def synced() -> None:
                self._syncing = False
                self.on_idle(log)

            log.committer.when_synced(synced)
