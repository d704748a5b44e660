"""Changes that the disk must hear of before they are answered, made beside the loop.

    changes = Changes(worker, names)
    changes.carry_out(key, job, done, above)    `job` in the worker; `done(error)` when it and the name are safe
    changes.is_busy(key), changes.altering      what a request has to wait for
    changes.on_end                              called when a change is over

Promises
  * For one key, the name of a stream or of a consumer, one change is under way at a time: who asks for another waits
    (tidelog.broker.desk.line does). Those of other keys go on side by side.
  * `done` is called once, in the owner's thread, and before `on_end`.
  * One sync of a directory serves all who have put a name into it before it began.

What it does not do: undo. That is for whoever hears of the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidelog.base.work import Worker, attempt
from tidelog.disk.disk import Disk

Job = Callable[[], object]
Told = Callable[[BaseException | None], None]


class Names:
    """Syncs of directories, of which there is one at a time for each, shared by all who wait for it."""

    def __init__(self, disk: Disk, worker: Worker) -> None:
        self.disk = disk
        self.worker = worker
        self.running: dict[str, list[Told]] = {}
        self.next: dict[str, list[Told]] = {}

    def sync(self, directory: str, done: Told) -> None:
        """What is in this directory now is there for good when `done` hears of no error."""
        if directory in self.running:
            # What runs may have begun before the name was there.
            self.next.setdefault(directory, []).append(done)
        else:
            self._run(directory, [done])

    def _run(self, directory: str, waiting: list[Told]) -> None:
        self.running[directory] = waiting
        disk = self.disk
        self.worker.submit(
            lambda: disk.sync_directory(directory), lambda _, error: self._synced(directory, error)
        )

    def _synced(self, directory: str, error: BaseException | None) -> None:
        told = self.running.pop(directory)
        waiting = self.next.pop(directory, None)
        if waiting:
            self._run(directory, waiting)
        # Whatever one of them does, the others hear of it.
        troubles = [trouble for _, trouble in (attempt(partial(done, error)) for done in told) if trouble]
        if troubles:
            raise troubles[0]


class Change:
    """One that is under way, in one or two parts."""

    def __init__(self, parts: int, over: Told) -> None:
        self.parts = parts
        self.over = over
        self.error: BaseException | None = None

    def part_done(self, error: BaseException | None) -> None:
        self.error = self.error or error
        self.parts -= 1
        if self.parts == 0:
            self.over(self.error)


class Changes:
    """Of one account."""

    def __init__(self, worker: Worker, names: Names) -> None:
        self.worker = worker
        self.names = names
        self.busy: set[str] = set()
        # How many of them change what the other streams of the account are judged by.
        self.altering = 0
        self.on_end: Callable[[], None] | None = None

    def is_busy(self, key: str) -> bool:
        return key in self.busy

    def carry_out(
        self, key: str, job: Job, done: Told, *, above: str = "", alters: bool = False, beside: bool = True
    ) -> None:
        """`above`: a directory with a new name in it. Not `beside`: it costs nothing worth a thread."""
        assert key not in self.busy, f"two changes of {key!r} at a time"
        self.busy.add(key)
        self.altering += alters
        change = Change(2 if above else 1, partial(self._over, key, done, alters))
        if beside:
            self.worker.submit(job, lambda _, error: change.part_done(error))
        else:
            change.part_done(attempt(job)[1])
        if above:
            self.names.sync(above, change.part_done)

    def _over(self, key: str, done: Told, alters: bool, error: BaseException | None) -> None:
        self.busy.remove(key)
        self.altering -= alters
        try:
            done(error)
        finally:
            if self.on_end is not None:
                self.on_end()
