"""The part of `tidelog demo` with Spark: events of a shop and a plant into totals by minute, in a stream and a table.

The events come from nats-py, as a program publishes them; it adds them up on the way, and what Spark makes of the
stream must be exactly that, in the table and in the stream of totals, which is read from its newest message back.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from tidelog.base.errors import TidelogError
from tidelog.cli.demo_figure import Figure, expect
from tidelog.cli.demo_stream import backwards
from tidelog.testing.peer import ServerProcess, tidelog_argv

EVENTS = 300_000
# Of the stream of events in one micro-batch.
BATCH = 75_000
# What the events say of their time: one hour, up to some moment that is always the same.
MINUTES = 60
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
STORED_S = 60.0
LOOK_S = 0.05
# Rows of the table that is shown.
SHOWN = 6

COUNTRIES = ("at", "ch", "de", "fr", "nl")
ITEMS = {"lamp": 1990, "chair": 7900, "desk": 24900, "shelf": 5950}
SENSORS = ("press.celsius", "press.bar", "oven.celsius", "belt.rpm")
# Which share of the events are orders.
ORDERS = 0.4


class Total(NamedTuple):
    events: int
    sum: int
    most: int

    def plus(self, value: int) -> Total:
        return Total(self.events + 1, self.sum + value, max(self.most, value))


Totals = dict[tuple[str, datetime], Total]


def java_or_exit() -> None:
    """Before anything runs: whether this machine can run Spark."""
    if importlib.util.find_spec("pyspark") is None:
        raise click.ClickException(
            "the demo runs a pipeline on Spark: pip install 'tidelog[spark,report]', or leave it out with --no-spark"
        )
    from tidelog.spark.java import JavaMissing, find_java

    try:
        find_java()
    except JavaMissing as error:
        raise click.ClickException(f"{error}. Or leave Spark out: tidelog demo --no-spark") from None


def pipeline_figures(console: Console, nats: Any, directory: Path) -> list[Figure]:
    """`directory` keeps the table, the report and its plot."""
    console.rule("A pipeline on Spark")
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as work:
        flags = ["-js", "-sd", f"{work}/store"]
        with ServerProcess(tidelog_argv(), flags=flags) as server, spark_session(console) as spark:
            published, expected = asyncio.run(publish(server.url, nats))
            console.print(f"{EVENTS:,} orders and readings are in the stream EVENTS.")
            ran = run(console, spark, server.url, directory, Path(work) / "checkpoint")
            check_table(directory / "minutes", expected)
            back = asyncio.run(read_back(console, server.url, nats, expected))
    for what, path in (("Table", "minutes"), ("Report", "report"), ("Plot", "report/report.png")):
        console.print(f"{what + ':':7} {directory / path}", soft_wrap=True)
    return [published, *ran, *back]


@contextlib.contextmanager
def spark_session(console: Console) -> Iterator[Any]:
    from tidelog.spark.failure import told_plainly
    from tidelog.spark.local import session

    console.print("Starting Spark.")
    try:
        spark = session("tidelog demo", log="OFF", config={"spark.sql.shuffle.partitions": "2"})
        try:
            with told_plainly():
                yield spark
        finally:
            spark.stop()
    except TidelogError as error:
        raise click.ClickException(str(error)) from error


async def publish(url: str, nats: Any) -> tuple[Figure, Totals]:
    """The events, as fast as the client does it; all of them are stored in the end."""
    expected: Totals = {}
    client = await nats.connect(url)
    try:
        js = client.jetstream()
        await js.add_stream(name="EVENTS", subjects=["shop.>", "plant.>"], storage="file", allow_direct=True)
        await js.add_stream(name="TOTALS", subjects=["totals.>"], storage="file", allow_direct=True)
        start_s = time.perf_counter()
        for subject, at_ms, value, payload in events():
            await client.publish(subject, payload)
            minute = datetime.fromtimestamp(at_ms // 60_000 * 60, UTC)
            expected[subject, minute] = expected.get((subject, minute), Total(0, 0, 0)).plus(value)
        await client.flush()
        deadline_s = time.monotonic() + STORED_S
        while (await js.stream_info("EVENTS")).state.messages < EVENTS:
            expect(time.monotonic() < deadline_s, "every event in the stream")
            await asyncio.sleep(LOOK_S)
        rate = EVENTS / (time.perf_counter() - start_s)
    finally:
        await client.close()
    return Figure("events stored per second (by a Python client)", f"{rate:,.0f}"), expected


def events() -> Iterator[tuple[str, int, int, bytes]]:
    """Subject, time, value and payload of each, in the order of their times; the same ones every time."""
    chance = random.Random(1042)
    start_ms = int(START.timestamp() * 1000)
    for number in range(EVENTS):
        at_ms = start_ms + number * MINUTES * 60_000 // EVENTS
        if chance.random() < ORDERS:
            item = chance.choice(tuple(ITEMS))
            count = chance.randint(1, 3)
            value = ITEMS[item] * count
            subject = f"shop.orders.{chance.choice(COUNTRIES)}"
            what = f'"order":{number},"item":"{item}","quantity":{count}'
        else:
            sensor = chance.choice(SENSORS)
            value = chance.randint(200, 900)
            subject = f"plant.{sensor}"
            what = f'"reading":{number}'
        yield subject, at_ms, value, f'{{{what},"at":{at_ms},"value":{value}}}'.encode()


def run(console: Console, spark: Any, url: str, directory: Path, checkpoint: Path) -> list[Figure]:
    """The pipeline: totals into a stream, micro-batch by micro-batch, then a table in one go, then a report."""
    from tidelog.spark.job.minute import follow, tabulate
    from tidelog.spark.job.report import Report

    options = {"servers": url}
    console.print("Spark reads it in micro-batches, and writes totals per minute into the stream TOTALS.")
    followed = follow(
        spark, options, source="EVENTS", target="TOTALS", checkpoint=checkpoint, batch_rows=BATCH
    )
    console.print("Spark reads it in one go, and writes the totals as a table; then a report.")
    tabulated = tabulate(spark, options, source="EVENTS", table=directory / "minutes")
    summary = Report(directory / "report", {**options, "stream": "EVENTS"}).run(spark)
    expect(
        (followed.rows, tabulated.rows, summary.messages) == (EVENTS,) * 3,
        "every event once, in each of them",
    )
    expect(summary.plot.stat().st_size > 0, "a plot")
    return [
        Figure("events per second into a stream of totals", f"{followed.rate:,.0f}"),
        Figure("events per second into a table of totals", f"{tabulated.rate:,.0f}"),
    ]


def check_table(table: Path, expected: Totals) -> None:
    from tidelog.spark.job.minute import read_table

    found = {(subject, minute): Total(*figures) for subject, minute, *figures in read_table(table)}
    expect(found == expected, "the totals that the client has, in the table")


async def read_back(console: Console, url: str, nats: Any, expected: Totals) -> list[Figure]:
    """TOTALS from its end back; what the shop took in the last minutes is shown."""
    client = await nats.connect(url)
    found: list[tuple[tuple[str, datetime], Total]] = []
    first_s = 0.0
    start_s = time.perf_counter()
    try:
        async for _, data in backwards(client, "TOTALS", "totals.>"):
            first_s = first_s or time.perf_counter() - start_s
            total = json.loads(data)
            key = total["subject"], datetime.fromisoformat(total["minute"])
            found.append((key, Total(total["events"], total["sum"], total["most"])))
    finally:
        await client.close()
    # The last minute goes on: more of it may come.
    last = max(minute for _, minute in expected)
    over = {key: total for key, total in expected.items() if key[1] < last}
    expect((len(found), dict(found)) == (len(over), over), "each total that the client has, once, in TOTALS")
    console.print(revenue_table(dict(found)))
    return [
        Figure("totals in the table and in the stream, each checked", f"{len(expected)}, {len(found)}"),
        Figure("the newest total, reading backwards, after", f"{first_s * 1000:,.1f} ms"),
    ]


def revenue_table(totals: Totals) -> Table:
    """The newest minutes, by country."""
    table = Table(title="Revenue by minute, the newest of TOTALS")
    table.add_column("minute")
    for country in COUNTRIES:
        table.add_column(country, justify="right")
    minutes = sorted({minute for _, minute in totals}, reverse=True)
    for minute in minutes[:SHOWN]:
        sums = [totals.get((f"shop.orders.{country}", minute), Total(0, 0, 0)).sum for country in COUNTRIES]
        table.add_row(f"{minute:%H:%M}", *(f"{sum / 100:,.2f}" for sum in sums))
    return table
