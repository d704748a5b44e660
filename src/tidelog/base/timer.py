"""Timers over a clock that somebody else drives.

`Timers` keeps callbacks by due time. Whoever owns the loop asks `next_due_ns`, sleeps until then, and calls `run`.
Cancelling is O(1): a cancelled timer stays in the heap, silent, until its time or until the heap has doubled, when all
of them are let go of. Nothing here reads a clock, so a test moves time by hand.
"""

import heapq
from collections.abc import Callable
from itertools import count

# The heap is not swept before it has so many timers.
FIRST_SWEEP = 1024


class Timer:
    """One pending callback."""

    __slots__ = ("callback", "due_ns")

    def __init__(self, due_ns: int, callback: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    def __init__(self, on_earlier: Callable[[], None] | None = None) -> None:
        """`on_earlier` is called when a timer becomes the next one due, so that the owner can sleep shorter."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._sweep_at = FIRST_SWEEP
        self.on_earlier = on_earlier

    def at(self, due_ns: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, at monotonic time `due_ns` or soon after."""
        timer = Timer(due_ns, callback)
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        first = not self._heap or due_ns < self._heap[0][0]
        heapq.heappush(self._heap, (due_ns, next(self._order), timer))
        if first and self.on_earlier is not None:
            self.on_earlier()
        return timer

    def _sweep(self) -> None:
        """Let go of cancelled timers: clients that come and go leave theirs behind."""
        self._heap = [entry for entry in self._heap if entry[2].callback is not None]
        heapq.heapify(self._heap)
        self._sweep_at = max(2 * len(self._heap), FIRST_SWEEP)

    def next_due_ns(self) -> int | None:
        """When `run` has something to do next; None: never."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now_ns: int) -> int:
        """Call everything that is due, in order. Returns how many were called."""
        called = 0
        while self._heap and self._heap[0][0] <= now_ns:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
                called += 1
        return called

    def __len__(self) -> int:
        return len(self._heap)
