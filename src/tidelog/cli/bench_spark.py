"""`tidelog bench spark`: how fast Spark reads and writes a stream, on a server of its own, and what the limit is."""

import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tidelog.cli.pipeline import spark_installed
from tidelog.client import Connection, connect
from tidelog.client.jetstream import JetStream
from tidelog.testing.peer import ServerProcess

STREAM = "BENCH"
SUBJECTS = 100
# Between looks at how much has been stored.
FLUSH_EVERY = 100_000


@click.command(name="spark")
@click.option(
    "--case",
    default="stream",
    show_default=True,
    type=click.Choice(["stream", "cold"]),
    help="Messages of a stream, or its history in Parquet.",
)
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(min=1000))
@click.option(
    "--size", default=128, show_default=True, type=click.IntRange(min=0), help="Bytes of a payload."
)
@click.option(
    "--tasks", default=2, show_default=True, type=click.IntRange(min=1), help="And cores: local[TASKS]."
)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--server-program",
    type=click.Path(exists=True, dir_okay=False),
    help="Another server than ours, with nats-server's flags.",
)
@click.option(
    "--read-from",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "direct"]),
    help="The source's option of that name.",
)
def spark_command(
    case: str, rows: int, size: int, tasks: int, rounds: int, server_program: str | None, read_from: str
) -> None:
    """Measure Spark's reading of a stream and writing to one, all rows checked.

    Spark beside a source that costs nothing, and the same read without Spark, show what the limit is.
    """
    if case == "cold":
        if server_program or read_from != "auto":
            raise click.UsageError("--case cold has a server of ours, and reads history.")
        bench_cold(rows, size, tasks, rounds)
        return
    with spark_installed():
        from tidelog.spark.local import session
        from tidelog.spark.measure import measure
    argv = [server_program] if server_program else [sys.executable, "-m", "tidelog", "serve"]
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        ServerProcess(argv, flags=["-js", "-sd", f"{directory}/store"], monitor=False) as server,
        console.status("filling the stream") as status,
    ):
        with connect(server.url) as connection:
            version = connection.info["version"]
            fill(connection, rows, lambda: b"x" * size)
        # Queries that are stopped in the middle of a batch are no news.
        spark = session("tidelog bench", master=f"local[{tasks}]", log="OFF")
        try:
            figures = measure(
                spark,
                {"servers": server.url, "stream": STREAM, "readFrom": read_from},
                server.pid,
                size=size,
                tasks=tasks,
                rounds=rounds,
                directory=Path(directory),
                tell=status.update,
            )
        finally:
            spark.stop()
    name = Path(argv[0]).name if server_program else "tidelog"
    table = Table(title=f"{rows:,} messages of {size} B, local[{tasks}], {name} {version}, best of {rounds}")
    table.add_column("what")
    table.add_column("rows/s", justify="right")
    table.add_row("Spark, from the stream", f"{figures.spark:,.0f}")
    table.add_row("one task without Spark", f"{figures.door:,.0f}")
    table.add_row("Spark, from a source that makes rows up", f"{figures.channel:,.0f}")
    table.add_row("Spark, into a stream", f"{figures.sink:,.0f}")
    table.add_row("Spark, into a Python sink that throws rows away", f"{figures.away:,.0f}")
    console.print(table)
    console.print(f"limit: {figures.limit}")
    tell_processors("read", tasks, figures.server_cpu_s, figures.spark_cpu_s, console)
    tell_processors("written", tasks, figures.sink_server_cpu_s, figures.sink_spark_cpu_s, console)
    ours, rate = figures.trigger_s * 1000, figures.rate_trigger_s * 1000
    console.print(f"a micro-batch of one row: {ours:,.0f} ms; of Spark's rate source: {rate:,.0f} ms")


def bench_cold(rows: int, size: int, tasks: int, rounds: int) -> None:
    """A stream is filled, exported whole, and read."""
    from tidelog.cli.export import export_all

    with spark_installed():
        from tidelog.spark.local import session
        from tidelog.spark.measure_cold import measure_cold
    argv = [sys.executable, "-m", "tidelog", "serve"]
    console, checksum = Console(), 0
    chance = random.Random(1)

    def payload() -> bytes:
        """Text that packs to about half, as text does."""
        nonlocal checksum
        made = chance.randbytes(-(-size // 2)).hex().encode()[:size]
        checksum += zlib.crc32(made)
        return made

    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        ServerProcess(argv, flags=["-js", "-sd", f"{directory}/store"], monitor=False) as server,
        console.status("filling the stream") as status,
    ):
        url = f"file://{directory}/cold"
        with connect(server.url) as connection:
            version = connection.info["version"]
            fill(connection, rows, payload)
            status.update("export")
            start = time.perf_counter()
            export_all(JetStream(connection), STREAM, url)
            export_s = time.perf_counter() - start
        spark = session("tidelog bench", master=f"local[{tasks}]", log="OFF")
        try:
            figures = measure_cold(
                spark,
                {"servers": server.url, "stream": STREAM, "coldUrl": url},
                server.pid,
                checksum=checksum,
                size=size,
                tasks=tasks,
                rounds=rounds,
                tell=status.update,
            )
        finally:
            spark.stop()
    table = Table(
        title=f"{rows:,} messages of {size} B as history, local[{tasks}], tidelog {version}, best of {rounds}"
    )
    table.add_column("what")
    table.add_column("rows/s", justify="right")
    for what, rate in (
        ("Spark, from history", figures.spark),
        ("the same, without a server", figures.alone),
        ("one task without Spark", figures.scan),
        ("Spark, from a source that makes rows up", figures.channel),
        ("Spark's own Parquet reader, the same files", figures.parquet),
        ("export, from the stream into the files", rows / export_s),
    ):
        table.add_row(what, f"{rate:,.0f}")
    console.print(table)
    console.print(f"limit: {figures.limit}; {figures.size / rows:.0f} bytes a row in the files")
    tell_processors("read", tasks, figures.server_cpu_s, figures.spark_cpu_s, console)


def tell_processors(what: str, tasks: int, server_cpu_s: float, spark_cpu_s: float, console: Console) -> None:
    server_us, spark_us = server_cpu_s * 1e6, spark_cpu_s * 1e6
    console.print(
        f"processor time of a row {what}: server {server_us:.2f} us, Spark {spark_us:.2f} us; "
        f"{tasks} processors of their own allow {tasks * 1e6 / max(server_us + spark_us, 0.01):,.0f} rows/s"
    )


def fill(connection: Connection, rows: int, payload: Callable[[], bytes]) -> None:
    """Stored, not only sent: the stream has them all afterwards."""
    js = JetStream(connection)
    config = {
        "name": STREAM,
        "subjects": ["bench.>"],
        "storage": "file",
        "allow_direct": True,
        "num_replicas": 1,
    }
    js.create_stream(config)
    for number in range(rows):
        connection.publish(f"bench.{number % SUBJECTS}", payload())
        if (number + 1) % FLUSH_EVERY == 0:
            wait_until_stored(js, number + 1)
    wait_until_stored(js, rows)


def wait_until_stored(js: JetStream, count: int) -> None:
    js.connection.flush(60)
    while js.stream_info(STREAM).state.messages < count:
        js.connection.flush(60)
