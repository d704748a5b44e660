"""The cases of streams, each with its goal: ours against the peer, same machine, same run.

Names are stable, for they are what `--case` takes and what committed results are compared by.

What a sync setting means: `SAME` lets both leave it to the system for a while (ours `throughput`, the peer's default
of two minutes); `ALWAYS` has both sync before they acknowledge; a preset of ours stands against the peer's default.
"""

from dataclasses import dataclass
from enum import Enum
from functools import partial

from tidelog.bench.case import Measured, rate_goal


class Act(Enum):
    PUBLISH = "publish"
    BATCH = "batch"  # all of a batch or none
    KV_PUT = "kv put"
    KV_GET = "kv get"
    GET = "get"  # direct, by sequence
    GET_BATCH = "get batch"
    ORDERED = "ordered"  # an ordered consumer that pulls, as new clients do
    PUSHED = "pushed"  # one that is pushed to, with flow control
    FETCH = "fetch"  # a durable consumer; every message is acknowledged
    FILTERED = "filtered"  # consumers of a thousandth of all subjects, made and read one after the other


SAME, ALWAYS = "throughput", "always"
WRITES = frozenset({Act.PUBLISH, Act.BATCH, Act.KV_PUT})
WINDOW = 1_000
CLIENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCase(Measured):
    act: Act
    size: int = 128
    subjects: int = 1
    file: bool = False
    sync: str = SAME
    # Requests under way at a time.
    window: int = WINDOW
    # Messages in a batch, or asked for at a time.
    batch: int = 500
    # What is in the stream before it is read.
    stored: int = 0


def _case(name: str, title: str, act: Act, goal: float | None = None, **settings: object) -> StreamCase:
    goals = rate_goal(goal) if goal else {}
    return StreamCase(name=name, title=title, act=act, goals=goals, **settings)  # type: ignore[arg-type]


_published = partial(_case, act=Act.PUBLISH)
_read = partial(_case, stored=300_000, file=True)


PUBLISHING = (
    _published("js-sync", "publish and wait, 16 B, memory", goal=1.2, size=16, window=1),
    _published("js-sync-file", "publish and wait, 16 B, file", size=16, window=1, file=True),
    _published(
        "js-sync-always", "publish and wait, 16 B, file, both sync", size=16, window=1, file=True, sync=ALWAYS
    ),
    _published("js-async", "publish, 128 B, memory", goal=3),
    _published("js-async-10k", "publish, 128 B, memory, 10,000 subjects", goal=3, subjects=10_000),
    _published("js-async-file", "publish, 128 B, file", goal=3, file=True),
    _published(
        "js-async-file-10k", "publish, 128 B, file, 10,000 subjects", goal=3, file=True, subjects=10_000
    ),
    _published("js-async-always", "publish, 128 B, file, both sync", goal=3, file=True, sync=ALWAYS),
    _published(
        "js-async-strict", "publish, 128 B, ours `strict`, peer's default", goal=1, file=True, sync="strict"
    ),
    _published(
        "js-async-strict-10k",
        "publish, 128 B, 10,000 subjects, ours `strict`, peer's default",
        goal=1,
        file=True,
        sync="strict",
        subjects=10_000,
    ),
    _published(
        "js-async-durable", "publish, 128 B, ours `durable`, peer's default", file=True, sync="durable"
    ),
    _published(
        "js-async-balanced", "publish, 128 B, ours `balanced`, peer's default", file=True, sync="balanced"
    ),
    _case("js-batch", "atomic batches of 500, 128 B, memory", Act.BATCH, window=4),
    _case("js-batch-file", "atomic batches of 500, 128 B, file", Act.BATCH, window=4, file=True),
)
READING = (
    _read("js-ordered", "ordered consumer, 128 B", Act.ORDERED, 3),
    _read("js-ordered-push", "ordered consumer, pushed to, 128 B", Act.PUSHED),
    _read("js-fetch", "durable consumer, fetch 500 and acknowledge each, 128 B", Act.FETCH, 3),
    _read(
        "js-filtered",
        "consumers with a wildcard over 1,000 of 1 M subjects, made and read, 16 B",
        Act.FILTERED,
        10,
        size=16,
        subjects=1_000_000,
        stored=1_000_000,
        batch=1_000,
    ),
    _read("js-get", "direct get by sequence, 16 under way, 128 B", Act.GET, window=CLIENTS),
    _read("js-get-sync", "direct get by sequence, one at a time, 128 B", Act.GET, window=1),
    _read("js-get-batch", "direct get, batches of 500, 128 B", Act.GET_BATCH),
)
_KEYS = {"subjects": 10_000, "file": True}
BUCKETS = (
    _case(
        "js-kv-put",
        "KV put, 10,000 keys, 16 under way, 128 B, file",
        Act.KV_PUT,
        1.5,
        window=CLIENTS,
        **_KEYS,
    ),
    _case("js-kv-put-sync", "KV put, 10,000 keys, one at a time, 128 B, file", Act.KV_PUT, window=1, **_KEYS),
    _case(
        "js-kv-get",
        "KV get, 10,000 keys, 16 under way, 128 B, file",
        Act.KV_GET,
        1.5,
        window=CLIENTS,
        stored=10_000,
        **_KEYS,
    ),
    _case(
        "js-kv-get-sync",
        "KV get, 10,000 keys, one at a time, 128 B, file",
        Act.KV_GET,
        window=1,
        stored=10_000,
        **_KEYS,
    ),
)

STREAM_CASES = PUBLISHING + READING + BUCKETS
