"""The next and the previous message of a filter, in a log where few match: the three cases that the peer has for it.

Every round reads through all matches from one end to the other and starts with nothing known of the filter. What is
found is compared with what was put in, message by message.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidelog.bench.case import Goal
from tidelog.bench.fault import require
from tidelog.bench.store import load
from tidelog.bench.store.figure import Figure, at_most
from tidelog.bench.store.load import Mix
from tidelog.bench.store.stage import MESSAGES, Stage, disk_at, opened
from tidelog.log.filter import Filter
from tidelog.log.log import Log

BATCH = 1024
# As short as the peer's, so that a log of this many messages is small for both.
PAYLOAD_SIZE = 8
# A round is short, so there are more.
REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Every `every`-th message matches `pattern`: its subject is `rare`, with its number where that has a place."""

    every: int
    pattern: bytes
    rare: bytes
    others: int = 1  # subjects of all other messages
    other: bytes = b"foo.bar"
    most_ms: float | None = None

    def measure(self, stage: Stage) -> Iterator[Figure]:
        messages = stage.count(MESSAGES)
        mix = self.mix(stage, messages)
        goal: Goal | None = None if self.most_ms is None else at_most(self.most_ms)
        forward = array("Q", range(1, messages + 1, min(self.every, messages)))
        backward = array("Q", reversed(forward))
        filter = Filter(self.pattern)
        with opened(disk_at(None), stage.settings()) as (logs, worker):
            load.append(logs, mix, messages, BATCH, worker=worker)
            (log,) = logs
            ways: list[tuple[str, Callable[[], tuple[int, array[int]]], array[int]]] = [
                ("next, by a reader", lambda: load.scan(log, mix, filter), forward),
                ("next, one by one", lambda: step(log, mix, filter), forward),
                ("previous, by a reader", lambda: load.scan(log, mix, filter, backward=True), backward),
                ("previous, one by one", lambda: step_back(log, mix, filter), backward),
            ]
            for name, way, expected in ways:
                times = []
                for _ in range(stage.rounds * REPEATS):
                    load.forget_windows(log)
                    ns, found = way()
                    require(found == expected, f"{len(found)} matches instead of {len(expected)}, or others")
                    times.append(ns / 1e6)
                yield Figure(name, "ms", tuple(times), goal)

    def mix(self, stage: Stage, messages: int) -> Mix:
        others = stage.count(self.others, least=1)
        every = min(self.every, messages)
        rare = numbered(self.rare, range(0, messages, every))
        return Mix(numbered(self.other, range(others)), rare, every, PAYLOAD_SIZE)


def numbered(subject: bytes, numbers: Iterable[int]) -> list[bytes]:
    """The subject with each of the numbers, if it has a place for one."""
    return [subject % number for number in numbers] if b"%d" in subject else [subject]


def step(log: Log, mix: Mix, filter: Filter) -> tuple[int, "array[int]"]:
    """Ask for the next match, get it, and so on: nanoseconds, and what there was."""
    found: array[int] = array("Q")
    start_ns = time.monotonic_ns()
    seq = log.next(filter, 1)
    while seq:
        check(log, mix, seq)
        found.append(seq)
        seq = log.next(filter, seq + 1)
    return time.monotonic_ns() - start_ns, found


def step_back(log: Log, mix: Mix, filter: Filter) -> tuple[int, "array[int]"]:
    """The same from the newest down."""
    found: array[int] = array("Q")
    start_ns = time.monotonic_ns()
    seq = log.previous(filter, log.state().last_seq)
    while seq:
        check(log, mix, seq)
        found.append(seq)
        seq = log.previous(filter, seq - 1)
    return time.monotonic_ns() - start_ns, found


def check(log: Log, mix: Mix, seq: int) -> None:
    message = log.get(seq)
    if message is None or message.subject != mix.subject(seq) or message.payload != mix.payload_of(seq):
        require(False, f"message {seq} is {message!r}")
