"""Keeps the files of a log in order, mostly elsewhere: seals complete segments, removes and rewrites others.

A segment is complete when the next one has begun and everything of it is written. It is then synced, whatever the
policy, and surveyed for its index file, by the worker; until that is done its file stays open. A log without an index
file is slower to open, and otherwise the same; so only a failed sync is a failure here, and all else is a trouble to
be told, and tried again.

KEEP-3: files of segments go one after the other, the oldest first, each for certain before the next. So what is left is
always the end of the log, also when the record that says what retention left was lost with the power, or could not be
written as the disk is full.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import COMPACT_REST_NS, KEEPER_RETRY_NS, TROUBLES_KEPT
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.compact import Compactor
from tidelog.log.erase import Eraser
from tidelog.log.ferry import Ferry
from tidelog.log.header import index_path, write_index
from tidelog.log.room import begin_another, is_mostly_dead
from tidelog.log.snapshot import write_snapshot
from tidelog.log.survey import survey

if TYPE_CHECKING:
    from tidelog.log.ceiling import Ceiling
    from tidelog.log.log import Log
    from tidelog.log.segment import Segment


class BitRepaired(StorageError):
    """A bit of a packed segment had turned. Nothing is lost by it."""

    def __init__(self, path: str, pos: int) -> None:
        super().__init__(
            f"{path}: a bit had turned at {pos}, and was read as it was written; look at disk and memory"
        )


@dataclass
class KeeperFigures:
    """For metrics: what was done in the background since the log was opened."""

    sealed: int = 0
    removed: int = 0  # segments in which nothing was left
    emptied: int = 0  # open segments, where they were, as the disk was full
    compactions: int = 0
    packed: int = 0  # segments that were compressed or encrypted
    rewritten_size: int = 0  # bytes written by compaction and packing
    erased: int = 0  # messages whose bytes were overwritten
    repaired: int = 0  # bits of packed segments that had turned, and were read as they were written
    reclaimed_size: int = 0  # bytes of files that are not needed any more, but for removed ones
    troubles: int = 0


class Keeper:
    def __init__(
        self, disk: Disk, directory: str, worker: Worker, clock: Clock, ceiling: Ceiling | None
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.worker = worker
        self.clock = clock
        self.ceiling = ceiling
        self.figures = KeeperFigures()
        self.troubles: deque[str] = deque(maxlen=TROUBLES_KEPT)
        self.sealing: set[Segment] = set()
        self.compactor = Compactor(
            disk, directory, worker, clock, self.figures, self.trouble, self._rewritten
        )
        self.eraser = Eraser(disk, worker, clock, self.figures, self.trouble, self.compactor, self._rewritten)
        self.ferry = Ferry(disk, directory, worker, clock, self.compactor, self.trouble, self._rewritten)
        self._doomed: deque[Segment] = deque()  # their files are to be removed
        self._removing = False
        self._retry_ns = 0
        # Since when most of the open segment is dead.
        self._dead_since_ns: int | None = None

    # ---- what the log calls ----

    def opened(self, log: Log) -> None:
        """The log is as it was found, or has other settings now."""
        self.compactor.look_over(log)
        self.ferry.opened(log)

    def after_commit(self, log: Log) -> None:
        """Everything is written: see to segments that are complete, or of no use."""
        for segment in log.store.take_rolled():
            self._seal(log, segment)
        self.eraser.after_commit(log)
        self._work(log)

    def tick(self, log: Log) -> None:
        self._work(log)
        if self._begins_another(log):
            log.commit()

    def make_room(self, log: Log) -> None:
        """The disk is full: what is of no use goes, without a word about it in the log."""
        self._remove_front(log)

    def next_due_ns(self, log: Log) -> int | None:
        """When `tick` has something to do, in monotonic time."""
        dues = [
            self.compactor.next_due_ns(log),
            self.eraser.next_due_ns(log),
            self.ferry.next_due_ns(log),
            self._retry_ns if self._doomed and not self._removing else None,
            self.clock.monotonic_ns() if log.store.has_repaired() else None,
            self._begins_ns(log),
        ]
        return min((due for due in dues if due is not None), default=None)

    def sync_names(self) -> None:
        self.disk.sync_directory(self.directory)

    def trouble(self, error: BaseException) -> None:
        self.figures.troubles += 1
        self.troubles.append(str(error))

    def _rewritten(self, log: Log) -> None:
        self.ferry.changed()
        self._work(log)
        if log.on_idle is not None and not log.closed:
            log.on_idle()

    def _work(self, log: Log) -> None:
        if not log.closed:
            for segment, pos in log.store.take_repaired():
                self.figures.repaired += 1
                self.trouble(BitRepaired(segment.path, pos))
                self.compactor.mend(segment)
            if log.failure is None:
                self._remove_front(log)
            if not is_mostly_dead(log.store):
                self._dead_since_ns = None
            elif self._dead_since_ns is None:
                self._dead_since_ns = self.clock.monotonic_ns()
            self.eraser.tick(log)
            # What asks for erasing is kept until that is done.
            self.compactor.held = self.eraser.pending
            self.ferry.held = self.eraser.pending
            self.ferry.tick(log)
            self.compactor.tick(log)

    # ---- the open segment ----

    def _begins_ns(self, log: Log) -> int | None:
        """When another segment is begun, as most of the open one is dead; None: not for that."""
        if self._dead_since_ns is None or self.compactor.halted or log.refusal is not None or log.closed:
            return None
        return self._dead_since_ns + COMPACT_REST_NS

    def _begins_another(self, log: Log) -> bool:
        begins_ns = self._begins_ns(log)
        if begins_ns is None or self.clock.monotonic_ns() < begins_ns:
            return False
        self._dead_since_ns = None
        try:
            begin_another(log.store)
        except DiskFailed as error:
            # Tried again after another rest.
            self.trouble(error)
            self._dead_since_ns = self.clock.monotonic_ns()
            return False
        return True

    # ---- sealing ----

    def _seal(self, log: Log, segment: Segment) -> None:
        disk, file = self.disk, segment.file_now()
        base_seq, size, salt = segment.base_seq, segment.side.size, log.store.log_salt
        path = index_path(self.directory, base_seq)
        self.sealing.add(segment)
        segment.busy = True

        def job() -> BaseException | None:
            try:
                file.sync()
            except DiskFailed:
                log.doubt()
                raise
            try:
                write_index(disk, path, survey(file.read(0, size), base_seq, salt).index_bytes())
            except DiskFailed as error:
                return error
            return None

        def done(trouble: BaseException | None, error: BaseException | None) -> None:
            if error is not None:
                log.committer.fail(StorageError(f"a complete segment could not be synced: {error}"))
                return
            if trouble is not None:
                self.trouble(trouble)
            log.committer.synced_elsewhere(file, sealed)

        def sealed() -> None:
            # From now on its file may be closed.
            self.sealing.discard(segment)
            self.figures.sealed += 1
            segment.busy = False
            segment.set_sealed()
            if log.closed:
                segment.close()
            else:
                self.compactor.sealed(log, segment)
                self.ferry.changed()
                self._work(log)

        self.worker.submit(job, done)

    # ---- removing ----

    def _remove_front(self, log: Log) -> None:
        """Remove the files of segments in which nothing is left."""
        for segment in log.store.take_front():
            segment.close()
            self._doomed.append(segment)
        if self._doomed and not self._removing and self.clock.monotonic_ns() >= self._retry_ns:
            self._remove(log)

    def _remove(self, log: Log) -> None:
        doomed = list(self._doomed)
        removed: list[Segment] = []
        self._removing = True

        def job() -> None:
            self._remove_files(doomed, removed)

        def done(_: object, error: BaseException | None) -> None:
            self._removing = False
            self.figures.removed += len(removed)
            for _segment in removed:
                self._doomed.popleft()
            self.ferry.removed((self._doomed or log.store.segments)[0].base_seq)
            if error is not None:
                self.trouble(error)
                self._retry_ns = self.clock.monotonic_ns() + KEEPER_RETRY_NS
            elif log.closed and self._doomed:
                self._remove(log)
            self._work(log)

        self.worker.submit(job, done)

    def _remove_files(self, doomed: list[Segment], removed: list[Segment]) -> None:
        """One after the other, each for certain (KEEP-3). Those of which that is so are noted.

        And the names of newer segments first: with the power might go what is new, and what is old as well.
        """
        self.disk.sync_directory(self.directory)
        for segment in doomed:
            warm = self.ferry.fetcher.gone(segment)
            for path in (index_path(self.directory, segment.base_seq), segment.path, warm):
                if path is not None and self.disk.exists(path):
                    self.disk.remove(path)
            self.disk.sync_directory(self.directory)
            removed.append(segment)

    def closing(self) -> None:
        """Begin nothing more that would only be dropped."""
        self.compactor.halted = True
        self.ferry.halted = self.ferry.fetcher.halted = True

    def close(self, log: Log) -> None:
        try:
            if log.failure is None and log.refusal is None and log.committer.finish():
                if self._doomed and not self._removing:
                    # Nobody would come to it before the log is written to again.
                    self._remove_files(list(self._doomed), [])
                if self.eraser.finish(log):
                    # Whoever opens by a snapshot does not look for what is left to erase.
                    write_snapshot(self.disk, self.directory, log)
                if self.ceiling is not None:
                    self.ceiling.drop()
        except DiskFailed as error:
            self.trouble(error)
        finally:
            for segment in log.store.segments:
                if segment.warm is not None:
                    segment.warm.close()
                # One that is being sealed is closed when that is done.
                if segment.is_open() and segment not in self.sealing:
                    log.committer.synced_elsewhere(segment.file_now(), segment.close)
