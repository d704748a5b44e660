"""Background work that happens when a test says so.

A job and its `done` run in one step, on the caller's stack. What a crash drops runs neither.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from tidelog.base.chance import Chance

Result = TypeVar("Result")


class Worker(Protocol):
    """Where work goes that would hold up the loop: a thread in the server, a queue in a test."""

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, BaseException | None], None]
    ) -> None:
        """Run `job` later and elsewhere, then tell `done` its result, or None and what it raised."""


class SimWorker:
    """Keeps what was submitted, in order, until it is told to go on."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, BaseException | None], None]
    ) -> None:
        def run() -> None:
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the submitter's
                done(None, error)
            else:
                done(result, None)

        self._jobs.append(run)

    def step(self) -> bool:
        """Run the oldest job; False if there is none."""
        return self._run(0)

    def step_random(self, chance: Chance) -> bool:
        """Run any one of them: several threads finish in any order."""
        return self._run(chance.integer(len(self._jobs)) if self._jobs else 0)

    def run_all(self, limit: int = 100_000) -> int:
        """Until none is left, with those that are submitted meanwhile; how many there were."""
        count = 0
        while self.step():
            count += 1
            assert count <= limit, "jobs submit jobs without end"
        return count

    def drop_all(self) -> int:
        """At a crash: none of them has ever run. How many there were."""
        count = len(self._jobs)
        self._jobs.clear()
        return count

    def _run(self, index: int) -> bool:
        if not self._jobs:
            return False
        self._jobs.pop(index)()
        return True
