"""Time, handed in. Nothing below `serve/` asks the operating system for it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for people and records, monotonic time for durations."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, UTC."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never run backwards."""


class SystemClock:
    """The real one."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class ManualClock:
    """A clock that moves when told to: for tests and simulation."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self.ns = start_ns

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns

    def advance(self, *, seconds: float = 0.0, ns: int = 0) -> None:
        self.ns += int(seconds * 1e9) + ns
