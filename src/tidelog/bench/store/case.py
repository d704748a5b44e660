"""The cases of `tidelog bench store`, each with what it does and the goals that it is held to.

Names are stable, for they are what `--case` takes and what committed results are compared by.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from tidelog.bench.store.append import Append
from tidelog.bench.store.figure import Figure, at_least
from tidelog.bench.store.follow import Followers, Latest, ReaderMemory, Stalled
from tidelog.bench.store.reopen import Memory, Reopen
from tidelog.bench.store.scan import BothWays, CursorFetch, LatestValue
from tidelog.bench.store.search import Search
from tidelog.bench.store.stage import SUBJECTS, Stage


class Work(Protocol):
    def measure(self, stage: Stage) -> Iterator[Figure]:
        """The figures, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class StoreCase:
    name: str
    title: str
    work: Work
    # The peer's case that does the same, in its Benchmark_MemStoreLoadNextMsgFiltered.
    peer: str = ""


WILD = Search(every=10_000, pattern=b"foo.baz.*", rare=b"foo.baz.%d", most_ms=1)
FEW = Search(every=100_000, pattern=b"foo.baz.*", rare=b"foo.baz.%d", most_ms=1)
LITERAL = Search(every=100_000, pattern=b"foo.baz", rare=b"foo.baz", most_ms=1)


def among_many(search: Search) -> Search:
    """The same where all other messages have a million subjects."""
    return replace(search, others=SUBJECTS, other=b"foo.bar.%d", most_ms=5)


CASES = (
    StoreCase("append-memory", "append, in memory", Append(messages=4_000_000, goal=at_least(3))),
    StoreCase(
        "append-memory-10k",
        "append over 10,000 subjects, in memory",
        Append(messages=4_000_000, subjects=10_000),
    ),
    StoreCase(
        "append-memory-1m",
        "append over 1 M subjects, in memory",
        Append(messages=4_000_000, subjects=SUBJECTS),
    ),
    StoreCase("append-memory-16", "append to 16 logs, in memory", Append(messages=4_000_000, logs=16)),
    StoreCase("append-memory-64", "append to 64 logs, in memory", Append(messages=4_000_000, logs=64)),
    StoreCase(
        "append-throughput",
        "append, `throughput`",
        Append(messages=4_000_000, on_disk=True, goal=at_least(2)),
    ),
    StoreCase(
        "append-throughput-16",
        "append to 16 logs, `throughput`",
        Append(messages=4_000_000, on_disk=True, logs=16),
    ),
    StoreCase(
        "append-throughput-64",
        "append to 64 logs, `throughput`",
        Append(messages=4_000_000, on_disk=True, logs=64),
    ),
    StoreCase(
        "append-balanced", "append, `balanced`", Append(messages=4_000_000, on_disk=True, policy="balanced")
    ),
    StoreCase(
        "append-durable", "append, `durable`", Append(messages=4_000_000, on_disk=True, policy="durable")
    ),
    StoreCase(
        "append-strict",
        "append, `strict`, 4,096 in flight",
        Append(messages=1_000_000, on_disk=True, policy="strict", in_flight=4096),
    ),
    StoreCase(
        "append-strict-16",
        "append to 16 logs, `strict`, 4,096 in flight",
        Append(messages=500_000, on_disk=True, policy="strict", in_flight=4096, logs=16),
    ),
    StoreCase(
        "append-strict-64",
        "append to 64 logs, `strict`, 4,096 in flight",
        Append(messages=200_000, on_disk=True, policy="strict", in_flight=4096, logs=64),
    ),
    StoreCase(
        "append-strict-timed",
        "append, `strict`, 4,096 in flight, every sync taking 0.3 ms instead",
        Append(
            messages=1_000_000,
            on_disk=True,
            policy="strict",
            in_flight=4096,
            sync_s=0.0003,
            goal=at_least(0.5),
        ),
    ),
    StoreCase("search-wildcard", "wildcard over 1,000 subjects, 1,000 matches", WILD, "wildcard_linear_scan"),
    StoreCase("search-few", "wildcard over 100 subjects, 100 matches", FEW, "wildcard_bounded_scan"),
    StoreCase("search-literal", "literal, 100 matches", LITERAL, "literal_bounded_scan"),
    StoreCase("search-wildcard-1m", "the same among 1 M subjects", among_many(WILD)),
    StoreCase("search-few-1m", "the same among 1 M subjects", among_many(FEW)),
    StoreCase("search-literal-1m", "the same among 1 M subjects", among_many(LITERAL)),
    StoreCase(
        "search-inner-1m",
        "wildcard in the middle of 1 M subjects, 1,000 matches",
        replace(
            among_many(WILD), pattern=b"foo.*.baz", rare=b"foo.%d.baz", other=b"foo.%d.bar", most_ms=None
        ),
    ),
    StoreCase("latest", "to begin at the end of a log on disk", Latest()),
    StoreCase("reader-memory", "memory of a reader that has followed and waits", ReaderMemory()),
    StoreCase("followers", "append while others wait for more", Followers()),
    StoreCase("stalled", "a follower that stood still for 1 M messages", Stalled()),
    StoreCase("both-ways", "all of 10 M messages on disk", BothWays()),
    StoreCase(
        "latest-value", "the newest message of a subject, of 10 M messages and 1 M subjects", LatestValue()
    ),
    StoreCase("cursor", "a named position beside 10 M messages", CursorFetch()),
    StoreCase("reopen", "open 10 M messages with 1 M subjects", Reopen()),
    StoreCase("memory", "resident memory of 10 M messages with 1 M subjects", Memory()),
)
