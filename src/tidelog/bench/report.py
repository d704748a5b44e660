"""What a comparison is shown as: a table for people, JSON for programs, Markdown for the repository."""

import datetime
import json
import os
import platform
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

import tidelog
from tidelog.bench.compare import CaseResult, Comparison, Row
from tidelog.bench.link import Target, read_until

GIT_TIMEOUT_S = 5.0
LEGEND = (
    "Rates: ours/peer, more is better. Latencies (us): ours/peer, less is better. "
    "Rates count deliveries, in publish-only cases messages sent; of streams messages stored or read."
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Where and with what the figures were taken."""

    date: str
    machine: str
    kernel: str
    python: str
    commit: str
    ours: str
    peer: str

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("Date", self.date),
            ("Machine", self.machine),
            ("Kernel", self.kernel),
            ("Python", self.python),
            ("Commit", self.commit),
            ("Ours", self.ours),
            ("Peer", self.peer),
        ]


def gather_facts(*, ours: str, peer: str) -> Facts:
    """`ours` and `peer` name the servers, as `server_version` gives them."""
    return Facts(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{cpu_model()}, {os.cpu_count()} cores",
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        commit=commit(),
        ours=ours,
        peer=peer,
    )


def cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The checked-out commit that this package runs from, if it does run from a checkout."""
    folder = Path(tidelog.__file__).parent
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return f"tidelog {tidelog.__version__}, no checkout"
    return answer.stdout.strip()


def server_version(target: Target) -> str:
    """Version as the server's INFO has it."""
    with socket.create_connection((target.host, target.port), timeout=GIT_TIMEOUT_S) as sock:
        info = json.loads(read_until(sock, b"\r\n").partition(b" ")[2])
    return str(info["version"])


def busiest(comparison: Comparison) -> float:
    """The largest share of a processor that others took during a case."""
    costs = [cost for result in comparison.results for cost in (result.ours_cost, result.peer_cost)]
    return max((cost.others for cost in costs), default=0.0)


def number(value: float) -> str:
    """Three digits that matter, with thousands marked."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def verdict(row: Row) -> str:
    return "" if row.met is None else "met" if row.met else "missed"


def spread(values: Sequence[float]) -> str:
    return f"{number(min(values))} .. {number(max(values))}"


def table(comparison: Comparison) -> Table:
    """For the terminal."""
    shown = Table(title="tidelog against nats-server", caption=LEGEND)
    for heading in ("case", "unit"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("ours", "peer", "ratio", "goal"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row in comparison.rows:
        style = "" if row.met is None else "green" if row.met else "red"
        goal = "" if row.goal is None else str(row.goal)
        cells = (row.case, row.unit, number(row.ours), number(row.peer), f"{row.ratio:.2f}", goal)
        shown.add_row(*cells, verdict(row), style=style)
    return shown


def as_json(comparison: Comparison) -> str:
    """A list with one object per row."""
    rows = [
        {
            "case": row.case,
            "unit": row.unit,
            "ours": round(row.ours, 3),
            "peer": round(row.peer, 3),
            "ratio": round(row.ratio, 4),
            "rounds": comparison.rounds,
        }
        for row in comparison.rows
    ]
    return json.dumps(rows, indent=2) + "\n"


def as_markdown(comparison: Comparison, facts: Facts) -> str:
    """For docs/benchmarks: the facts, the table with the spread of the rounds, and who used the CPU."""
    lines = ["# Tidelog against nats-server", ""]
    lines += [f"- {name}: {value}" for name, value in facts.lines()]
    lines += [f"- Rounds: {comparison.rounds} of each, interleaved; medians"]
    lines += [f"- Others took up to {busiest(comparison):.2f} of a processor", "", LEGEND, ""]
    lines += ["| case | what | unit | ours | peer | ratio | goal | |", "|---|---|---|---:|---:|---:|---|---|"]
    for row in comparison.rows:
        goal = "" if row.goal is None else str(row.goal)
        lines.append(
            f"| {row.case} | {row.title} | {row.unit} | {number(row.ours)} | {number(row.peer)} "
            f"| {row.ratio:.2f} | {goal} | {verdict(row)} |"
        )
    lines += ["", "Lowest and highest round:", "", "| case | unit | ours | peer |", "|---|---|---:|---:|"]
    for row in comparison.rows:
        lines.append(f"| {row.case} | {row.unit} | {spread(row.ours_rounds)} | {spread(row.peer_rounds)} |")
    lines += ["", "CPU seconds per second of server, load generator and everything else on the machine,"]
    lines += ["and messages per CPU second of the server:", ""]
    headings = (
        "ours | generator | others | peer | generator | others | ours, msg/CPU s | peer, msg/CPU s | ratio"
    )
    lines += [f"| case | {headings} |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    lines += [cost_line(result) for result in comparison.results]
    for name, reason in comparison.failures.items():
        lines += ["", f"**{name} failed**: {' '.join(reason.split())}"]
    return "\n".join(lines) + "\n"


def cost_line(result: CaseResult) -> str:
    ours, peer = result.ours_cost, result.peer_cost
    values = (ours.server, ours.generator, ours.others, peer.server, peer.generator, peer.others)
    used = " | ".join(f"{value:.2f}" for value in values)
    work = f"{number(ours.rate_per_cpu)} | {number(peer.rate_per_cpu)}"
    return f"| {result.case.name} | {used} | {work} | {ours.rate_per_cpu / peer.rate_per_cpu:.2f} |"
