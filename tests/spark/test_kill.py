"""Servers, drivers and workers that are killed in the middle: every row is there once in the end.

From a stream into a stream and into a table. TIDELOG_SPARK_KILLS=20 is for long runs, which also say how many of the
kills met a query at work.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from spark.stage import Stage
from tidelog.client.jetstream import Outgoing
from tidelog.spark.job.archive import Archive

LONG = "TIDELOG_SPARK_KILLS" in os.environ
# How often a server or a worker is killed, and a driver, which takes a whole Spark each time.
KILLS = int(os.environ.get("TIDELOG_SPARK_KILLS", "2"))
DRIVER_KILLS = int(os.environ.get("TIDELOG_SPARK_KILLS", "1"))
# Of a micro-batch; and as many batches as there are kills, some of which take a moment to come to the next.
BATCH = 250
BATCHES_A_KILL = 4
# Shorter than a driver takes to start: what was begun before a kill is known by its marks, and not by its ids.
FORGETFUL = {"duplicate_window": 200_000_000}
# The last where a query ends: a table is a directory.
WHERE = [
    "stream",
    pytest.param("table", marks=pytest.mark.skipif(not LONG, reason="for long runs: TIDELOG_SPARK_KILLS=20")),
]
SECONDS_A_KILL = 90


class Flow:
    """From a stream with `rows` messages to another one, or to a table."""

    def __init__(self, stage: Stage, directory: Path, where: str, rows: int) -> None:
        self.stage, self.directory, self.rows = stage, directory, rows
        self.source = stage.new_stream()
        self.target = stage.new_stream(**FORGETFUL) if where == "stream" else ""
        stage.fill(self.source, rows)

    @property
    def argv(self) -> list[str]:
        return [self.stage.url, self.source, self.target, str(self.directory)]

    def arrived(self) -> list[int]:
        if self.target:
            return sorted(int(held.value) for held in self.stage.held(self.target))
        found = pq.read_table(self.directory / "table", columns=["seq", "value"]).to_pylist()
        assert all(int(row["value"]) == row["seq"] - 1 for row in found)
        return sorted(int(row["value"]) for row in found)

    def check(self) -> None:
        assert self.arrived() == list(range(self.rows))


def start(spark: Any, url: str, source: str, target: str, directory: str) -> Any:
    """The query, which ends when it has all; also what a driver of its own runs."""
    options = {"servers": url, "stream": source, "maxOffsetsPerTrigger": str(BATCH), "minPartitions": "2"}
    if not target:
        return Archive(f"{directory}/table", options).start(spark)
    frame = (
        spark.readStream.format("tidelog")
        .options(startingOffsets="earliest", **options)
        .load()
        .drop("subject")
    )
    writer = frame.writeStream.format("tidelog").options(servers=url, subject=f"{target}.x", stream=target)
    return writer.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()


DRIVER = """
import sys
import tidelog.spark
from spark.test_kill import start
query = start(tidelog.spark.session("driver", master="local[2]"), *sys.argv[1:])
print("running", flush=True)
query.awaitTermination()
print("done", flush=True)
"""


def test_a_batch_reads_all_although_the_server_is_killed(spark: Any, stage: Stage) -> None:
    """SPARK-1."""
    stream = stage.new_stream()
    stage.publish([Outgoing(f"{stream}.a", b"x" * 200) for _ in range(60_000)])

    def kill_and_start() -> None:
        for _ in range(KILLS):
            time.sleep(0.2)
            stage.kill()
            stage.start()

    killer = threading.Thread(target=kill_and_start)
    killer.start()
    frame = spark.read.format("tidelog").options(servers=stage.url, stream=stream, minPartitions="6").load()
    found = frame.selectExpr("count(*) AS n", "sum(seq) AS s", "max(seq) AS m").first()
    killer.join()
    assert (found.n, found.s, found.m) == (60_000, 60_000 * 60_001 // 2, 60_000)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.timeout(240 + SECONDS_A_KILL * KILLS)
def test_a_server_that_is_killed_again_and_again_costs_no_row(
    spark: Any, stage: Stage, tmp_path: Path, where: str
) -> None:
    """SPARK-2 and SPARK-4."""
    chance = random.Random()
    flow = Flow(stage, tmp_path, where, BATCH * BATCHES_A_KILL * KILLS)
    query = start(spark, *flow.argv)
    at_work = 0
    for _ in range(KILLS):
        query.awaitTermination(chance.uniform(0.3, 2))
        at_work += query.isActive
        stage.kill()
        stage.start()
    assert query.awaitTermination(SECONDS_A_KILL * KILLS)
    flow.check()
    print(f"server, to a {where}: {at_work} of {KILLS} kills met a query at work")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.timeout(300 + SECONDS_A_KILL * DRIVER_KILLS)
def test_a_driver_that_is_killed_again_and_again_writes_every_row_once(
    stage: Stage, tmp_path: Path, where: str
) -> None:
    """SPARK-2 and SPARK-4: mid-batch, past the stream's duplicate window."""
    chance = random.Random()
    flow = Flow(stage, tmp_path, where, BATCH * BATCHES_A_KILL * (DRIVER_KILLS + 1))
    at_work = 0
    for patience_s in [*(chance.uniform(0.2, 6) for _ in range(DRIVER_KILLS)), None]:
        with driver(flow) as process:
            if patience_s is None:
                assert process.stdout is not None
                assert process.stdout.readline() == "done\n"
                continue
            time.sleep(patience_s)
            at_work += process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
    flow.check()
    print(f"driver, to a {where}: {at_work} of {DRIVER_KILLS} kills met a query at work")


@contextlib.contextmanager
def driver(flow: Flow) -> Iterator["subprocess.Popen[str]"]:
    """A Spark of its own that has begun with the query."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, *flow.argv],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process


@pytest.mark.timeout(240 + SECONDS_A_KILL * KILLS)
def test_workers_that_are_killed_fail_the_job_and_not_the_rows(
    spark: Any, stage: Stage, tmp_path: Path
) -> None:
    """A task is a process: without it the batch fails, and the next start repeats it."""
    chance = random.Random()
    flow = Flow(stage, tmp_path, "stream", BATCH * BATCHES_A_KILL * KILLS)
    at_work = 0
    for _ in range(KILLS):
        # Spark may begin with a worker that was killed, and fail for that alone.
        with contextlib.suppress(PySparkException):
            query = start(spark, *flow.argv)
            while query.isActive and not query.recentProgress:
                query.awaitTermination(0.05)
            query.awaitTermination(chance.uniform(0, 0.5))
            at_work += query.isActive
            for pid in workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            query.awaitTermination(100)
    assert start(spark, *flow.argv).awaitTermination(100)
    flow.check()
    print(f"workers: {at_work} of {KILLS} kills met a query at work")


def workers() -> list[int]:
    """The Python workers below this process."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                names[int(path.name)] = (path / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            if (
                "pyspark" in names[child]
                and "java" not in names[child].partition("\0")[0]
                and child not in children
            ):
                found.append(child)
    return found
