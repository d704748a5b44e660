"""The jobs that come with Tidelog: archive, replay, report, projects, and how far they are."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark.stage import Held, Stage
from tidelog.base.errors import TidelogError
from tidelog.client.jetstream import Outgoing
from tidelog.spark.job import project
from tidelog.spark.job.archive import CHECKPOINT, Archive, read_table
from tidelog.spark.job.replay import Replay
from tidelog.spark.job.report import Report
from tidelog.spark.job.status import read_progress
from tidelog.spark.option import connect_options


def archive(spark: Any, stage: Stage, stream: str, table: Path, table_format: str = "parquet") -> None:
    options = {"servers": stage.url, "stream": stream, "maxOffsetsPerTrigger": "40"}
    query = Archive(str(table), options, table_format=table_format).start(spark)
    assert query.awaitTermination(120)


def archived(spark: Any, table: Path, table_format: str = "parquet") -> list[Held]:
    frame = read_table(spark, str(table), table_format).orderBy("seq")
    return [Held(row.seq, row.subject, bytes(row.value)) for row in frame.collect()]


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_an_archive_has_every_message_once_across_restarts(
    spark: Any, stage: Stage, tmp_path: Path, table_format: str
) -> None:
    stream, table = stage.new_stream(), tmp_path / "table"
    stage.fill(stream, 100)
    archive(spark, stage, stream, table, table_format)
    stage.fill(stream, 30, start=100)
    # As after a crash between the table and Spark's own note of it.
    for path in (table / CHECKPOINT / "commits").iterdir():
        if "2" in path.name:
            path.unlink()
    archive(spark, stage, stream, table, table_format)
    assert archived(spark, table, table_format) == stage.held(stream)
    if table_format == "parquet":
        # What others see, who know nothing of checkpoints.
        assert sorted(pq.read_table(table, columns=["seq"]).column("seq").to_pylist()) == list(range(1, 131))


def test_an_archive_without_its_checkpoint_is_left_alone(spark: Any, stage: Stage, tmp_path: Path) -> None:
    stream = stage.new_stream()
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "something").touch()
    with pytest.raises(TidelogError, match="where the archive ends is not known"):
        archive(spark, stage, stream, tmp_path / "table")


def test_a_replay_gives_the_stream_what_the_archive_has_in_order(
    spark: Any, stage: Stage, tmp_path: Path
) -> None:
    stream, again = stage.new_stream(), stage.new_stream()
    stage.js.update_stream({**stage.js.stream_info(again).config, "subjects": [f"again.{stream}.>"]})
    stage.publish([Outgoing(f"{stream}.{at % 3}", b"\xff%d" % at, {"K": f"{at}"}) for at in range(90)])
    archive(spark, stage, stream, tmp_path / "table")
    job = Replay(str(tmp_path / "table"), {"servers": stage.url}, prefix="again.", where="seq > 10")
    assert [job.run(spark), job.run(spark)] == [80, 80]
    expected = [(f"again.{held.subject}", held.value) for held in stage.held(stream)[10:]]
    assert [(held.subject, held.value) for held in stage.held(again)] == expected


def test_a_report_counts_by_subject_and_minute(spark: Any, stage: Stage, tmp_path: Path) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 31)
    summary = Report(tmp_path / "report", {"servers": stage.url, "stream": stream}).run(spark)
    held = stage.held(stream)
    assert (summary.messages, summary.size) == (31, sum(len(each.value) for each in held))
    assert [(name, count) for name, count, _ in summary.subjects] == [
        (f"{stream}.a", 11),
        (f"{stream}.b.c", 10),
        (f"{stream}.b.d", 10),
    ]
    assert summary.plot.read_bytes().startswith(b"\x89PNG")
    minutes = pq.read_table(tmp_path / "report" / "by_minute").to_pylist()
    assert sum(row["messages"] for row in minutes) == 31
    assert len(pq.read_table(tmp_path / "report" / "by_subject")) == 3


def test_a_report_of_nothing(spark: Any, stage: Stage, tmp_path: Path) -> None:
    summary = Report(tmp_path / "report", {"servers": stage.url, "stream": stage.new_stream()}).run(spark)
    assert (summary.messages, summary.subjects) == (0, [])
    assert summary.plot.exists()


def test_status_reads_checkpoints_and_asks_the_server(spark: Any, stage: Stage, tmp_path: Path) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 50)
    archive(spark, stage, stream, tmp_path / "table")
    stage.fill(stream, 7, start=50)
    options = connect_options({"servers": stage.url})
    (progress,) = read_progress(tmp_path, options)
    assert (progress.stream, progress.seq, progress.end_seq, progress.lag) == (stream, 51, 58, 7)
    assert (progress.committed, progress.note) == (True, "")
    stage.js.delete_stream(stream)
    (progress,) = read_progress(tmp_path, options)
    assert progress.note == "the stream is not there"
    stage.new_stream(stream)
    (progress,) = read_progress(tmp_path, options)
    assert progress.note == "the stream was made anew"


def test_a_project_of_declarative_pipelines_runs(stage: Stage, tmp_path: Path) -> None:
    """In processes of its own, as a user runs it; twice, with more messages the second time."""
    stream = stage.new_stream()
    stage.fill(stream, 40)
    directory = tmp_path / "flow"
    project.create(directory, stream=stream, server=stage.url)
    command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(directory), "--master", "local[2]"]
    environment = os.environ | {"NATS_URL": stage.url, "NO_COLOR": "1"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tables = {path.name for path in tmp_path.rglob("spark-warehouse/*")}
    name = stream.lower()
    assert {name, f"{name}_per_minute"} <= tables
    (table,) = tmp_path.rglob(f"spark-warehouse/{name}")
    assert sorted(pq.read_table(table, columns=["seq"]).column("seq").to_pylist()) == list(range(1, 41))
    (progress,) = read_progress(directory, connect_options({"servers": stage.url}))
    assert (progress.stream, progress.lag) == (stream, 0)


def test_a_project_is_not_made_over_something(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(TidelogError, match="not empty"):
        project.create(tmp_path, stream="S", server="nats://h:1")
