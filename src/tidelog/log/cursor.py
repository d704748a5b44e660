"""Cursors: named positions stored durably beside a log, set and fetched without reading anything.

Promises
  * `fetch` is a look-up in memory. `set` changes memory at once; it is on the medium when `wait` for its revision says
    so, and waits are released in the order of revisions.
  * A cursor does not move back unless told to (`rewind`), and with an expected revision only if nobody else moved it.
  * Revisions ascend over all cursors of a log. One that was synced is not given out again.
  * After any crash each cursor is at a value that it was set to, and at none older than what was synced. If damage may
    have taken a newer one, `damaged` or `cut_size` say that there was some, and the cursor says that it is `doubtful`.
  * What was found when it was opened is on the medium, too, unless there is a `failure`.
  * A failed sync is final: what is on the disk is not known any more, so nothing is accepted or promised from then on.

The owner drives: `commit` appends what has changed, `sync_job` is what to run where blocking is allowed (a plain
callable that touches nothing of the store), `synced` takes its outcome. One job at a time. While a job writes the file
anew, commits wait for it. `sync` is all of that at once, for owners that may block.

What is fetched, and the revision that a conflict tells, may not be on the medium yet. An owner who must not show what
the power could still take waits for that revision before it answers.

What it does not do: know which sequences the log has, threads, and locking.
"""

import heapq
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from tidelog.base.clock import Clock
from tidelog.base.errors import CursorBehind, CursorConflict, CursorError, DiskFailed, StorageError
from tidelog.base.limits import (
    CURSOR_CHANGES_UNSYNCED,
    CURSOR_GARBAGE_SIZE,
    CURSOR_NAME_SIZE,
    CURSORS_PER_LOG,
)
from tidelog.disk.disk import Disk, File
from tidelog.log.cursor_file import (
    FILE_HEADER_SIZE,
    Contents,
    Cursor,
    Kind,
    encode_file,
    encode_record,
    read_cursors,
    record_size,
)

__all__ = ["Cursor", "CursorStore"]

FILE_NAME = "cursors"
NEW_NAME = "cursors.new"

Released = Callable[[StorageError | None], None]
Change = tuple[Kind, Cursor]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEQ_MOST = 2**64 - 1


class _Sync:
    """A job: what was appended to the file reaches the medium."""

    def __init__(self, file: File, revision: int, number: int) -> None:
        self.file = file
        self.revision = revision
        self.number = number

    def __call__(self) -> None:
        self.file.sync()


class _Rewrite:
    """A job: a new file of the cursors there are takes the place of the old one.

    Until the new one has its name the old one is complete. So where there is an old one to go on with, failing to write
    (a full disk) is no loss.
    """

    def __init__(self, store: "CursorStore", pending: list[Change]) -> None:
        self.disk = store.disk
        self.directory = store.directory
        self.old = store.file
        self.needed = store.rewrite_due
        self.cursors = list(store.cursors.values())
        self.revision = store.revision
        self.ts_ns = store.clock.now_ns()
        # What the old file does not have.
        self.pending = pending
        self.file: File | None = None

    def __call__(self) -> None:
        path, new_path = _path(self.directory, FILE_NAME), _path(self.directory, NEW_NAME)
        file = self._write(new_path)
        if file is None:
            assert self.old is not None
            self.old.sync()
            return
        try:
            file.sync()
            self.disk.rename(new_path, path)
            self.disk.sync_directory(self.directory)
        except DiskFailed:
            file.close()
            raise
        self.file = file

    def _write(self, path: str) -> File | None:
        file: File | None = None
        try:
            if self.disk.exists(path):
                self.disk.remove(path)
            file = self.disk.create(path)
            file.append([encode_file(self.cursors, self.revision, self.ts_ns)])
            return file
        except DiskFailed:
            if file is not None:
                file.close()
                # It may hold the room that others need.
                with suppress(DiskFailed):
                    self.disk.remove(path)
            if self.needed or self.old is None:
                raise
            return None


