"""`tidelog pipeline`: jobs that run on Spark, and projects of Declarative Pipelines.

Spark is imported when it is needed, so that its absence is told in a sentence. Results go to standard output,
progress to standard error.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tidelog.base.limits import COLD_FILE_SIZE, COLD_GRACE_S
from tidelog.cli.duration import DURATION
from tidelog.cli.export import url_of
from tidelog.cli.jetstream import SIZE, json_option, size_text
from tidelog.cli.output import remark, write_json
from tidelog.cli.target import Target, connection_options, current_target
from tidelog.client.address import DEFAULT_URL

master_option = click.option(
    "--master", default="local[*]", show_default=True, help="Where Spark runs: local[*], or a cluster's URL."
)
option_option = click.option(
    "--option",
    "-o",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another option of the source or sink.",
)
format_option = click.option(
    "--table-format", default="parquet", show_default=True, type=click.Choice(["parquet", "delta"])
)
# How often progress is shown.
TICK_S = 1.0


@click.group()
def pipeline() -> None:
    """Run jobs: archive, replay, report, compact, and pipelines of your own."""


@pipeline.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--stream", required=True, help="The stream to begin with.")
@connection_options
def init(directory: Path, stream: str) -> None:
    """Make a project of Spark's Declarative Pipelines in DIRECTORY, wired to a server."""
    with spark_installed():
        from tidelog.spark.job import project
    for path in project.create(directory, stream=stream, server=current_target().server or DEFAULT_URL):
        click.echo(path)
    remark(f"Run it with: tidelog pipeline run {directory}")


