"""The commands, as people give them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark.stage import Stage
from tidelog.cli import command


@pytest.mark.usefixtures("lasting")
def test_archive_status_replay_and_report(
    stage: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, again = stage.new_stream(), stage.new_stream()
    stage.fill(stream, 60)
    monkeypatch.setenv("NATS_URL", stage.url)
    monkeypatch.setenv("COLUMNS", "200")
    table = str(tmp_path / "table")
    run = ["pipeline", "run"]
    assert (
        command.run([*run, "archive", "--stream", stream, "--to", table, "-o", "maxOffsetsPerTrigger=25"])
        == 0
    )
    told = capfd.readouterr()
    assert f"60 messages archived in {table}" in told.out
    assert "batch 2: 10 messages" in told.err
    stage.fill(stream, 5, start=60)
    assert command.run(["pipeline", "status", table]) == 0
    row = next(line for line in capfd.readouterr().out.splitlines() if stream in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")][4:7] == ["61", "66", "5"]
    assert command.run([*run, "replay", "--from", table, "--subject", f"{again}.x"]) == 0
    assert f"60 messages replayed from {table}" in capfd.readouterr().out
    assert [held.value for held in stage.held(again)] == [held.value for held in stage.held(stream)][:60]
    assert command.run([*run, "report", "--stream", stream, "--to", str(tmp_path / "report")]) == 0
    told = capfd.readouterr()
    assert f"{stream}: 65 messages" in told.out
    assert (tmp_path / "report" / "report.png").stat().st_size > 1000
    assert len(pq.read_table(tmp_path / "report" / "by_subject")) == 3


@pytest.mark.usefixtures("lasting")
def test_what_is_wrong_is_told_in_a_line(
    stage: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", stage.url)
    assert command.run(["pipeline", "status", str(tmp_path)]) == 1
    assert "no checkpoint of a query lies below" in capfd.readouterr().err
    assert command.run(["pipeline", "run", str(tmp_path)]) == 1
    assert "has no spark-pipeline.yml" in capfd.readouterr().err
    assert (
        command.run(["pipeline", "run", "report", "--stream", "S", "--to", str(tmp_path), "-o", "what"]) == 2
    )
    assert "NAME=VALUE" in capfd.readouterr().err
    assert command.run(["pipeline", "run", "report", "--stream", "NOT_THERE", "--to", str(tmp_path)]) == 1
    told = capfd.readouterr().err
    assert "option 'stream'" in told
    assert "Traceback" not in told
