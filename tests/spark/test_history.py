"""History from files through Spark itself: all that the server has and had, by batch, SQL and streaming.

The properties are in tests/unit/spark, without a JVM; here is what needs one.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from spark.stage import Held, Stage
from tidelog.cold.bucket import open_bucket
from tidelog.cold.history import find_history
from tidelog.spark.job.replay import Range, Replay


@pytest.fixture(scope="module")
def archived(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[Held]]:
    """A stream of which the server has the second half, its history, and all of it as it was."""
    stream, folder = stage.new_stream(), tmp_path_factory.mktemp("cold")
    stage.fill(stream, 300)
    stage.js.delete_message(stream, 17)
    held = stage.held(stream)
    command = [
        sys.executable,
        "-m",
        "tidelog",
        "export",
        stream,
        str(folder),
        "--format",
        "cold",
        "-s",
        stage.url,
    ]
    subprocess.run([*command, "--end-seq", "100"], check=True, timeout=60)
    subprocess.run([*command, "--end-seq", "250"], check=True, timeout=60)
    stage.js.purge_stream(stream, seq=150)
    stage.js.delete_message(stream, 200)
    return stream, folder, [message for message in held if message.seq != 200]


def given(stage: Stage, stream: str, folder: Path) -> dict[str, str]:
    return {"servers": stage.url, "stream": stream, "coldUrl": str(folder)}


def found(frame: Any) -> list[Held]:
    return sorted(Held(row.seq, row.subject, bytes(row.value)) for row in frame.collect())


def test_batch_and_sql(spark: Any, stage: Stage, archived: tuple[str, Path, list[Held]]) -> None:
    """SPARK-1"""
    stream, folder, truth = archived
    options = given(stage, stream, folder)
    assert found(spark.read.format("tidelog").options(**options, minPartitions="3").load()) == truth
    said = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW history USING tidelog OPTIONS ({said}, subjects '{stream}.b.*')"
    )
    expected = [message for message in truth if ".b." in message.subject]
    assert found(spark.sql("SELECT * FROM history WHERE seq > 0")) == expected


def test_a_query_goes_from_history_into_the_stream(
    spark: Any, stage: Stage, archived: tuple[str, Path, list[Held]], tmp_path: Path
) -> None:
    """SPARK-2: in batches across the edge, and again from the checkpoint."""
    stream, folder, truth = archived
    options = given(stage, stream, folder) | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "120"}
    for _ in range(2):
        query = (
            spark.readStream.format("tidelog")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
    assert found(spark.read.parquet(str(tmp_path / "out"))) == truth


def test_anything_that_knows_parquet_opens_the_folder(
    spark: Any, archived: tuple[str, Path, list[Held]]
) -> None:
    stream, folder, _ = archived
    history = find_history(open_bucket(folder.as_uri()), stream)
    data = folder / history.place.folder / "data"
    # 200 is there: it was archived before it was deleted.
    seqs = [seq for seq in range(1, 250) if seq != 17]
    by_duckdb = duckdb.sql(
        f"select seq, payload from read_parquet('{data}/*.parquet') order by seq"
    ).fetchall()
    assert by_duckdb == [(seq, b"%d" % (seq - 1)) for seq in seqs]
    frame = pd.read_parquet(data)
    assert list(frame["seq"]) == seqs
    assert str(frame["ts"].dt.tz) == "UTC"
    read = spark.read.parquet(str(data))
    assert dict(read.dtypes)["ts"] == "timestamp"
    assert [row.seq for row in read.orderBy("seq").collect()] == seqs
    alone = (
        spark.read.format("tidelog")
        .option("readFrom", "cold")
        .option("coldUrl", str(folder))
        .option("stream", stream)
    )
    assert alone.load().count() == len(seqs)


def test_a_range_of_history_is_replayed(
    spark: Any, stage: Stage, archived: tuple[str, Path, list[Held]]
) -> None:
    stream, folder, truth = archived
    to = stage.new_stream()
    job = Replay(
        Range(str(folder), stream, 90, 130),
        {"servers": stage.url, "stream": to},
        prefix=f"{to}.",
        where="seq <> 95",
    )
    expected = [message for message in truth if 90 <= message.seq < 130 and message.seq != 95]
    assert job.run(spark) == len(expected)
    assert [(message.subject, message.value) for message in stage.held(to)] == [
        (f"{to}.{message.subject}", message.value) for message in expected
    ]
