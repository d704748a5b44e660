"""What a run over all cases is shown as: a table for people, JSON for programs, Markdown for the repository."""

import json
from collections.abc import Iterator

from rich.table import Table

from tidelog.bench.report import Facts, number, spread
from tidelog.bench.store.figure import Figure
from tidelog.bench.store.run import StoreReport, StoreResult

LEGEND = "Medians of the rounds. CPU is that of all threads. Goals hold at full size only."


def verdict(figure: Figure) -> str:
    return "" if figure.met is None else "met" if figure.met else "missed"


def peer_of(report: StoreReport, result: StoreResult, figure: Figure) -> float | None:
    """What the peer takes for the same; it has no previous message."""
    return report.peer.get(result.case.peer) if figure.name.startswith("next") else None


def rows(report: StoreReport) -> Iterator[tuple[StoreResult, Figure, float | None]]:
    for result in report.results:
        for figure in result.figures:
            yield result, figure, peer_of(report, result, figure)


def table(report: StoreReport) -> Table:
    """For the terminal."""
    shown = Table(title="tidelog's log", caption=LEGEND)
    for heading in ("case", "figure", "unit"):
        shown.add_column(heading)
    for heading in ("value", "goal", "peer"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for result, figure, peer in rows(report):
        style = "" if figure.met is None else "green" if figure.met else "red"
        cells = (number(figure.value), goal_of(figure), "" if peer is None else number(peer), verdict(figure))
        shown.add_row(result.case.name, figure.name, figure.unit, *cells, style=style)
    return shown


def goal_of(figure: Figure) -> str:
    return "" if figure.goal is None else str(figure.goal)


def as_json(report: StoreReport) -> str:
    """A list with one object per figure."""
    found = [
        {
            "case": result.case.name,
            "figure": figure.name,
            "unit": figure.unit,
            "value": figure.value,
            "rounds": list(figure.rounds),
            "goal": goal_of(figure) or None,
            "met": figure.met,
            "peer": peer,
            "scale": report.scale,
        }
        for result, figure, peer in rows(report)
    ]
    return json.dumps(found, indent=2) + "\n"


def as_markdown(report: StoreReport, facts: Facts) -> str:
    """For docs/benchmarks: the facts, and every figure with the spread of its rounds."""
    lines = ["# The log", ""]
    lines += [f"- {name}: {value}" for name, value in facts.lines()]
    lines += [f"- Rounds: {report.rounds}, of searches five times as many; medians"]
    if report.scale != 1:
        lines += [f"- Size: {report.scale:g} of the full one"]
    lines += [f"- Others took up to {report.others:.2f} of a processor", "", LEGEND, ""]
    lines += ["| case | what | figure | unit | value | lowest and highest | goal | | peer | others |"]
    lines += ["|---|---|---|---|---:|---:|---|---|---:|---:|"]
    for result, figure, peer in rows(report):
        cells = (
            result.case.name, result.case.title, figure.name, figure.unit, number(figure.value),
            spread(figure.rounds), goal_of(figure), verdict(figure), "" if peer is None else number(peer),
            f"{result.others:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    for name, reason in report.failures.items():
        lines += ["", f"**{name} failed**: {' '.join(reason.split())}"]
    return "\n".join(lines) + "\n"
