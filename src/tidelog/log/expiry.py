"""When messages expire: seconds, each with what is due in it, and of the second that has come all in order.

Adding is O(1) while its second has not come. A message goes at its time, not before it, and as soon after it as
somebody asks. What was deleted meanwhile is still here, and harmless. An entry takes 16 bytes.
"""

import heapq
from array import array

NS = 1_000_000_000
# Of a message that is kept whatever its age.
FOREVER = 2**63 - 1


class Expiries:
    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}  # second -> expiry and sequence, in turn
        self._seconds: list[int] = []
        self._come: list[tuple[int, int]] = []  # of the seconds that have come, the earliest first
        self._last_second = -1  # of those

    def add(self, expiry_ns: int, seq: int) -> None:
        if expiry_ns == FOREVER:
            return
        second = expiry_ns // NS
        if second <= self._last_second:
            heapq.heappush(self._come, (expiry_ns, seq))
            return
        bucket = self._buckets.get(second)
        if bucket is None:
            bucket = self._buckets[second] = array("q")
            heapq.heappush(self._seconds, second)
        bucket.extend((expiry_ns, seq))

    def take_due(self, now_ns: int, most: int) -> list[int]:
        """Up to `most` sequences whose time has come; they are forgotten here."""
        taken: list[int] = []
        while len(taken) < most:
            if self._come and self._come[0][0] <= now_ns:
                taken.append(heapq.heappop(self._come)[1])
            elif not self._come and self._seconds and self._seconds[0] * NS <= now_ns:
                self._next_second()
            else:
                break
        return taken

    def _next_second(self) -> None:
        self._last_second = heapq.heappop(self._seconds)
        pairs = self._buckets.pop(self._last_second)
        self._come = list(zip(pairs[::2], pairs[1::2], strict=True))
        heapq.heapify(self._come)

    def next_due_ns(self) -> int | None:
        """When to ask again; a second that has not come is due when it begins."""
        if self._come:
            return self._come[0][0]
        return self._seconds[0] * NS if self._seconds else None

    def listed(self) -> list[tuple[int, int]]:
        """`(expiry_ns, seq)`."""
        waiting = [
            pair for pairs in self._buckets.values() for pair in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        return self._come + waiting

    def __len__(self) -> int:
        return len(self._come) + sum(len(pairs) // 2 for pairs in self._buckets.values())
