"""The demo's stream, with fewer messages: it checks itself, so what is looked at here is that it gets to its end."""

import nats
import pytest
from rich.console import Console

from tidelog.cli import demo_stream


def test_a_stream_is_written_read_worked_on_killed_and_found_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("ORDERS", 1_000), ("WORKED_ON", 400), ("WINDOW", 100), ("BATCH", 100)):
        monkeypatch.setattr(demo_stream, name, value)
    figures = {figure.what: figure.value for figure in demo_stream.stream_figures(Console(), nats)}
    assert "killed with SIGKILL" in capsys.readouterr().out
    assert figures["stored before kill -9, and there behind it"] == "1,000 of 1,000"
    assert figures["worked on before it, and behind it"] == "400 + 600"
