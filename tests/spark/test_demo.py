"""The demo's pipeline, with fewer events: it checks itself, so what is looked at here is that it gets to its end."""

from pathlib import Path

import nats
import pytest
from click.testing import CliRunner
from rich.console import Console

from tidelog.cli import demo_pipeline
from tidelog.cli.demo import demo
from tidelog.spark import java


@pytest.mark.usefixtures("lasting")
def test_events_become_totals_a_table_and_a_plot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("EVENTS", 3_000), ("BATCH", 1_500), ("MINUTES", 6)):
        monkeypatch.setattr(demo_pipeline, name, value)
    # As after another demo.
    for left_over in ("minutes/part-0.parquet", "report/report.png", "report/by_subject/part-0.parquet"):
        (tmp_path / left_over).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / left_over).write_bytes(b"old")
    figures = {
        figure.what: figure.value for figure in demo_pipeline.pipeline_figures(Console(), nats, tmp_path)
    }
    # 9 subjects, and the last of 6 minutes goes on.
    assert figures["totals in the table and in the stream, each checked"] == "54, 45"
    told = capsys.readouterr().out
    assert "Revenue by minute" in told
    assert str(tmp_path / "report" / "report.png") in told
    assert (tmp_path / "report" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_without_java_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ran = CliRunner().invoke(demo)
    assert ran.exit_code == 1
    assert "apt-get install openjdk-17-jre-headless" in ran.output
    assert "tidelog demo --no-spark" in ran.output