class Jobs(click.Group):
    """A word that is no job is the directory of a project."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and Path(args[0]).is_dir():
            args = ["project", *args]
        return super().resolve_command(ctx, args)


@pipeline.group(cls=Jobs, no_args_is_help=True)
def run() -> None:
    """Run a shipped job, or the project in a directory."""


@run.command()
@click.option("--stream", required=True, help="Name of the stream, or several with commas.")
@click.option("--to", "table", required=True, help="Directory of the table.")
@format_option
@click.option("--follow", is_flag=True, help="Go on when the end is reached, until interrupted.")
@master_option
@option_option
@connection_options
def archive(
    stream: str, table: str, table_format: str, follow: bool, master: str, more: tuple[str, ...]
) -> None:
    """A stream into a partitioned table, each message once across restarts."""
    with spark_session("tidelog archive", master) as spark:
        from tidelog.spark.job.archive import Archive

        options = {**source_options(more), "stream": stream}
        query = Archive(table, options, table_format=table_format, follow=follow).start(spark)
        rows = follow_query(query)
    click.echo(f"{rows:,} messages archived in {table}")


@run.command()
@click.option("--from", "table", help="Directory of the table.")
@click.option("--cold", "url", help="Or where the history is: a folder, or the URL of an object store.")
@click.option("--stream", default="", help="With --cold: the stream whose history it is.")
@click.option("--cold-log", default="", help="Which, if there are several: <account>/<stream>/<log id>.")
@click.option("--start-seq", type=click.IntRange(min=1), help="With --cold: from this sequence on.")
@click.option("--end-seq", type=click.IntRange(min=1), help="With --cold: up to this one, without it.")
@click.option("--prefix", default="", help="What to put before the subjects, such as `again.`.")
@click.option("--subject", default="", help="One subject for all.")
@click.option("--where", default="", help="Which rows: a condition in SQL, such as `seq >= 1000`.")
@click.option(
    "--tasks",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="More than 1: faster, not in order.",
)
@format_option
@master_option
@option_option
@connection_options
def replay(
    table: str | None,
    url: str | None,
    stream: str,
    cold_log: str,
    start_seq: int | None,
    end_seq: int | None,
    prefix: str,
    subject: str,
    where: str,
    tasks: int,
    table_format: str,
    master: str,
    more: tuple[str, ...],
) -> None:
    """A table, or a range of a history, into a stream, in its order."""
    if bool(table) == bool(url) or bool(url) != bool(stream):
        raise click.UsageError("Replay what? Give --from DIR, or --cold URL and --stream NAME.")
    if table and (start_seq or end_seq or cold_log):
        raise click.UsageError(
            "--start-seq, --end-seq and --cold-log are for --cold; with --from there is --where."
        )
    with spark_session("tidelog replay", master) as spark:
        from tidelog.spark.job.replay import Range, Replay

        options = source_options(more) | ({"subject": subject} if subject else {})
        source = table or Range(url or "", stream, start_seq or 0, end_seq or 0, cold_log)
        job = Replay(source, options, table_format=table_format, prefix=prefix, where=where, tasks=tasks)
        with stages_shown(spark):
            rows = job.run(spark)
    click.echo(f"{rows:,} messages replayed from {table or url}")


@run.command()
@click.option(
    "--cold", "url", required=True, help="Where the history is: a folder, or the URL of an object store."
)
@click.option("--stream", default="", help="Of this stream only.")
@click.option("--file-size", type=SIZE, help="Bytes of a file that is made, at most.  [default: 64M]")
@click.option("--grace", type=DURATION, help="How long files stay that are replaced.  [default: 1h]")
@json_option
def compact(url: str, stream: str, file_size: int | None, grace: float | None, as_json: bool) -> None:
    """Small neighbouring files of the cold tier into large ones. No Spark and no server are needed."""
    try:
        from tidelog.cold.bucket import open_bucket
        from tidelog.cold.compaction import Compaction, Done
        from tidelog.cold.history import places
    except ImportError as error:
        raise click.ClickException(
            f"Parquet is not installed ({error}); pip install 'tidelog[cold]'"
        ) from error
    bucket = open_bucket(url_of(url), make=False)
    found = places(bucket, stream)
    if not found:
        raise click.ClickException(f"{url} has no history" + (f" of {stream!r}" if stream else ""))
    told = []
    for place in found:
        done = Done()
        job = Compaction(
            bucket,
            place,
            file_size=COLD_FILE_SIZE if file_size is None else file_size,
            grace_s=COLD_GRACE_S if grace is None else grace,
        )
        for step in job.steps(done):
            remark(f"{place.folder}: {step.merged} files merged into {step.written}")
        told.append({"folder": place.folder, **asdict(done)})
    if as_json:
        write_json(told)
        return
    for each in told:
        what = f"{each['merged']} files merged into {each['written']}, {size_text(each['size'])}"
        click.echo(f"{each['folder']}: {what}; {each['removed']} removed")


@run.command()
@click.option("--stream", required=True, help="Name of the stream, or several with commas.")
@click.option(
    "--to", "directory", required=True, type=click.Path(path_type=Path), help="Directory for the results."
)
@master_option
@option_option
@connection_options
def report(stream: str, directory: Path, master: str, more: tuple[str, ...]) -> None:
    """What a stream has, by subject and by minute: tables and a plot."""
    with spark_session("tidelog report", master) as spark:
        from tidelog.spark.job.report import Report

        with stages_shown(spark):
            summary = Report(directory, {**source_options(more), "stream": stream}).run(spark)
    shown = Table(title=f"{stream}: {summary.messages:,} messages, {summary.size:,} bytes")
    shown.add_column("subject")
    for heading in ("messages", "bytes"):
        shown.add_column(heading, justify="right")
    for name, messages, size in summary.subjects:
        shown.add_row(name, f"{messages:,}", f"{size:,}")
    if summary.subject_count > len(summary.subjects):
        shown.caption = f"and {summary.subject_count - len(summary.subjects):,} more subjects"
    Console().print(shown)
    click.echo(f"tables: {directory}/by_subject and {directory}/by_minute ({summary.minute_count:,} minutes)")
    click.echo(f"plot: {summary.plot}")


@run.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry", is_flag=True, help="Check it, and read nothing.")
@master_option
@connection_options
def project(directory: Path, dry: bool, master: str) -> None:
    """A project of Declarative Pipelines, as `tidelog pipeline init` makes them."""
    with spark_installed():
        from tidelog.spark.job.project import run_command
    target = current_target()
    if target.server:
        os.environ["NATS_URL"] = target.server
    done = subprocess.run(run_command(directory, master=master, dry=dry), check=False)
    if done.returncode:
        raise click.exceptions.Exit(done.returncode)


@pipeline.command()
@click.argument("place", type=click.Path(exists=True, file_okay=False, path_type=Path))
@option_option
@connection_options
def status(place: Path, more: tuple[str, ...]) -> None:
    """How far the queries are whose checkpoints lie below PLACE: a table, a project, a checkpoint."""
    with spark_installed():
        from tidelog.spark.job.status import read_progress
        from tidelog.spark.option import connect_options
    shown = Table()
    for heading in ("checkpoint", "stream", "batch", "at", "next", "end", "lag", ""):
        shown.add_column(heading, justify="right" if heading in ("batch", "next", "end", "lag") else "left")
    found = False
    for each in read_progress(place, connect_options(source_options(more))):
        found = True
        name = str(each.checkpoint.relative_to(place))
        batch = f"{each.batch}" + ("" if each.committed else " (open)")
        cells = (
            f"{each.at:%Y-%m-%d %H:%M:%S}",
            f"{each.seq:,}",
            f"{each.end_seq:,}",
            f"{each.lag:,}",
            each.note,
        )
        shown.add_row("." if name == "." else name, each.stream, batch, *cells)
    if not found:
        raise click.ClickException(f"no checkpoint of a query lies below {place}")
    Console().print(shown)


# -- within ---


@contextlib.contextmanager
def spark_installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise click.ClickException(
            f"Spark is not installed ({error}); pip install 'tidelog[spark]'"
        ) from error


@contextlib.contextmanager
def spark_session(name: str, master: str) -> Iterator[Any]:
    with spark_installed():
        from tidelog.spark.failure import told_plainly
        from tidelog.spark.local import session
    remark("Starting Spark")
    spark = session(name, master=master)
    try:
        with told_plainly():
            yield spark
    finally:
        spark.stop()


def source_options(more: tuple[str, ...]) -> dict[str, str]:
    """How to reach the server, as options of source and sink, and what else was given."""
    options = target_options(current_target())
    for text in more:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--option")
        options[name] = value
    return options


def target_options(target: Target) -> dict[str, str]:
    given = {
        "servers": target.server or DEFAULT_URL,
        "user": target.user,
        "password": target.password,
        "token": target.token,
        "credentials": target.creds,
        "nkey": target.nkey,
        "tls.ca": target.tlsca,
        "tls.cert": target.tlscert,
        "tls.key": target.tlskey,
        "tls.first": "true" if target.tlsfirst else "",
    }
    return {name: value for name, value in given.items() if value}


def follow_query(query: Any) -> int:
    """Show each batch until the query ends; the rows of all of them."""
    rows, shown = 0, -1
    try:
        ended = False
        while not ended:
            ended = query.awaitTermination(TICK_S)
            for progress in query.recentProgress:
                if progress["batchId"] <= shown or not progress["numInputRows"]:
                    continue
                shown = progress["batchId"]
                rows += progress["numInputRows"]
                rate = progress["processedRowsPerSecond"]
                remark(f"batch {shown}: {progress['numInputRows']:,} messages, {rate:,.0f} a second")
    except KeyboardInterrupt:
        query.stop()
        remark("Stopped; the next run goes on from here")
    return rows


@contextlib.contextmanager
def stages_shown(spark: Any) -> Iterator[None]:
    """Tasks done of tasks started, while something runs."""
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        last = ""
        while not ended.wait(TICK_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            text = f"{done} of {sum(stage.numTasks for stage in stages if stage)} tasks done"
            if stages and text != last:
                remark(text)
                last = text

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
