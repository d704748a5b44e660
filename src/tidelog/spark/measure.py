"""How fast Spark reads and writes a stream, and what the limit is: the body of `tidelog bench spark`.

Each figure is the best of some rounds, warm, and each round checks the number of rows and the sum of their sequences.

    door      one task's work without Spark: messages out of the server, as Arrow
    spark     the same rows through Spark, into nothing
    channel   as many rows of the same shape from a Python source that makes them up: what Spark takes at most
    sink      as many rows that Spark makes up, into another stream, each acknowledged
    away      the same rows into a Python sink that counts them
    trigger   how long a micro-batch of one row takes, beside one of Spark's own rate source

    cpu       processor time for each row: of the server, and of everything that is Spark

Processor time is what a busy machine does not change much, so the rate that it allows is shown, too.

The limit is named by comparison: where Spark takes no more from a source that costs nothing, it is Spark's own
channel from the Python workers; where the door alone is no faster, it is the server and the wire; else the
processors, shared by all.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog.base.errors import TidelogError
from tidelog.client.jetstream.desk import JetStream
from tidelog.spark.link import Link
from tidelog.spark.option import read_options
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns, RowFormat
from tidelog.spark.state import ask_state
from tidelog.spark.task import read_piece

BATCH = 32_768
# Below this share of another figure, that one is not what limits.
NEAR = 0.8
TRIGGERS = 6
# The stream that is written to.
SINK = "WRITTEN"


@dataclass(frozen=True, slots=True)
class Figures:
    """Rates are rows a second, times seconds."""

    rows: int
    door: float
    spark: float
    channel: float
    sink: float
    away: float
    trigger_s: float
    rate_trigger_s: float
    # Processor time of a row that is read, and of one that is written.
    server_cpu_s: float
    spark_cpu_s: float
    sink_server_cpu_s: float
    sink_spark_cpu_s: float

    @property
    def limit(self) -> str:
        if self.spark >= NEAR * self.channel:
            return "Spark's channel from the Python workers to the JVM"
        if self.spark >= NEAR * self.door:
            return "the server and the wire, as one task reads them"
        return "the processors: server, Python workers and JVM share them"


class MadeUp(DataSource):
    """Rows like ours that come from nowhere, or go there."""

    @classmethod
    def name(cls) -> str:
        return "tidelog_made_up"

    def schema(self) -> StructType:
        return RowFormat().spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return MadeUpReader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return ThrowAway()


class MadeUpReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._rows, self._size, self._tasks = (int(options[name]) for name in ("rows", "size", "tasks"))

    def partitions(self) -> list[InputPartition]:
        share = self._rows // self._tasks
        return [InputPartition((at * share + 1, (at + 1) * share + 1)) for at in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        form, (start, end) = RowFormat(), partition.value
        values, subjects = pa.array([b"x" * self._size] * BATCH), pa.array(["orders.new"] * BATCH)
        times = pa.array([0] * BATCH, pa.timestamp("us", tz="UTC"))
        for at in range(start, end, BATCH):
            count = min(BATCH, end - at)
            seqs = pa.array(range(at, at + count), pa.int64())
            yield form.batch(
                MessageColumns("S", count, seqs, times[:count], subjects[:count], values[:count])
            )


@dataclass(frozen=True)
class Thrown(WriterCommitMessage):
    rows: int


class ThrowAway(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return Thrown(sum(batch.num_rows for batch in iterator))


def measure(
    spark: Any,
    options: Mapping[str, str],
    server_pid: int,
    *,
    size: int,
    tasks: int,
    rounds: int,
    directory: Path,
    tell: Callable[[str], None],
) -> Figures:
    """`directory` is for checkpoints. Raises TidelogError when rows are missing."""
    read = read_options(options, streaming=False)
    link = Link(read.connect, read.connect.plan_patience_s)
    state = ask_state(link, read.streams[0])
    link.close()
    rows = state.messages
    spark.dataSource.register(MadeUp)

    def door() -> tuple[int, int]:
        found = [
            (batch.num_rows, pa.compute.sum(batch.column("seq")).as_py())
            for batch in read_piece(read, Piece(state.name, state.created, state.first_seq, state.end_seq))
        ]
        return sum(count for count, _ in found), sum(total for _, total in found)

    def through(name: str, more: Mapping[str, str]) -> Callable[[], tuple[int, int]]:
        def run() -> tuple[int, int]:
            frame = spark.read.format(name).options(**more).load()
            found = frame.selectExpr("count(*) AS n", "sum(seq) AS s", "sum(length(value)) AS v").first()
            return found.n, found.s

        return run

    made_up = {"rows": str(rows), "size": str(size), "tasks": str(tasks)}
    expected = (rows, (state.first_seq + state.end_seq - 1) * rows // 2)
    rates, spent = {}, {}
    works: tuple[tuple[str, Callable[[], tuple[int, int]], tuple[int, int] | None], ...] = (
        ("door", door, expected),
        ("spark", through("tidelog", {**options, "minPartitions": str(tasks)}), expected),
        ("channel", through("tidelog_made_up", made_up), None),
        ("sink", _writing(spark, options, "sink", rows, size, tasks), (rows, 0)),
        ("away", _writing(spark, options, "away", rows, size, tasks), (rows, 0)),
    )
    for name, act, wanted in works:
        tell(name)
        seconds, spent[name] = best(act, rounds, wanted, server_pid)
        rates[name] = rows / seconds
    tell("trigger")
    ours = spark.readStream.format("tidelog").options(**{**options, "startingOffsets": "earliest"})
    trigger_s = median_trigger(ours.option("maxOffsetsPerTrigger", 1).load(), directory / "ours")
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    rate_s = median_trigger(rate, directory / "rate")
    return Figures(
        rows=rows,
        door=rates["door"],
        spark=rates["spark"],
        channel=rates["channel"],
        sink=rates["sink"],
        away=rates["away"],
        trigger_s=trigger_s,
        rate_trigger_s=rate_s,
        server_cpu_s=spent["spark"][0] / rows,
        spark_cpu_s=spent["spark"][1] / rows,
        sink_server_cpu_s=spent["sink"][0] / rows,
        sink_spark_cpu_s=spent["sink"][1] / rows,
    )


def _writing(
    spark: Any, options: Mapping[str, str], name: str, rows: int, size: int, tasks: int
) -> Callable[[], tuple[int, int]]:
    """Rows made by Spark into a stream that is new each time, all of them there afterwards; or thrown away."""
    value = f"cast(repeat('x', {size}) AS binary) AS value"
    frame = spark.range(0, rows, 1, tasks).selectExpr(f"concat('{SINK}.', id % 100) AS subject", value)
    connect = read_options(options, streaming=False).connect

    def write(kind: str, more: Mapping[str, str]) -> None:
        frame.write.format(kind).mode("append").options(**more).save()

    def throw_away() -> tuple[int, int]:
        write(MadeUp.name(), {})
        return rows, 0

    def store() -> tuple[int, int]:
        link = Link(connect, connect.plan_patience_s)
        try:
            js = JetStream(link.connection())
            js.create_stream({"name": SINK, "subjects": [f"{SINK}.*"], "storage": "file", "num_replicas": 1})
            write("tidelog", {"servers": options["servers"], "stream": SINK})
            link.close()
            stored = JetStream(link.connection()).stream_info(SINK).state.messages
            JetStream(link.connection()).delete_stream(SINK)
        finally:
            link.close()
        return stored, 0

    return store if name == "sink" else throw_away


def best(
    act: Callable[[], tuple[int, int]], rounds: int, expected: tuple[int, int] | None, server_pid: int
) -> tuple[float, tuple[float, float]]:
    """Seconds of the fastest round, and processor time of one, of the server and of Spark; one before warms up."""
    times = []
    before = (0.0, 0.0)
    for number in range(rounds + 1):
        if number == 1:
            before = processor_time(server_pid)
        start = time.perf_counter()
        found = act()
        times.append(time.perf_counter() - start)
        if expected is not None and found != expected:
            raise TidelogError(
                f"read {found[0]:,} rows with sum {found[1]:,}, and not {expected[0]:,} with {expected[1]:,}"
            )
    server_s, spark_s = (
        (last - first) / rounds for first, last in zip(before, processor_time(server_pid), strict=True)
    )
    return min(times[1:]), (server_s, spark_s)


def median_trigger(frame: Any, directory: Path) -> float:
    """Seconds of one micro-batch, of those after the first two."""
    query = frame.writeStream.format("noop").option("checkpointLocation", str(directory)).start()
    try:
        while len([each for each in query.recentProgress if each["numInputRows"]]) < TRIGGERS + 2:
            if query.awaitTermination(0.2):
                break
        done = [each for each in query.recentProgress if each["numInputRows"]]
    finally:
        query.stop()
    return float(statistics.median(each["durationMs"]["triggerExecution"] for each in done[2:])) / 1000


def processor_time(server_pid: int) -> tuple[float, float]:
    """Seconds that the server, and all other processes below this one with it, have had so far."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        # Its own, and that of its children that have ended.
        times[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    others = 0.0
    for pid, spent in times.items():
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        if at == os.getpid() and pid != server_pid:
            others += spent
    return times.get(server_pid, 0.0), others
