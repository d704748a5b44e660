"""What a reload may change: compares two Options."""

from dataclasses import dataclass

from tidelog.serve.options import Options


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """Lines that say what changes, and what must not."""

    applied: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def plan(old: Options, new: Options) -> ReloadPlan:
    return ReloadPlan(applied=("configuration",) if old != new else ())
