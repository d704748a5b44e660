"""What can go wrong with a call to a simulated disk, and the loop that makes every single call go wrong once.

    for n, outcome in every_failure(lambda fault: scenario(SimDisk(1, toxics=[fault]))):
        ...

A toxic is asked before each call and answers 0 (go on), the number of the system's reason (fail), or `CRASH`. It may
also do something of its own, such as move the clock.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.errors import StorageError

CRASH = -1

CONTENT = frozenset({"append", "write", "truncate"})
NAMES = frozenset({"create", "make_directory", "rename", "remove"})
SYNCS = frozenset({"sync", "sync_directory"})
CHANGES = CONTENT | NAMES | SYNCS

Answer = TypeVar("Answer")


class Crashed(BaseException):
    """The process that made this call is no more. Not an `Exception`: nothing that it had in mind may still happen."""


@dataclass
class Call:
    """One call, as it stands in a trace."""

    number: int
    operation: str
    path: str
    pos: int = 0
    size: int = 0
    answer: str = ""

    def __str__(self) -> str:
        where = f" {self.pos}+{self.size}" if self.pos or self.size else ""
        return f"{self.number} {self.operation} {self.path or '.'}{where}" + (
            self.answer and f": {self.answer}"
        )


class Toxic(Protocol):
    def strike(self, call: Call) -> int:
        """0, the number of an error, or `CRASH`."""


@dataclass
class Aim:
    """Which calls are meant: operations by name (none: all), below paths that begin with `path`."""

    kind: str | Collection[str] = ""
    path: str = ""

    def meets(self, call: Call) -> bool:
        kinds = (self.kind,) if isinstance(self.kind, str) else self.kind
        return (self.kind == "" or call.operation in kinds) and call.path.startswith(self.path)


class Nth:
    """The n-th call that is meant, counted from 1; with `sticky`, also every later one."""

    def __init__(self, n: int, aim: Aim, verdict: int, sticky: bool = False) -> None:
        self.n = n
        self.aim = aim
        self.verdict = verdict
        self.sticky = sticky
        self.seen = 0
        self.hit: Call | None = None

    @property
    def fired(self) -> bool:
        return self.hit is not None

    def strike(self, call: Call) -> int:
        if not self.aim.meets(call):
            return 0
        self.seen += 1
        if self.seen == self.n or (self.sticky and self.fired):
            self.hit = self.hit or call
            return self.verdict
        return 0

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.n}): {self.hit or 'not reached'}"


class FailNth(Nth):
    def __init__(
        self,
        n: int,
        kind: str | Collection[str] = "",
        path: str = "",
        number: int = errno.EIO,
        sticky: bool = False,
    ) -> None:
        super().__init__(n, Aim(kind, path), number, sticky)


class CrashNth(Nth):
    """The process ends in the n-th call, which may still have done its work, or part of it."""

    def __init__(self, n: int, kind: str | Collection[str] = "", path: str = "") -> None:
        super().__init__(n, Aim(kind, path), CRASH)


class Flaky:
    """Fails now and then."""

    def __init__(
        self,
        chance: Chance,
        likelihood: float,
        kind: str | Collection[str] = "",
        path: str = "",
        number: int = errno.EIO,
    ) -> None:
        self.chance = chance
        self.likelihood = likelihood
        self.aim = Aim(kind, path)
        self.number = number

    def strike(self, call: Call) -> int:
        return self.number if self.aim.meets(call) and self.chance.fraction() < self.likelihood else 0


class Slow:
    """Takes its time, by the simulated clock."""

    def __init__(self, clock: ManualClock, ns: int, kind: str | Collection[str] = "", path: str = "") -> None:
        self.clock = clock
        self.ns = ns
        self.aim = Aim(kind, path)

    def strike(self, call: Call) -> int:
        if self.aim.meets(call):
            self.clock.advance(ns=self.ns)
        return 0


class ShortReads:
    """The system gives fewer bytes than there are, now and then. Its chance is its own: all else goes on as without."""

    def __init__(self, chance: Chance, likelihood: float) -> None:
        self.chance = chance
        self.likelihood = likelihood
        self.count = 0

    def part_of(self, size: int) -> int:
        """How many of so many bytes are given at once."""
        if size < 2 or self.chance.fraction() >= self.likelihood:
            return size
        self.count += 1
        return 1 + self.chance.integer(size - 1)


@dataclass
class Outcome(Generic[Answer]):
    """How a run with a fault ended: what it returned, or the storage error or crash that it let through."""

    fault: Nth
    answer: Answer | None = None
    error: StorageError | Crashed | None = None

    @property
    def fired(self) -> bool:
        return self.fault.fired


def every_failure(
    run: Callable[[Nth], Answer],
    kind: str | Collection[str] = "",
    path: str = "",
    number: int = errno.EIO,
    limit: int = 10_000,
) -> Iterator[tuple[int, Outcome[Answer]]]:
    """Let the first meant call fail, then the second, and so on; the last outcome is of the run that met no fault."""
    return every(run, lambda n: FailNth(n, kind, path, number), limit)


def every_crash(
    run: Callable[[Nth], Answer], kind: str | Collection[str] = "", path: str = "", limit: int = 10_000
) -> Iterator[tuple[int, Outcome[Answer]]]:
    """The same with the end of the process, in every call."""
    return every(run, lambda n: CrashNth(n, kind, path), limit)


def every(
    run: Callable[[Nth], Answer], make: Callable[[int], Nth], limit: int
) -> Iterator[tuple[int, Outcome[Answer]]]:
    for n in itertools.count(1):
        assert n <= limit, f"still failing after {limit} runs"
        fault = make(n)
        outcome: Outcome[Answer] = Outcome(fault)
        try:
            outcome.answer = run(fault)
        except BaseException as error:
            error.add_note(f"in the run with {fault}")
            if not fault.fired or not isinstance(error, StorageError | Crashed):
                raise
            outcome.error = error
        yield n, outcome
        if not fault.fired:
            return
