"""The cases that are measured, each with its goal: ours against the peer, same machine, same run.

Names are stable, for they are what `--case` takes and what committed results are compared by.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

from tidelog.base.limits import KIB

RATE = "msg/s"
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: 7f3c0b52-90a1\r\nContent-Type: application/json\r\n\r\n"


class Kind(Enum):
    PUBLISH = "publish"  # nobody listens; done when the PING behind the last message is answered
    DELIVER = "deliver"  # done when every subscriber has every message
    REQUEST = "request"  # one request under way per requester


class Access(Enum):
    """What the configuration file of a server asks of its clients."""

    OPEN = "open"
    RIGHTS = "rights"
    TLS = "tls"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure; in comparisons on ours/peer."""

    bound: float
    at_least: bool = True

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What every case has: a stable name, a title for people, and what ours is to reach."""

    name: str
    title: str
    # By unit: RATE or a percentile.
    goals: Mapping[str, Goal] = field(default_factory=dict)


class Named(Protocol):
    @property
    def name(self) -> str: ...


Chosen = TypeVar("Chosen", bound=Named)


def chosen(cases: Iterable[Chosen], names: tuple[str, ...]) -> list[Chosen]:
    """The cases of those names, in their order; all of them if there are no names."""
    return [case for case in cases if not names or case.name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Measured):
    kind: Kind
    size: int
    publishers: int = 1
    subscribers: int = 1
    requesters: int = 1
    # Of requests; several are a queue group.
    responders: int = 1
    subjects: tuple[str, ...] = ("bench.data",)
    # What each subscriber subscribes to; all subjects match it.
    listen: str = "bench.data"
    # Subscriptions of one more connection. A subject matches one of them at most, so that the order is known.
    patterns: tuple[str, ...] = ()
    headers: bytes = b""
    access: Access = Access.OPEN

    def lap_count(self) -> int:
        """Messages in a lap: some 64 KiB of them, and each subject equally often."""
        wanted = max(1, 64 * KIB // (self.size + len(self.headers) + 24))
        turns = max(1, wanted // len(self.subjects))
        return turns * len(self.subjects)


def rate_goal(ratio: float) -> Mapping[str, Goal]:
    return {RATE: Goal(ratio)}


def many_subjects(count: int) -> tuple[str, ...]:
    """Subjects of three tokens, as devices of some site would have."""
    return tuple(f"bench.site{number % 97}.device{number}" for number in range(count))


def wild_subjects() -> tuple[str, ...]:
    """A thousand subjects: ten regions of ten sites of ten items."""
    return tuple(f"wild.r{number // 100}.s{number // 10 % 10}.i{number % 10}" for number in range(1000))


def wild_patterns() -> tuple[str, ...]:
    """A thousand patterns. Four of ten regions match, each in another way; the others only look alike."""
    hits = [f"wild.r0.s{site}.*" for site in range(10)]
    hits += [f"wild.r1.s{site}.>" for site in range(10)]
    hits += [f"wild.r2.*.i{item}" for item in range(10)]
    hits += [f"*.r3.s{number // 10}.i{number % 10}" for number in range(100)]
    misses = [f"wild.r{number // 100}.*.i{number // 10 % 10}.part{number % 10}" for number in range(300)]
    misses += [f"wild.*.s{number % 10}.j{number}" for number in range(270)]
    misses += [f"*.r{number % 10}.q{number}.>" for number in range(200)]
    misses += [f"tame.*.s{number}.>" for number in range(100)]
    return tuple(hits + misses)


TEAMS = 20
RIGHTS_SUBJECTS = tuple(f"rights.t{number % TEAMS}.k{number // TEAMS}" for number in range(400))

CASES = (
    Case(name="pub-16", title="publish only, 16 B", kind=Kind.PUBLISH, size=16, goals=rate_goal(3)),
    Case(name="pub-128", title="publish only, 128 B", kind=Kind.PUBLISH, size=128, goals=rate_goal(3)),
    Case(name="one-16", title="1:1, 16 B", kind=Kind.DELIVER, size=16, goals=rate_goal(3)),
    Case(name="one-128", title="1:1, 128 B", kind=Kind.DELIVER, size=128),
    Case(name="one-16k", title="1:1, 16 KiB", kind=Kind.DELIVER, size=16 * KIB, goals=rate_goal(1.5)),
    Case(
        name="fan-out", title="1:4, 128 B", kind=Kind.DELIVER, size=128, subscribers=4, goals=rate_goal(1.5)
    ),
    Case(
        name="many",
        title="4x4, 128 B",
        kind=Kind.DELIVER,
        size=128,
        publishers=4,
        subscribers=4,
        goals=rate_goal(1.5),
    ),
    Case(
        name="request",
        title="request/reply, 128 B",
        kind=Kind.REQUEST,
        size=128,
        goals={"p50": Goal(0.9, at_least=False), "p99": Goal(1.0, at_least=False)},
    ),
    Case(
        name="request-8",
        title="8 requesters, 128 B",
        kind=Kind.REQUEST,
        size=128,
        requesters=8,
    ),
    Case(
        name="request-10x2",
        title="10 requesters, 2 services in a queue group, 16 B",
        kind=Kind.REQUEST,
        size=16,
        requesters=10,
        responders=2,
    ),
    Case(
        name="wildcards",
        title="1:1 over 1,000 subjects beside 1,000 wildcard subscriptions, 128 B",
        kind=Kind.DELIVER,
        size=128,
        subjects=wild_subjects(),
        listen="wild.>",
        patterns=wild_patterns(),
        goals=rate_goal(1),
    ),
    Case(
        name="headers",
        title="1:1 with headers, 128 B",
        kind=Kind.DELIVER,
        size=128,
        headers=HEADERS,
        goals=rate_goal(1),
    ),
    Case(
        name="permissions",
        title="1:1 over 400 subjects with permissions, 128 B",
        kind=Kind.DELIVER,
        size=128,
        subjects=RIGHTS_SUBJECTS,
        listen="rights.>",
        access=Access.RIGHTS,
        goals=rate_goal(1),
    ),
    Case(
        name="tls",
        title="1:1 with TLS, 128 B",
        kind=Kind.DELIVER,
        size=128,
        access=Access.TLS,
        goals=rate_goal(1),
    ),
    Case(
        name="subjects-10k",
        title="1:1 over 10,000 subjects, 128 B",
        kind=Kind.DELIVER,
        size=128,
        subjects=many_subjects(10_000),
        listen="bench.>",
    ),
)