class CursorStore:
    def __init__(
        self, disk: Disk, directory: str, clock: Clock, file: File | None, contents: Contents
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.clock = clock
        self.file = file
        self.cursors = contents.cursors
        # Of the last change: in memory, in the file, on the medium.
        self.revision = contents.revision
        self.committed_revision = contents.revision
        self.synced_revision = contents.revision
        # Found when it was opened: synced records that are lost, and bytes of writes that were not finished.
        self.damaged = contents.damaged
        self.cut_size = contents.cut_size
        self.failure: StorageError | None = None
        # Of the last record in the file, and of the last one on the medium.
        self._number = contents.number
        # The closed record may not be there yet.
        self._synced_number = contents.synced
        self._live_size = sum(record_size(name) for name in contents.cursors)
        self._rewrite_above = CURSOR_GARBAGE_SIZE
        # Whether the last record says that all is on the medium.
        self._marked = contents.closed
        self.rewrite_due = not contents.closed
        self._pending: list[Change] = []
        self._job: _Sync | _Rewrite | None = None
        self._waiting: list[tuple[int, int, Released]] = []
        self._waits = 0

    @classmethod
    def open(cls, disk: Disk, directory: str, clock: Clock) -> "CursorStore":
        """The cursors of a log. A log that has none gets its file with the first.

        A file that was not closed is written anew at once: what a process left behind may be in the system's memory
        only, and where a sync has failed before, another one proves nothing. If the disk refuses that, the cursors can
        be fetched and not changed, and `failure` says why.
        """
        path, new_path = _path(directory, FILE_NAME), _path(directory, NEW_NAME)
        if disk.exists(new_path):
            disk.remove(new_path)
        if not disk.exists(path):
            return cls(disk, directory, clock, None, Contents())
        file = disk.open(path)
        try:
            contents = read_cursors(file.read(0, file.size))
        except StorageError:
            file.close()
            raise
        store = cls(disk, directory, clock, file, contents)
        if not contents.closed:
            store._secure()
        return store

    # ---- requests ----

    def fetch(self, name: str) -> Cursor | None:
        return self.cursors.get(name)

    def list(self) -> list[Cursor]:
        """All, by name."""
        return sorted(self.cursors.values())

    def set(self, name: str, seq: int, expected_revision: int | None = None, rewind: bool = False) -> Cursor:
        """Move a cursor, or make one. An expected revision of 0: there is none yet."""
        self._check(name)
        if not 0 <= seq <= _SEQ_MOST:
            raise CursorError(f"cursor {name!r} cannot be set to {seq}: sequences are from 0 to {_SEQ_MOST}")
        found = self._expect(name, expected_revision)
        if found is None:
            if len(self.cursors) >= CURSORS_PER_LOG:
                raise CursorError(
                    f"there are {CURSORS_PER_LOG} cursors already: delete one that is not needed"
                )
            self._live_size += record_size(name)
        elif seq < found.seq and not rewind:
            raise CursorBehind(name, seq, found.seq)
        cursor = Cursor(name, seq, self.revision + 1, self.clock.now_ns())
        self.cursors[name] = cursor
        self._record(Kind.SET, cursor)
        return cursor

    def delete(self, name: str, expected_revision: int | None = None) -> int:
        """The revision of the deletion; 0 if there was nothing to delete."""
        self._check(name)
        found = self._expect(name, expected_revision)
        if found is None:
            return 0
        del self.cursors[name]
        self._live_size -= record_size(name)
        self._record(Kind.DELETE, Cursor(name, found.seq, self.revision + 1, self.clock.now_ns()))
        return self.revision

    def wait(self, revision: int, callback: Released) -> None:
        """Call back once the revision is on the medium, or with the failure that prevents it. It must not raise."""
        assert revision <= self.revision, "only what was given out can be waited for"
        if self.failure is not None or revision <= self.synced_revision:
            callback(self.failure if revision > self.synced_revision else None)
            return
        self._waits += 1
        heapq.heappush(self._waiting, (revision, self._waits, callback))

    # ---- the way to the medium ----

    @property
    def dirty(self) -> bool:
        """Whether there is anything that is not on the medium, and still could get there."""
        return self.failure is None and self.revision > self.synced_revision

    def commit(self) -> int:
        """Append what has changed, in one call; how many bytes. None while the file is written anew: call again then.

        If the disk refuses, nothing is lost: the changes wait for the next commit.
        """
        if not self._pending or self.rewrite_due or isinstance(self._job, _Rewrite):
            return 0
        size = self._append(
            [
                encode_record(kind, number, self._synced_number, cursor)
                for number, (kind, cursor) in enumerate(self._pending, self._number + 1)
            ]
        )
        self._number += len(self._pending)
        self._pending = []
        self.committed_revision = self.revision
        return size

    def sync_job(self) -> Callable[[], None] | None:
        """What brings everything committed to the medium, for any thread. None: nothing to do, or one is running."""
        if self._job is not None or not self.dirty:
            return None
        if self.rewrite_due or self._garbage_size() > self._live_size + self._rewrite_above:
            pending, self._pending = self._pending, []
            self._job = _Rewrite(self, pending)
        elif self.file is not None and self.committed_revision > self.synced_revision:
            self._job = _Sync(self.file, self.committed_revision, self._number)
        return self._job

    def synced(self, error: StorageError | None) -> None:
        """The job has ended; with an error, this store has as well."""
        job, self._job = self._job, None
        assert job is not None, "one call for each job"
        if error is not None:
            self._fail(error)
            return
        if isinstance(job, _Rewrite):
            self._take_over(job)
            self.synced_revision, self._synced_number = self.committed_revision, self._number
        else:
            self.synced_revision, self._synced_number = job.revision, job.number
        self._release(None)

    def sync(self) -> None:
        """Commit and sync, here and now."""
        while self.dirty:
            self.commit()
            job = self.sync_job()
            assert job is not None, "not while a job is running elsewhere"
            try:
                job()
            except StorageError as error:
                self.synced(error)
                raise
            self.synced(None)

    def close(self) -> None:
        """Bring everything to the medium, unless that has failed. A running job must have ended."""
        assert self._job is None, "a job is running"
        try:
            self.sync()
            if self.file is not None and self.failure is None and not self._marked:
                # Behind a sync that has succeeded; it need not be synced itself. Without it the file is written anew.
                mark = Cursor("", 0, self.revision, self.clock.now_ns())
                with suppress(DiskFailed):
                    self._append([encode_record(Kind.CLOSED, self._number + 1, self._number, mark)])
        finally:
            if self.failure is None:
                self._fail(StorageError("the cursors were closed"))
            if self.file is not None:
                self.file.close()
                self.file = None

    # ---- inside ----

    def _secure(self) -> None:
        """Bring what was found to the medium."""
        self.synced_revision = 0
        job = self._job = _Rewrite(self, [])
        try:
            job()
        except DiskFailed as error:
            self.synced(error)
        else:
            self.synced(None)

    def _check(self, name: str) -> None:
        if self.failure is not None:
            raise StorageError(f"cursors cannot be changed until they are opened anew: {self.failure}")
        check_name(name)
        if self.revision - self.synced_revision >= CURSOR_CHANGES_UNSYNCED:
            raise CursorError(
                f"{CURSOR_CHANGES_UNSYNCED} changes of cursors are waiting for the disk: try again later"
            )

    def _expect(self, name: str, revision: int | None) -> Cursor | None:
        found = self.cursors.get(name)
        actual = found.revision if found is not None else 0
        if revision is not None and revision != actual:
            raise CursorConflict(name, revision, actual)
        return found

    def _record(self, kind: Kind, cursor: Cursor) -> None:
        self.revision = cursor.revision
        self._pending.append((kind, cursor))

    def _append(self, records: Sequence[bytes]) -> int:
        """All or nothing, unless the disk does not even cut off what it has of them."""
        assert self.file is not None
        end_pos, self._marked = self.file.size, False
        try:
            self.file.append(records)
        except DiskFailed as error:
            try:
                self.file.truncate(end_pos)
            except DiskFailed:
                self._fail(error)
            raise
        return self.file.size - end_pos

    def _garbage_size(self) -> int:
        assert self.file is not None
        return self.file.size - FILE_HEADER_SIZE - self._live_size

    def _take_over(self, job: _Rewrite) -> None:
        if job.file is None:
            # The disk has no room for a new file. Not again before there is twice as much to win.
            self._rewrite_above = 2 * self._garbage_size()
            self._pending = job.pending + self._pending
            return
        if job.old is not None:
            job.old.close()
        self.file = job.file
        self.rewrite_due = self._marked = False
        self._rewrite_above = CURSOR_GARBAGE_SIZE
        self._number = len(job.cursors)
        self.committed_revision = job.revision

    def _fail(self, error: StorageError) -> None:
        self.failure = error
        self._pending = []
        self._release(error)

    def _release(self, error: StorageError | None) -> None:
        waiting = self._waiting
        while waiting and (error is not None or waiting[0][0] <= self.synced_revision):
            heapq.heappop(waiting)[2](error)


def check_name(name: str) -> None:
    """Any text without control characters, of 1 to CURSOR_NAME_SIZE bytes."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise CursorError(f"{name!r} is no name for a cursor: it is no valid text") from None
    if not 1 <= size <= CURSOR_NAME_SIZE:
        raise CursorError(f"a cursor's name has 1 to {CURSOR_NAME_SIZE} bytes, not {size}")
    if _CONTROL.search(name):
        raise CursorError(f"{name!r} is no name for a cursor: it has control characters")


def _path(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
