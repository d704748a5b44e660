"""Writing: every row once, whatever begins again; and what cannot be written is said before or where it happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from spark.stage import Stage

Copy = Callable[..., Any]


def values(stage: Stage, stream: str) -> list[bytes]:
    return [held.value for held in stage.held(stream)]


def write(frame: Any, stage: Stage, **options: object) -> None:
    writer = frame.write.format("tidelog").mode("append").option("servers", stage.url)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


@pytest.fixture
def copy(spark: Any, stage: Stage, tmp_path: Path) -> Copy:
    """Copies what there is in one stream into another, as a query; every row goes to `<target>.copy`."""

    def go(source: str, target: str, **options: object) -> Any:
        frame = (
            spark.readStream.format("tidelog")
            .options(servers=stage.url, stream=source, startingOffsets="earliest", maxOffsetsPerTrigger=40)
            .option("minPartitions", 2)
            .load()
        )
        writer = frame.drop("subject").writeStream.format("tidelog").option("servers", stage.url)
        for name, value in ({"subject": f"{target}.copy"} | options).items():
            writer = writer.option(name, str(value))
        query = (
            writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return query

    return go


def forget_commits(directory: Path, since: int) -> None:
    """Spark's own note that a batch was done is gone: as after a crash before it was written."""
    for path in (directory / "checkpoint" / "commits").iterdir():
        if (
            path.name.lstrip(".").split(".")[0].isdigit()
            and int(path.name.lstrip(".").split(".")[0]) >= since
        ):
            path.unlink()


def test_rows_arrive_with_subjects_headers_and_bytes(spark: Any, stage: Stage) -> None:
    """SPARK-4."""
    stream = stage.new_stream()
    schema = "subject string, value binary, headers array<struct<key: string, value: binary>>, other int"
    rows = [
        (f"{stream}.a", bytearray(b"\x00\xff"), [("K", bytearray(b"v1")), ("K", bytearray(b"v2"))], 1),
        (f"{stream}.b", None, None, 2),
        (f"{stream}.c", bytearray(b"text"), [], 3),
    ]
    write(spark.createDataFrame(rows, schema).coalesce(1), stage)
    assert [(held.subject, held.value) for held in stage.held(stream)] == [
        (f"{stream}.a", b"\x00\xff"),
        (f"{stream}.b", b""),
        (f"{stream}.c", b"text"),
    ]
    read = (
        spark.read.format("tidelog").options(servers=stage.url, stream=stream, includeHeaders="true").load()
    )
    first = read.orderBy("seq").first()
    pairs = [(pair.key, bytes(pair.value)) for pair in first.headers if pair.key == "K"]
    assert pairs == [("K", b"v1"), ("K", b"v2")]


def test_many_rows_from_several_tasks(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    frame = spark.range(3000).selectExpr("cast(id as string) AS value").repartition(3)
    write(frame, stage, subject=f"{stream}.all", maxInFlight=50, maxInFlightBytes=1000)
    assert sorted(map(int, values(stage, stream))) == list(range(3000))


def test_a_job_that_has_a_name_may_be_run_again(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    frame = spark.range(100).selectExpr("cast(id as string) AS value").coalesce(2)
    for _ in range(2):
        write(frame, stage, subject=f"{stream}.x", writerId="nightly")
    assert sorted(map(int, values(stage, stream))) == list(range(100))
    write(frame, stage, subject=f"{stream}.x")
    assert len(values(stage, stream)) == 200


def test_ids_may_come_from_a_column(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    frame = spark.range(60).selectExpr("cast(id % 20 as string) AS value", "concat('id-', id % 20) AS msgId")
    write(frame, stage, subject=f"{stream}.x", dedupe="column")
    assert sorted(map(int, values(stage, stream))) == list(range(20))


@pytest.mark.parametrize("stream_named", [False, True])
def test_a_batch_that_is_repeated_is_stored_once(
    stage: Stage, copy: Copy, tmp_path: Path, stream_named: bool
) -> None:
    """SPARK-4, with ids that the stream still knows, and after it has forgotten them."""
    source, target = stage.new_stream(), stage.new_stream(duplicate_window=100_000_000)
    stage.fill(source, 80)
    more = {"stream": target} if stream_named else {}
    copy(source, target, **more)
    expected = [b"%d" % number for number in range(80)]
    assert sorted(values(stage, target), key=int) == expected
    # All was written, and Spark crashed before it noted that.
    forget_commits(tmp_path, 1)
    copy(source, target, **more)
    assert sorted(values(stage, target), key=int) == expected
    # Some was written, and neither Spark nor the note of committed batches say so.
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    stage.js.purge_stream("KV_tidelog_spark", subject=f"$KV.tidelog_spark.{query}.committed")
    for held in [held for held in stage.held(target) if int(held.value) >= 70]:
        stage.js.delete_message(target, held.seq)
    forget_commits(tmp_path, 1)
    copy(source, target, **more)
    assert sorted(values(stage, target), key=int) == expected


def test_a_query_goes_on_after_the_server_was_killed(stage: Stage, copy: Copy) -> None:
    source, target = stage.new_stream(), stage.new_stream()
    stage.fill(source, 80)
    copy(source, target)
    stage.fill(source, 40, start=80)
    stage.kill()
    stage.start()
    copy(source, target)
    assert sorted(values(stage, target), key=int) == [b"%d" % number for number in range(120)]


def test_a_stream_that_refuses_is_told_with_its_words(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream(max_msgs=2, discard="new")
    frame = spark.range(5).selectExpr("cast(id as string) AS value").coalesce(1)
    with pytest.raises(PySparkException, match="was not stored: maximum messages exceeded"):
        write(frame, stage, subject=f"{stream}.x")
    with pytest.raises(PySparkException, match=r"no stream takes .NOBODY\.x"):
        write(frame, stage, subject="NOBODY.x")
    with pytest.raises(PySparkException, match="was not stored: expected stream does not match"):
        write(frame, stage, subject=f"{stream}.x", stream="OTHER")


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (["1 AS value"], {"subject": "s"}, "column 'value' must be string or binary"),
        (["'x' AS value"], {}, "option 'subject'"),
        (["'x' AS payload"], {"subject": "s"}, "column 'value' is missing"),
        (["'x' AS value", "1 AS headers"], {"subject": "s"}, "column 'headers' must be"),
        (["'x' AS value"], {"subject": "s", "dedupe": "column"}, "option 'dedupe'"),
        (["'x' AS value", "cast(null AS string) AS subject"], {}, "column 'subject' is null"),
        (["'x' AS value"], {"subject": "s.*"}, "option 'subject'"),
    ],
)
def test_what_cannot_be_written_is_named(
    spark: Any, stage: Stage, columns: list[str], options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        write(spark.range(1).selectExpr(*columns), stage, **options)


def test_nothing_is_overwritten(spark: Any, stage: Stage) -> None:
    frame = spark.range(1).selectExpr("'x' AS value")
    with pytest.raises(PySparkException, match="appended"):
        frame.write.format("tidelog").mode("overwrite").options(servers=stage.url, subject="s").save()


def test_a_streaming_query_that_cannot_write_fails(stage: Stage, copy: Copy) -> None:
    source, target = stage.new_stream(), stage.new_stream(max_msgs=10, discard="new")
    stage.fill(source, 50)
    with pytest.raises(StreamingQueryException, match="maximum messages exceeded"):
        copy(source, target)
