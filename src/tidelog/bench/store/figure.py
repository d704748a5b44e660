"""What a case gives: figures, each of some rounds, with the goal that it is held to at full size."""

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from tidelog.bench.case import Goal


@dataclass(frozen=True, slots=True)
class Figure:
    """`name` says which of the figures of its case this is."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    goal: Goal | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met_by(self.value)


def at_least(value: float) -> Goal:
    return Goal(value)


def at_most(value: float) -> Goal:
    return Goal(value, at_least=False)


def as_fields(figure: Figure) -> dict[str, Any]:
    """To be sent by one process to another."""
    return asdict(figure)


def from_fields(fields: dict[str, Any]) -> Figure:
    goal = None if fields["goal"] is None else Goal(**fields["goal"])
    return Figure(fields["name"], fields["unit"], tuple(fields["rounds"]), goal)
