"""All cases one after the other, each in a process of its own, and what the rest of the machine did meanwhile."""

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.base.errors import TidelogError
from tidelog.bench.compare import machine_busy_s
from tidelog.bench.store.case import StoreCase
from tidelog.bench.store.figure import Figure, from_fields
from tidelog.bench.store.stage import Stage, child


@dataclass(frozen=True, slots=True)
class StoreResult:
    case: StoreCase
    figures: tuple[Figure, ...]
    # Processors that everything else on the machine used.
    others: float


@dataclass(slots=True)
class StoreReport:
    scale: float
    rounds: int
    results: list[StoreResult] = field(default_factory=list)
    # By name of the case: why it gave no figures.
    failures: dict[str, str] = field(default_factory=dict)
    # By name of the peer's case: milliseconds.
    peer: dict[str, float] = field(default_factory=dict)
    peer_name: str = ""

    @property
    def others(self) -> float:
        return max((result.others for result in self.results), default=0.0)


def run(
    cases: Sequence[StoreCase],
    *,
    directory: Path | None,
    scale: float,
    rounds: int,
    progress: Callable[[str], None],
) -> StoreReport:
    """Run the cases; `progress` is told which one it is. Files are below `directory`, or where temporary ones are."""
    report = StoreReport(scale, rounds)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=directory) as path:
        stage = Stage(Path(path), scale, rounds)
        for case in cases:
            progress(case.name)
            try:
                report.results.append(measure(case, stage))
            except (TidelogError, OSError) as error:
                report.failures[case.name] = f"{type(error).__name__}: {error}"
    return report


def measure(case: StoreCase, stage: Stage) -> StoreResult:
    before = machine_busy_s(), used_s(), time.monotonic()
    figures = tuple(from_fields(fields) for fields in child(stage, "case", case.name))
    busy_s, ours_s, whole_s = (
        now - then for now, then in zip((machine_busy_s(), used_s(), time.monotonic()), before, strict=True)
    )
    if stage.scale < 1:
        figures = tuple(Figure(one.name, one.unit, one.rounds) for one in figures)
    return StoreResult(case, figures, max(0.0, busy_s - ours_s) / whole_s)


def used_s() -> float:
    """CPU seconds of this process and of all children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
