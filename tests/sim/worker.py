"""Background work that happens when a test says so.

A job and its `done` run on the caller's stack, in one step or in two. What a crash drops runs no more.
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
        self._jobs: list[Callable[[], Callable[[], None]]] = []
        self._answers: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._jobs) + len(self._answers)

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, BaseException | None], None]
    ) -> None:
        def run() -> Callable[[], None]:
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the submitter's
                failure = error
                return lambda: done(None, failure)
            return lambda: done(result, None)

        self._jobs.append(run)

    def step(self) -> bool:
        """Tell the oldest answer, or run the oldest job and tell its answer; False if there is neither."""
        return self._tell(0) or (self._run(0) and self._tell(0))

    def step_random(self, chance: Chance) -> bool:
        """Any one of them, with its answer: several threads finish in any order."""
        if self._answers:
            return self._tell(chance.integer(len(self._answers)))
        return bool(self._jobs) and self._run(chance.integer(len(self._jobs))) and self._tell(0)

    def half_step(self, chance: Chance) -> bool:
        """Run any job, and keep its answer back; or tell any such answer. The owner may do something in between."""
        if not len(self):
            return False
        at = chance.integer(len(self))
        return self._run(at) if at < len(self._jobs) else self._tell(at - len(self._jobs))

    def run_all(self, limit: int = 100_000) -> int:
        """Until none is left, with those that are submitted meanwhile; how many there were."""
        count = 0
        while self.step():
            count += 1
            assert count <= limit, "jobs submit jobs without end"
        return count

    def drop_all(self) -> int:
        """At a crash: none of them has ever run, and no answer is told. How many there were."""
        count = len(self)
        self._jobs.clear()
        self._answers.clear()
        return count

    def _run(self, index: int) -> bool:
        if not self._jobs:
            return False
        self._answers.append(self._jobs.pop(index)())
        return True

    def _tell(self, index: int) -> bool:
        if not self._answers:
            return False
        self._answers.pop(index)()
        return True
