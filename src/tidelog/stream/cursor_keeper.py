"""The cursors of a stream: named positions that are set and fetched over the API, and durable before that is answered.

    keeper = CursorKeeper(engine, disk, directory)
    keeper.set("reader-7", 1200, expected_revision=3, done=...)     done(cursor, error) when it is on the medium
    keeper.get("reader-7", done)

The file beside the log is opened with the first request, so streams without cursors have none. What was changed within
a tick is written once at its end, and synced together with what comes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.base.errors import StorageError
from tidelog.base.limits import FULL_DISK_RETRY_NS
from tidelog.disk.disk import Disk
from tidelog.log.cursor import Cursor, CursorStore

if TYPE_CHECKING:
    from tidelog.stream.engine import Engine

# What was asked about, as it is now; None: there is none. With an error: nothing is known.
Told = Callable[[Cursor | None, StorageError | None], None]


class CursorKeeper:
    def __init__(self, engine: Engine, disk: Disk, directory: str) -> None:
        self.engine = engine
        self.disk = disk
        self.directory = directory
        self.opened: CursorStore | None = None
        self.queued = False
        self.under_way = False
        self.stopped = False

    @property
    def store(self) -> CursorStore:
        """Raises StorageError if the file cannot be read."""
        if self.opened is None:
            self.opened = CursorStore.open(self.disk, self.directory, self.engine.clock)
        return self.opened

    # ---- requests: CursorError and StorageError say why nothing was done ----

    def set(
        self, name: str, seq: int, done: Told, *, expected_revision: int | None = None, rewind: bool = False
    ) -> None:
        cursor = self.store.set(name, seq, expected_revision, rewind)
        self._tell(cursor, cursor.revision, done)

    def delete(self, name: str, done: Told, *, expected_revision: int | None = None) -> None:
        found = self.store.fetch(name)
        self._tell(found, self.store.delete(name, expected_revision), done)

    def get(self, name: str, done: Told) -> None:
        """What is told is on the medium: nobody goes on from what the power could still take back."""
        found = self.store.fetch(name)
        self._tell(found, found.revision if found is not None else 0, done)

    def list(self) -> list[Cursor]:
        return self.store.list()

    def _tell(self, cursor: Cursor | None, revision: int, done: Told) -> None:
        self.store.wait(revision, lambda error: done(cursor if error is None else None, error))
        self._queue()

    # ---- the way to the medium ----

    def _queue(self) -> None:
        if not self.queued and not self.under_way and not self.stopped and self.store.dirty:
            self.queued = True
            self.engine.later(self)

    def step(self) -> bool:
        """At the end of a tick: write what has changed, and have it synced."""
        self.queued = False
        if self.stopped or self.under_way:
            return True
        try:
            self.store.commit()
        except StorageError as error:
            self.engine.log.error(
                f"Cursors in {self.directory} could not be written, it is tried again: {error}"
            )
            due_ns = self.engine.clock.monotonic_ns() + FULL_DISK_RETRY_NS
            self.engine.timers.at(due_ns, self._queue)
            return True
        job = self.store.sync_job()
        if job is not None:
            self.under_way = True
            self.engine.worker.submit(job, self._synced)
        return True

    def _synced(self, _: object, error: BaseException | None) -> None:
        self.under_way = False
        if error is not None and not isinstance(error, StorageError):
            error = StorageError(f"cursors could not be synced: {error!r}")
        self.store.synced(error)
        if self.stopped:
            self._close()
        else:
            self._queue()

    def stop(self) -> None:
        """Leave everything as it will be found again; a sync that is under way ends first."""
        self.stopped = True
        if not self.under_way:
            self._close()

    def _close(self) -> None:
        if self.opened is None:
            return
        with suppress(StorageError):
            # Who waits was told.
            self.opened.close()
