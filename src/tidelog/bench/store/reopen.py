"""Opening a large log, after its writer was killed and after a clean close, and what it takes of memory then."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.bench.fault import require
from tidelog.bench.store.figure import Figure, at_most
from tidelog.bench.store.stage import MESSAGES, SUBJECTS, Stage, child

# Enough messages of one subject to tell what one of them takes.
FEW = 2_500_000


@dataclass(frozen=True, slots=True)
class Reopen:
    def measure(self, stage: Stage) -> Iterator[Figure]:
        numbers = str(stage.count(MESSAGES)), str(stage.count(SUBJECTS, least=1))
        killed, clean, closed = [], [], []
        for _ in range(stage.rounds):
            with stage.copied(stage.killed_log()) as path:
                first = child(stage, "close", str(path), *numbers)
                second = child(stage, "close", str(path), *numbers)
            require(second["clean"] and not first["clean"], "the snapshot was not used, or there was one")
            require(first["messages"] == second["messages"], "messages have gone")
            killed.append(first["ns"] / 1e9)
            closed.append(first["close_ns"] / 1e9)
            clean.append(second["ns"] / 1e9)
        yield Figure("after kill -9", "s", tuple(killed), at_most(3))
        yield Figure("after a clean close", "s", tuple(clean), at_most(1))
        yield Figure("to close it", "s", tuple(closed))


@dataclass(frozen=True, slots=True)
class Memory:
    """A message's share is that in a log of one subject; a subject's is what a log of many takes beyond that."""

    def measure(self, stage: Stage) -> Iterator[Figure]:
        per_message, per_subject, indexes = [], [], []
        messages, subjects = stage.count(MESSAGES), stage.count(SUBJECTS, least=1)
        for _ in range(stage.rounds):
            few = reopened(stage, FEW, 1)
            many = reopened(stage, MESSAGES, SUBJECTS)
            per_message.append(few["size"] / few["messages"])
            per_subject.append((many["size"] - per_message[-1] * messages) / subjects)
            indexes.append(many["index_size"] / subjects)
        yield Figure("per sealed message", "B", tuple(per_message), at_most(4))
        yield Figure("per subject", "B", tuple(per_subject), at_most(100))
        yield Figure("the whole index, per subject", "B", tuple(indexes))


def reopened(stage: Stage, messages: int, subjects: int) -> dict[str, int]:
    """What a process finds that opens a log which was closed cleanly."""
    numbers = str(stage.count(messages)), str(stage.count(subjects, least=1))
    with stage.copied(stage.killed_log(messages, subjects)) as path:
        child(stage, "close", str(path), *numbers)
        found: dict[str, int] = child(stage, "open", str(path), *numbers)
    return found
