"""Keeps the files of a log in order, mostly elsewhere: seals complete segments and removes empty ones.

A segment is complete when the next one has begun and everything of it is written. It is then synced, whatever the
policy, and surveyed for its index file, by the worker; until that is done its file stays open. A log without an index
file is slower to open, and otherwise the same; so only a failed sync is a failure here, and all else is a trouble to
be told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import TROUBLES_KEPT
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.header import index_path, write_index
from tidelog.log.snapshot import write_snapshot
from tidelog.log.survey import survey

if TYPE_CHECKING:
    from tidelog.log.ceiling import Ceiling
    from tidelog.log.log import Log
    from tidelog.log.segment import Segment


class Keeper:
    def __init__(self, disk: Disk, directory: str, worker: Worker, ceiling: Ceiling | None) -> None:
        self.disk = disk
        self.directory = directory
        self.worker = worker
        self.ceiling = ceiling
        self.troubles: deque[str] = deque(maxlen=TROUBLES_KEPT)
        self.sealing: set[Segment] = set()

    def after_commit(self, log: Log) -> None:
        """Everything is written: see to segments that are complete, or of no use."""
        for segment in log.store.take_rolled():
            self._seal(log, segment)
        self._remove_front(log)

    def tick(self, log: Log) -> None:
        self._remove_front(log)

    def sync_names(self) -> None:
        self.disk.sync_directory(self.directory)

    def trouble(self, error: BaseException) -> None:
        self.troubles.append(str(error))

    def _seal(self, log: Log, segment: Segment) -> None:
        disk, file = self.disk, segment.file_now()
        base_seq, size, salt = segment.base_seq, segment.side.size, log.store.log_salt
        path = index_path(self.directory, base_seq)
        self.sealing.add(segment)

        def job() -> BaseException | None:
            file.sync()
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
            segment.set_sealed()
            if log.closed:
                segment.close()
            else:
                self._remove_front(log)

        self.worker.submit(job, done)

    def _remove_front(self, log: Log) -> None:
        """Remove the files of segments in which nothing is left."""
        for segment in log.store.take_front():
            segment.close()
            # The index first: whatever is left if this ends between them is a segment, which opening knows.
            paths = [index_path(self.directory, segment.base_seq), segment.path]
            self.worker.submit(self._removal(paths), self._removed)

    def _removal(self, paths: list[str]) -> Callable[[], None]:
        def job() -> None:
            for path in paths:
                if self.disk.exists(path):
                    self.disk.remove(path)

        return job

    def _removed(self, _: object, error: BaseException | None) -> None:
        if error is not None:
            self.trouble(error)

    def close(self, log: Log) -> None:
        try:
            if log.failure is None and log.refusal is None and log.committer.finish():
                write_snapshot(self.disk, self.directory, log)
                if self.ceiling is not None:
                    self.ceiling.drop()
        except DiskFailed as error:
            self.trouble(error)
        finally:
            for segment in log.store.segments:
                # One that is being sealed is closed when that is done.
                if segment.is_open() and segment not in self.sealing:
                    log.committer.synced_elsewhere(segment.file_now(), segment.close)
