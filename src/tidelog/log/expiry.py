"""When messages expire: a wheel of tenths of a step, each with the sequences that are due in it.

Adding is O(1); what is due is taken in whole steps, a bounded number at a time. A message never goes before its time,
and at most a step after it (and the time to the next tick). What was deleted meanwhile is still here, and harmless.
"""

import heapq
from array import array

STEP_NS = 100_000_000
# Of a message that is kept whatever its age.
FOREVER = 2**63 - 1


class Expiries:
    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._steps: list[int] = []

    def add(self, expiry_ns: int, seq: int) -> None:
        if expiry_ns == FOREVER:
            return
        step = -(-expiry_ns // STEP_NS)
        bucket = self._buckets.get(step)
        if bucket is None:
            bucket = self._buckets[step] = array("Q")
            heapq.heappush(self._steps, step)
        bucket.append(seq)

    def take_due(self, now_ns: int, most: int) -> list[int]:
        """Up to `most` sequences whose time has come; they are forgotten here."""
        taken: list[int] = []
        while self._steps and self._steps[0] * STEP_NS <= now_ns and len(taken) < most:
            bucket = self._buckets[self._steps[0]]
            room = most - len(taken)
            taken += bucket[:room]
            del bucket[:room]
            if not bucket:
                del self._buckets[heapq.heappop(self._steps)]
        return taken

    def next_due_ns(self) -> int | None:
        return self._steps[0] * STEP_NS if self._steps else None

    def listed(self) -> list[tuple[int, int]]:
        """`(expiry_ns, seq)`, to whole steps."""
        return [(step * STEP_NS, seq) for step, bucket in self._buckets.items() for seq in bucket]

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))
