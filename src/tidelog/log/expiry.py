"""When messages expire: a wheel of seconds, each with the sequences that are due in it.

Adding is O(1); what is due is taken in whole seconds, a bounded number at a time. A message never goes before its time,
and at most a second after it (and the time to the next tick). What was deleted meanwhile is still here, and harmless.
"""

import heapq
from array import array

NS = 1_000_000_000
# Of a message that is kept whatever its age.
FOREVER = 2**63 - 1


class Expiries:
    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._seconds: list[int] = []

    def add(self, expiry_ns: int, seq: int) -> None:
        if expiry_ns == FOREVER:
            return
        second = -(-expiry_ns // NS)
        bucket = self._buckets.get(second)
        if bucket is None:
            bucket = self._buckets[second] = array("Q")
            heapq.heappush(self._seconds, second)
        bucket.append(seq)

    def take_due(self, now_ns: int, most: int) -> list[int]:
        """Up to `most` sequences whose time has come; they are forgotten here."""
        taken: list[int] = []
        while self._seconds and self._seconds[0] * NS <= now_ns and len(taken) < most:
            bucket = self._buckets[self._seconds[0]]
            room = most - len(taken)
            taken += bucket[:room]
            del bucket[:room]
            if not bucket:
                del self._buckets[heapq.heappop(self._seconds)]
        return taken

    def next_due_ns(self) -> int | None:
        return self._seconds[0] * NS if self._seconds else None

    def listed(self) -> list[tuple[int, int]]:
        """`(expiry_ns, seq)`, to whole seconds."""
        return [(second * NS, seq) for second, bucket in self._buckets.items() for seq in bucket]

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))
