"""`tidelog fsck`: whether a log, or every log of a store, is what it should be; and repair.

The document of `--json` is `{"directory": ..., "severity": ..., "logs": [...]}`. The exit code is the severity: 0
clean, 1 repairable (or repaired), 2 damage with loss, 3 something cannot be read or is no log.
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tidelog.base.clock import SystemClock
from tidelog.base.errors import StorageError
from tidelog.cli import output
from tidelog.disk.real import LOCK_NAME, RealDisk
from tidelog.log.fsck import Finding, LogReport, Severity, check_log, find_logs, repair_log
from tidelog.log.key_ring import KeyRing

WORDS = {
    Severity.NOTE: "clean",
    Severity.REPAIRABLE: "repairable",
    Severity.LOSS: "damaged",
    Severity.UNREADABLE: "unreadable",
}
# Columns where nobody says how many there are: none of ours is cut.
PIPED_WIDTH = 160

keys_option = click.option(
    "--keys", "keys_path", type=click.Path(exists=True, dir_okay=False), help="Keys of encrypted segments."
)


def read_keys(path: str | None) -> KeyRing | None:
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        return KeyRing.parse(file.read(), path)


@click.command()
@click.argument("directory", type=click.Path())
@click.option("--repair", is_flag=True, help="Mend what opening would mend. Stop the server first.")
@click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document.")
@click.option("--quiet", "-q", is_flag=True, help="The last line only.")
@keys_option
def fsck(directory: str, repair: bool, as_json: bool, quiet: bool, keys_path: str | None) -> int:
    """Check the log in DIRECTORY, or all logs below it. Nothing is changed without --repair.

    Exit codes: 0 clean, 1 repairable or repaired, 2 damage with loss, 3 cannot be read or is no log.
    """
    keys = read_keys(keys_path)
    if not os.path.isdir(directory):
        click.echo(f"tidelog: {directory} is no directory", err=True)
        return Severity.UNREADABLE
    root, name = os.path.split(os.path.abspath(directory))
    disk = RealDisk(root, read_only=not repair)
    try:
        places = find_logs(disk, name)
        if not places:
            raise StorageError(f"{directory} holds no log")
        locked = lock_stores([os.path.join(root, place) for place in places]) if repair else []
        reports = [
            repair_log(disk, place, SystemClock(), keys) if repair else check_log(disk, place, keys)
            for place in places
        ]
    except StorageError as error:
        click.echo(f"tidelog: {error}", err=True)
        return Severity.UNREADABLE
    for report in reports:
        report.directory = os.path.join(root, report.directory)
    for store in locked:
        store.unlock()
    worst = max(report.severity for report in reports)
    if as_json:
        logs = [document(report) for report in reports]
        output.write_json({"directory": directory, "severity": worst.name.lower(), "logs": logs})
        return worst
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    for report in () if quiet else reports:
        show(console, report)
    click.echo(summary(reports, worst))
    return worst


def lock_stores(places: list[str]) -> list[RealDisk]:
    """The stores that these directories are in: nobody may open them while they are repaired, or have them open."""
    above = {place: None for directory in places for place in (directory, *map(str, Path(directory).parents))}
    stores = [RealDisk(place) for place in above if os.path.isfile(os.path.join(place, LOCK_NAME))]
    for store in stores:
        store.lock()
    return stores


def document(report: LogReport) -> dict[str, Any]:
    shown = asdict(report)
    shown["severity"] = report.severity.name.lower()
    for finding in shown["findings"]:
        finding["severity"] = finding["severity"].name.lower()
    return shown


def show(console: Console, report: LogReport) -> None:
    table = Table(title=report.directory, title_justify="left")
    table.add_column("segment", no_wrap=True)
    for heading in ("messages", "last", "bytes", "damaged", "torn"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("packed", no_wrap=True)
    table.add_column("index")
    for one in report.segments:
        damaged = sum(size for _, size, _ in one.damaged)
        figures = (one.messages, one.last_seq, one.size, damaged, one.torn_size)
        cells = [f"{figure:,}" if one.checked else "?" for figure in figures]
        table.add_row(one.name, *cells, one.packed, one.index)
    console.print(table)
    lines = [f"snapshot: {report.snapshot}"]
    if report.messages is not None:
        span = f"from {report.first_seq} to {report.last_seq}, {report.deleted:,} deleted between"
        lines.insert(0, f"{report.messages:,} messages {span}")
    if report.ceiling is not None:
        lines.append(f"ceiling: {report.ceiling}")
    if report.cursors is not None:
        lines.append(f"cursors: {report.cursors}")
    if report.in_use:
        lines.append("in use: its files changed while they were read")
    for line in (*lines, *map(told, report.findings)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def told(finding: Finding) -> str:
    word = "note" if finding.severity is Severity.NOTE else WORDS[finding.severity]
    where = f"{finding.name}: " if finding.name else ""
    return f"{'repaired' if finding.repaired else word}: {where}{finding.text}"


def summary(reports: list[LogReport], worst: Severity) -> str:
    segments = sum(len(report.segments) for report in reports)
    messages = sum(report.messages or 0 for report in reports)
    lost = sum(end_seq - start_seq for report in reports for start_seq, end_seq in report.lost)
    findings = [finding for report in reports for finding in report.findings]
    repaired = sum(finding.repaired for finding in findings)
    waiting = sum(finding.severity is Severity.REPAIRABLE and not finding.repaired for finding in findings)
    parts = [
        f"{len(reports)} log{'s'[: len(reports) != 1]}",
        f"{segments:,} segments",
        f"{messages:,} messages",
    ]
    if lost:
        parts.append(f"{lost:,} lost")
    if repaired:
        parts.append(f"{repaired} repaired")
    if waiting:
        parts.append(f"{waiting} to repair (--repair)")
    word = "repaired" if worst is Severity.REPAIRABLE and not waiting else WORDS[worst]
    return f"{word}: {', '.join(parts)}"
