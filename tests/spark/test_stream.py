"""Structured Streaming: every message once, whatever the limits, stops and restarts; offsets that people can read."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark.stage import Stage
from tidelog.spark.micro_batch import MicroBatchReader
from tidelog.spark.option import read_options

Run = Callable[..., Any]
Follow = Callable[..., Any]


@pytest.fixture
def run(stage: Stage, spark: Any, tmp_path: Path) -> Run:
    """Runs a query over what there is, into Parquet below the test's directory; gives the query when it has ended."""

    def go(stream: str, *, where: str = "one", **options: object) -> Any:
        reader = spark.readStream.format("tidelog").option("servers", stage.url).option("stream", stream)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        query = (
            reader.load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / where / "table"))
            .option("checkpointLocation", str(tmp_path / where / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return query

    return go


@pytest.fixture
def follow(spark: Any, stage: Stage, tmp_path: Path) -> Iterator[Follow]:
    """Starts a query that goes on until the test ends, into a table in memory."""
    running: list[Any] = []

    def go(stream: str, table: str, **options: object) -> Any:
        reader = spark.readStream.format("tidelog").option("servers", stage.url).option("stream", stream)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        writer = reader.load().writeStream.format("memory").queryName(table)
        query = writer.option("checkpointLocation", str(tmp_path / table)).start()
        running.append(query)
        return query

    yield go
    for query in running:
        query.stop()


def seqs(spark: Any, tmp_path: Path, where: str = "one") -> list[int]:
    return [row.seq for row in spark.read.parquet(str(tmp_path / where / "table")).orderBy("seq").collect()]


def offsets(tmp_path: Path, where: str = "one") -> list[Any]:
    """What stands in the checkpoint, batch by batch."""
    files = sorted(
        (tmp_path / where / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]


def test_limits_cut_batches_and_a_restart_goes_on(spark: Any, stage: Stage, run: Run, tmp_path: Path) -> None:
    """SPARK-2."""
    stream = stage.new_stream()
    stage.fill(stream, 25)
    query = run(stream, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    assert [progress["numInputRows"] for progress in query.recentProgress] == [10, 10, 5]
    assert [offset["streams"][stream]["seq"] for offset in offsets(tmp_path)] == [11, 21, 26]
    assert offsets(tmp_path)[0]["streams"][stream]["created"] == stage.js.stream_info(stream).created
    stage.fill(stream, 3, start=25)
    # The checkpoint wins over where the options say to begin.
    run(stream, startingOffsets="latest")
    assert seqs(spark, tmp_path) == list(range(1, 29))
    assert [
        bytes(row.value)
        for row in spark.read.parquet(str(tmp_path / "one" / "table")).orderBy("seq").collect()
    ] == [b"%d" % number for number in range(28)]


def test_limits_count_what_matches(spark: Any, stage: Stage, run: Run, tmp_path: Path) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 300, subjects=("a", "b", "b", "b", "b", "b"))
    query = run(stream, startingOffsets="earliest", subjects=f"{stream}.a", maxOffsetsPerTrigger=20)
    assert [progress["numInputRows"] for progress in query.recentProgress] == [20, 20, 10]
    assert seqs(spark, tmp_path) == list(range(1, 301, 6))


def test_bytes_limit_a_batch_about(spark: Any, stage: Stage, run: Run, tmp_path: Path) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 100)
    size = stage.js.stream_info(stream).state.bytes
    query = run(stream, startingOffsets="earliest", maxBytesPerTrigger=size // 4 + 1, maxOffsetsPerTrigger=90)
    assert [progress["numInputRows"] for progress in query.recentProgress] == [25, 25, 25, 25]
    assert seqs(spark, tmp_path) == list(range(1, 101))


def test_a_batch_waits_for_enough_but_not_for_ever(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-2."""
    stream, now_s = stage.new_stream(), 100.0
    monkeypatch.setattr("tidelog.spark.micro_batch.time", SimpleNamespace(monotonic=lambda: now_s))
    given = {
        "servers": stage.url,
        "stream": stream,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "10",
    }
    for subjects, share in (("", 1), (f"{stream}.a", 3)):
        options = read_options(
            given | {"maxTriggerDelay": "5m"} | ({"subjects": subjects} if subjects else {}), streaming=True
        )
        stage.js.purge_stream(stream)
        reader = MicroBatchReader(options)
        start = reader.initialOffset()
        begin = start["streams"][stream]["seq"]

        def upto(offset: Any, begin: int = begin) -> int:
            return int(offset["streams"][stream]["seq"]) - begin

        stage.fill(stream, 3)
        first = reader.latestOffset(start, ReadAllAvailable())
        assert upto(first) == 3  # the first one waits for nothing
        stage.fill(stream, 9 * share)
        assert reader.latestOffset(first, ReadAllAvailable()) == first
        stage.fill(stream, share)
        second = reader.latestOffset(first, ReadAllAvailable())
        assert upto(second) == 3 + 10 * share
        stage.fill(stream, share)
        now_s += 299
        assert reader.latestOffset(second, ReadAllAvailable()) == second
        now_s += 1
        third = reader.latestOffset(second, ReadAllAvailable())
        assert upto(third) == 3 + 11 * share
        stage.fill(stream, share)
        reader.prepareForTriggerAvailableNow()
        assert upto(reader.latestOffset(third, ReadAllAvailable())) == 3 + 12 * share
        reader.stop()


def test_latest_is_where_the_stream_ended_when_the_query_began(
    spark: Any, stage: Stage, follow: Follow
) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 5)
    query = follow(stream, "began_at_the_end")
    query.processAllAvailable()
    stage.fill(stream, 2, start=5)
    query.processAllAvailable()
    assert [row.seq for row in spark.sql("SELECT seq FROM began_at_the_end ORDER BY seq").collect()] == [6, 7]


def test_an_empty_stream_and_then_one_that_is_not(spark: Any, stage: Stage, run: Run, tmp_path: Path) -> None:
    stream = stage.new_stream()
    run(stream, startingOffsets="earliest")
    stage.fill(stream, 4)
    run(stream, startingOffsets="earliest")
    assert seqs(spark, tmp_path) == [1, 2, 3, 4]


def test_messages_that_were_deleted_are_gaps(spark: Any, stage: Stage, run: Run, tmp_path: Path) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 60)
    gone = set(random.Random(7).sample(range(2, 60), 30))
    for seq in gone:
        stage.js.delete_message(stream, seq)
    run(stream, startingOffsets="earliest", maxOffsetsPerTrigger=7, minPartitions=3)
    assert seqs(spark, tmp_path) == [seq for seq in range(1, 61) if seq not in gone]


def test_a_running_query_follows_and_shows_how_far_it_is(spark: Any, stage: Stage, follow: Follow) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 10)
    query = follow(stream, "followed", startingOffsets="earliest", maxOffsetsPerTrigger=4)
    query.processAllAvailable()
    stage.fill(stream, 5, start=10)
    query.processAllAvailable()
    found = [row.seq for row in spark.sql("SELECT seq FROM followed ORDER BY seq").collect()]
    assert found == list(range(1, 16))
    source = next(each for each in reversed(query.recentProgress) if each["numInputRows"])["sources"][0]
    assert json.loads(source["endOffset"])["streams"][stream]["seq"] == 16
    assert json.loads(source["latestOffset"])["streams"][stream]["seq"] == 16


def test_a_stream_that_was_made_anew_is_not_taken_for_the_old_one(
    spark: Any, stage: Stage, run: Run, tmp_path: Path
) -> None:
    """SPARK-3."""
    stream = stage.new_stream()
    stage.fill(stream, 20)
    run(stream, startingOffsets="earliest")
    stage.js.delete_stream(stream)
    stage.new_stream(stream)
    stage.fill(stream, 30, start=100)
    with pytest.raises(StreamingQueryException, match=r"deleted and made again.*failOnDataLoss"):
        run(stream, startingOffsets="earliest")
    run(stream, startingOffsets="earliest", failOnDataLoss=False)
    table = spark.read.parquet(str(tmp_path / "one" / "table"))
    assert sorted(int(bytes(row.value)) for row in table.collect()) == [*range(20), *range(100, 130)]


def test_what_retention_removed_before_it_was_read_is_told(
    spark: Any, stage: Stage, run: Run, tmp_path: Path
) -> None:
    """SPARK-3."""
    stream = stage.new_stream()
    stage.fill(stream, 20)
    run(stream, startingOffsets="earliest")
    stage.fill(stream, 20, start=20)
    stage.js.purge_stream(stream, seq=31)
    with pytest.raises(
        StreamingQueryException, match=r"begins at 31; 21 was to be read next.*failOnDataLoss"
    ):
        run(stream)
    run(stream, failOnDataLoss=False)
    assert seqs(spark, tmp_path) == [*range(1, 21), *range(31, 41)]


def test_a_stream_that_keeps_the_last_of_each_subject_loses_nothing_by_it(
    spark: Any, stage: Stage, run: Run, tmp_path: Path
) -> None:
    stream = stage.new_stream(max_msgs_per_subject=1)
    stage.fill(stream, 9)
    run(stream, startingOffsets="earliest")
    stage.fill(stream, 9, start=9)
    stage.fill(stream, 9, start=18)
    run(stream)
    assert seqs(spark, tmp_path) == [7, 8, 9, 25, 26, 27]


def test_a_second_stream_is_read_from_its_beginning(
    spark: Any, stage: Stage, run: Run, tmp_path: Path
) -> None:
    first, second = stage.new_stream(), stage.new_stream()
    stage.fill(first, 5)
    stage.fill(second, 7)
    run(first, startingOffsets="earliest")
    run(f"{first},{second}")
    table = spark.read.parquet(str(tmp_path / "one" / "table"))
    assert {row.stream: row["count"] for row in table.groupBy("stream").count().collect()} == {
        first: 5,
        second: 7,
    }
