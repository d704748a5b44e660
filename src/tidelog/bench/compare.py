"""Ours and a peer, side by side: the same cases, interleaved, and the ratio of the medians.

For each case both servers are started fresh with the same configuration file. It is found out how much work
each can do in a round; then rounds alternate (ours, peer, peer, ours, ours, ...), so that whatever else the
machine does falls on both. A round counts only if every message arrived; a case in which one does not is a
failure, not a row.
"""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidelog.base.errors import TidelogError
from tidelog.bench.case import RATE, Access, Case, Goal, Kind
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.jetstream.case import ALWAYS, StreamCase
from tidelog.bench.jetstream.stage import Stage
from tidelog.bench.run import Outcome, calibrate, cpu_s, measure
from tidelog.bench.server import Server, serving

ROUND_S = 1.0
# The counters of /varz may trail the last PONG by a moment.
COUNTER_TIMEOUT_S = 2.0
POLL_S = 0.01
# What the kernel counts CPU time in.
CPU_TICK_S = 0.01

MICROSECONDS = "us"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds per second of a round, and what the server did with a CPU second.

    The latter hardly depends on what else the machine does, but leaves out whether work is spread over cores.
    `others` is what the rest of the machine took; figures from a busy machine should be taken again.
    """

    server: float
    generator: float
    others: float
    rate_per_cpu: float


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. Values are per round; for latencies a smaller ratio is better."""

    case: str
    title: str
    unit: str
    ours_rounds: tuple[float, ...]
    peer_rounds: tuple[float, ...]
    goal: Goal | None = None

    @property
    def ours(self) -> float:
        return statistics.median(self.ours_rounds)

    @property
    def peer(self) -> float:
        return statistics.median(self.peer_rounds)

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met_by(self.ratio)


AnyCase = Case | StreamCase


class Work(Protocol):
    """A case on one server."""

    def calibrate(self, seconds: float) -> int:
        """How much work takes about so long."""

    def ready(self) -> None:
        """Prepare a round. Not measured."""

    def measure(self, amount: int) -> Outcome:
        """A round. Raises unless all of the work was done."""


@dataclass(frozen=True, slots=True)
class CoreWork:
    case: Case
    server: Server

    def calibrate(self, seconds: float) -> int:
        return calibrate(self.case, self.server.target(), seconds)

    def ready(self) -> None: ...

    def measure(self, amount: int) -> Outcome:
        in_msgs = self.server.in_msgs() if self.case.kind is Kind.PUBLISH else None
        outcome = measure(self.case, self.server.target(), amount)
        if in_msgs is not None:
            require_in_msgs(self.server, in_msgs, outcome)
        return outcome


@dataclass(slots=True)
class Side:
    """One of the two servers of a case, and what its rounds gave."""

    server: Server
    work: Work
    amount: int = 0
    rounds: list[dict[str, float]] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)

    def median_cost(self) -> Cost:
        return Cost(
            statistics.median(cost.server for cost in self.costs),
            statistics.median(cost.generator for cost in self.costs),
            statistics.median(cost.others for cost in self.costs),
            statistics.median(cost.rate_per_cpu for cost in self.costs),
        )


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: AnyCase
    rows: tuple[Row, ...]
    ours_cost: Cost
    peer_cost: Cost


@dataclass(slots=True)
class Comparison:
    rounds: int
    results: list[CaseResult] = field(default_factory=list)
    # By name of the case: why it gave no row.
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        return [row for result in self.results for row in result.rows]


def compare(
    cases: Sequence[AnyCase],
    *,
    ours: Sequence[str],
    peer: Sequence[str],
    rounds: int,
    scale: float,
    progress: Callable[[str], None],
) -> Comparison:
    """Run all cases; `progress` is told what is being done."""
    comparison = Comparison(rounds)
    for case in cases:
        try:
            comparison.results.append(
                compare_case(case, ours=ours, peer=peer, rounds=rounds, scale=scale, progress=progress)
            )
        except TidelogError as error:
            comparison.failures[case.name] = f"{type(error).__name__}: {error}"
    return comparison


def compare_case(
    case: AnyCase,
    *,
    ours: Sequence[str],
    peer: Sequence[str],
    rounds: int,
    scale: float,
    progress: Callable[[str], None],
) -> CaseResult:
    with contextlib.ExitStack() as stack:
        sides = [Side(server, work) for server, work in working(case, stack, (ours, peer), progress)]
        for side in sides:
            progress(f"{case.name}: calibrating")
            side.amount = side.work.calibrate(ROUND_S * scale)
        for number in range(rounds):
            progress(f"{case.name}: round {number + 1} of {rounds}")
            for side in sides if number % 2 == 0 else reversed(sides):
                one_round(side)
    left, right = sides
    units = [RATE, *(unit for unit in left.rounds[0] if unit != RATE)]
    rows = tuple(row_of(case, unit, left, right) for unit in units)
    return CaseResult(case, rows, left.median_cost(), right.median_cost())


def working(
    case: AnyCase,
    stack: contextlib.ExitStack,
    commands: Sequence[Sequence[str]],
    progress: Callable[[str], None],
) -> Iterator[tuple[Server, Work]]:
    """A fresh server for each command, ready for the case."""
    if isinstance(case, Case):
        servers = stack.enter_context(serving(case.access, *commands))
        yield from ((server, CoreWork(case, server)) for server in servers)
        return
    block = "jetstream { sync_interval: always }" if case.sync == ALWAYS else ""
    for server in stack.enter_context(serving(Access.OPEN, *commands, block=block, streams=True)):
        progress(f"{case.name}: filling")
        yield server, stack.enter_context(Stage(case, server.target()))


def row_of(case: AnyCase, unit: str, left: Side, right: Side) -> Row:
    name = case.name if unit == RATE else f"{case.name} {unit}"
    return Row(
        name,
        case.title if unit == RATE else f"{case.title}, {unit}",
        RATE if unit == RATE else MICROSECONDS,
        tuple(values[unit] for values in left.rounds),
        tuple(values[unit] for values in right.rounds),
        case.goals.get(unit),
    )


def one_round(side: Side) -> None:
    server = side.server
    side.work.ready()
    before = server.cpu_s(), cpu_s(), machine_busy_s(), time.monotonic()
    outcome = side.work.measure(side.amount)
    after = server.cpu_s(), cpu_s(), machine_busy_s(), time.monotonic()
    by_server_s, by_generator_s, by_all_s, whole_s = (
        now - then for now, then in zip(after, before, strict=True)
    )
    used_s = max(CPU_TICK_S, by_server_s)
    elapsed_s = outcome.elapsed_ns / 1e9
    side.rounds.append(outcome.values())
    side.costs.append(
        Cost(
            server=used_s / elapsed_s,
            generator=outcome.generator_cpu_s / elapsed_s,
            others=max(0.0, by_all_s - by_server_s - by_generator_s) / whole_s,
            rate_per_cpu=outcome.count / used_s,
        )
    )


def machine_busy_s() -> float:
    """CPU seconds that all processors have spent on anything but idling and waiting for disks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def require_in_msgs(server: Server, before: int, outcome: Outcome) -> None:
    """Nobody receives in a publish-only round, so the server's own counter must have seen every message."""
    deadline = time.monotonic() + COUNTER_TIMEOUT_S
    while (server.in_msgs() or 0) - before != outcome.count:
        if time.monotonic() > deadline:
            counted = (server.in_msgs() or 0) - before
            raise WrongDelivery(f"{outcome.count} messages were published, /varz counted {counted}")
        time.sleep(POLL_S)
