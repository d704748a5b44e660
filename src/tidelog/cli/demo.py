"""`tidelog demo`: a server, a stock client's messages through it and into a stream, a pipeline on Spark, and figures.

What is shown has been checked. The client is nats-py, as its users run it, so the figures are what a Python program
sees; `tidelog bench compare` measures the server.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tidelog.cli.demo_figure import Figure, expect
from tidelog.cli.demo_pipeline import java_or_exit, pipeline_figures
from tidelog.cli.demo_stream import stream_figures
from tidelog.testing.peer import ServerProcess, tidelog_argv

EVENTS = 100_000
REQUESTS = 2_000
EVENT = b'{"order":"A-1042","item":"lamp","quantity":2,"price":19.9}'


@click.command()
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the pipeline's table, report and plot go; otherwise a directory of its own.",
)
@click.option(
    "--spark/--no-spark", default=True, show_default=True, help="With the pipeline, which needs Java."
)
def demo(directory: Path | None, spark: bool) -> None:
    """Start a server, send messages through it from a stock client, and show figures.

    A stream is written, read in both directions and worked on; the server is killed, and nothing is lost. A pipeline
    on Spark reads a stream of events and writes totals, as another stream and as a table.
    """
    try:
        import nats
    except ImportError:
        raise click.ClickException("the demo uses a stock client: pip install nats-py") from None
    if spark:
        java_or_exit()
    console = Console()
    parts = [message_figures(console, nats), stream_figures(console, nats)]
    if spark:
        made = directory or Path(tempfile.mkdtemp(prefix="tidelog-demo-"))
        parts.append(pipeline_figures(console, nats, made.absolute()))
    table = Table(title="What a nats-py program saw, and Spark")
    table.add_column("what")
    table.add_column("value", justify="right")
    for part in parts:
        table.add_section()
        for figure in part:
            table.add_row(figure.what, figure.value)
    console.print(table)


def message_figures(console: Console, nats: Any) -> list[Figure]:
    console.rule("Messages")
    with ServerProcess(tidelog_argv()) as server:
        console.print(
            f"Tidelog listens on [bold]{server.url}[/], monitoring on http://127.0.0.1:{server.monitor_port}"
        )
        return asyncio.run(play(server.url, nats))


async def play(url: str, nats: Any) -> list[Figure]:
    client = await nats.connect(url)
    try:
        return [
            *await publish_and_subscribe(client),
            await share_work(client),
            *await ask(client),
        ]
    finally:
        await client.close()


async def publish_and_subscribe(client: Any) -> list[Figure]:
    """Events on many subjects, read back through a wildcard, all of them and in order."""
    received: list[bytes] = []
    complete = asyncio.get_running_loop().create_future()

    async def take(message: Any) -> None:
        received.append(message.data)
        if len(received) == EVENTS:
            complete.set_result(time.perf_counter())

    subscription = await client.subscribe(
        "orders.*.created", cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1
    )
    await client.flush()
    start_s = time.perf_counter()
    for number in range(EVENTS):
        await client.publish(f"orders.{number % 100}.created", b"%d %s" % (number, EVENT))
    end_s = await asyncio.wait_for(complete, 60)
    await subscription.unsubscribe()
    expect([int(data.split()[0]) for data in received] == list(range(EVENTS)), "every event, in order")
    return [
        Figure("events published and received, in order", f"{EVENTS:,}"),
        Figure("events per second (limited by the Python client)", f"{EVENTS / (end_s - start_s):,.0f}"),
    ]


async def share_work(client: Any) -> Figure:
    """A queue group of three: every job is done once."""
    done: dict[str, list[int]] = {name: [] for name in ("ann", "bob", "cid")}

    def worker(name: str) -> Any:
        async def work(message: Any) -> None:
            done[name].append(int(message.data))

        return work

    workers = [await client.subscribe("jobs", queue="workers", cb=worker(name)) for name in done]
    await client.flush()
    for number in range(REQUESTS):
        await client.publish("jobs", b"%d" % number)
    await client.flush()
    for subscription in workers:
        await subscription.drain()
    jobs_done = sorted(job for jobs in done.values() for job in jobs)
    expect(jobs_done == list(range(REQUESTS)), "every job once")
    shares = " + ".join(f"{len(jobs):,}" for jobs in done.values())
    return Figure(f"{REQUESTS:,} jobs shared by three workers", shares)


async def ask(client: Any) -> list[Figure]:
    """Requests, one after the other; and one that nobody answers."""
    from nats.errors import NoRespondersError

    async def answer(message: Any) -> None:
        await message.respond(message.data[::-1])

    service = await client.subscribe("reverse", cb=answer)
    times_us = []
    for number in range(REQUESTS):
        start_s = time.perf_counter()
        reply = await client.request("reverse", b"%d" % number, timeout=5)
        times_us.append((time.perf_counter() - start_s) * 1e6)
        expect(reply.data == (b"%d" % number)[::-1], "the right reply")
    await service.unsubscribe()
    try:
        await client.request("nobody.home", b"", timeout=5)
    except NoRespondersError:
        refused = "told at once"
    else:
        raise click.ClickException("a request that nobody answers was answered")
    return [
        Figure("request and reply, median", f"{statistics.median(times_us):,.0f} us"),
        Figure("a request that nobody answers", refused),
    ]
