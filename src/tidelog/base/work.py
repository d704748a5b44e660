"""Work that may not hold up the one who owns the state: syncing, surveying, compressing.

Promises
  * A job gets nothing but what it was made with, and touches no state; its answer comes back through `done(answer,
    error)`, called by the owner, in the owner's thread.
  * Jobs of one worker may finish in any order. Who needs an order keeps one job under way.

`Inline` does everything at once, for memory and for tests. `Threads` has real threads; its owner calls `deliver` when
`on_ready` has told it to (or waits in `deliver`).
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Answer = TypeVar("Answer")
Done = Callable[[Any, BaseException | None], None]


class Worker(Protocol):
    def submit(self, job: Callable[[], Any], done: Done) -> None: ...


class Inline:
    """Does a job while it is submitted."""

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        done(*attempt(job))


class Threads:
    """A few daemon threads, and a queue of answers."""

    def __init__(self, count: int = 2, on_ready: Callable[[], None] | None = None) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Done] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Done, Any, BaseException | None]] = queue.SimpleQueue()
        self._on_ready = on_ready
        self._threads = [
            threading.Thread(target=self._run, name=f"tidelog-work-{number}", daemon=True)
            for number in range(count)
        ]
        self.under_way = 0
        for thread in self._threads:
            thread.start()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        self.under_way += 1
        self._jobs.put((job, done))

    def deliver(self, timeout_s: float | None = 0.0) -> int:
        """Call `done` for everything that has finished; waits for the first so long (None: for ever)."""
        delivered = 0
        while self.under_way:
            try:
                if delivered or timeout_s == 0.0:
                    done, answer, error = self._answers.get_nowait()
                else:
                    done, answer, error = self._answers.get(timeout=timeout_s)
            except queue.Empty:
                break
            self.under_way -= 1
            delivered += 1
            done(answer, error)
        return delivered

    def stop(self) -> None:
        """Finish what was submitted and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            self._answers.put((done, *attempt(job)))
            if self._on_ready is not None:
                self._on_ready()


def attempt(job: Callable[[], Answer]) -> tuple[Answer | None, BaseException | None]:
    try:
        return job(), None
    except BaseException as error:  # noqa: BLE001  it is the owner's to judge
        return None, error
