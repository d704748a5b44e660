"""What clients of a server that is killed again and again were told about one stream, and what must follow from it.

    ledger.published(number, seq)           the server acknowledged message `number` as `seq`
    ledger.delivered(number, seq)           it delivered it
    ledger.confirmed(seq, asked_s, waiting) it confirmed that the consumer acknowledged `seq`, as was asked then;
                                            so many copies of it have come by now and are still to be looked at
    ledger.killed()                         now

A fault is found when it happens, by the call that shows it. What the stream holds at the end goes to `check`.
"""

import time
from bisect import bisect
from collections import Counter
from dataclasses import dataclass, field

from tidelog.base.limits import CONSUMER_STATE_DELAY_NS

# What was confirmed so long before a kill is not delivered again: the documented delay, and what writing takes on a
# machine that does other things.
WINDOW_S = CONSUMER_STATE_DELAY_NS / 1e9 + 0.5


@dataclass
class StreamLedger:
    # By number: the sequence that was acknowledged.
    seqs: dict[int, int] = field(default_factory=dict)
    # By sequence: the number, from what was acknowledged or delivered.
    numbers: dict[int, int] = field(default_factory=dict)
    # By sequence: when the confirmation was asked for. It may be heard after a kill.
    confirmed_s: dict[int, float] = field(default_factory=dict)
    # By sequence: copies that came before the confirmation, and how often it was delivered at all.
    waiting: Counter[int] = field(default_factory=Counter)
    deliveries: Counter[int] = field(default_factory=Counter)
    # When it was killed, and when it was heard of last before that: on a busy machine it may have stood still between.
    killed_s: list[float] = field(default_factory=list)
    silent_s: list[float] = field(default_factory=list)
    heard_s: float = 0.0
    duplicates: int = 0  # of publishes that were tried again
    repeated: int = 0  # deliveries of what was acknowledged, within the window

    def published(self, number: int, seq: int, *, duplicate: bool) -> None:
        assert number not in self.seqs, f"message {number} was acknowledged twice: {self.seqs[number]}, {seq}"
        self.heard_s = time.monotonic()
        self.name(number, seq)
        self.seqs[number] = seq
        self.duplicates += duplicate

    def delivered(self, number: int, seq: int) -> None:
        self.heard_s = time.monotonic()
        self.name(number, seq)
        confirmed_s = self.confirmed_s.get(seq)
        if self.waiting[seq] > 0:
            self.waiting[seq] -= 1
        elif confirmed_s is not None:
            # The first kill after it; it may come again only after others.
            at = bisect(self.killed_s, confirmed_s)
            assert at < len(self.killed_s), (
                f"{seq} was acknowledged and delivered again, without a kill between"
            )
            before_s = self.silent_s[at] - confirmed_s
            assert before_s < WINDOW_S, (
                f"{seq} was acknowledged {before_s:.3f} s before the end and delivered again"
            )
            self.repeated += 1
        self.deliveries[seq] += 1

    def confirmed(self, seq: int, asked_s: float, waiting: int) -> None:
        self.heard_s = time.monotonic()
        self.confirmed_s[seq] = asked_s
        self.waiting[seq] = waiting

    def killed(self) -> None:
        self.killed_s.append(time.monotonic())
        self.silent_s.append(self.heard_s)

    def name(self, number: int, seq: int) -> None:
        """No sequence is ever another message."""
        known = self.numbers.setdefault(seq, number)
        assert known == number, f"sequence {seq} was message {known} and is {number} now"

    def all_delivered(self) -> bool:
        return all(seq in self.deliveries for seq in self.seqs.values())

    def check(self, stored: list[tuple[int, int]]) -> None:
        """`stored`: sequence and number of every message of the stream, in order."""
        found = {number: seq for seq, number in stored}
        assert len(found) == len(stored), "a message is there twice: " + str(
            [number for number, times in Counter(number for _, number in stored).items() if times > 1][:10]
        )
        lost = {number: seq for number, seq in self.seqs.items() if found.get(number) != seq}
        assert not lost, f"acknowledged messages are lost, or have moved: {list(lost.items())[:10]}"
        for seq, number in stored:
            self.name(number, seq)
        undelivered = [seq for seq, _ in stored if seq not in self.deliveries]
        assert not undelivered, f"never delivered: {undelivered[:10]}"
