"""What a run over cases is shown as, of a run made by hand; and that a failure is no figure."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tidelog.bench.case import chosen
from tidelog.bench.report import Facts
from tidelog.bench.store import run as store_run
from tidelog.bench.store.case import CASES
from tidelog.bench.store.figure import Figure, as_fields, at_least, at_most, from_fields
from tidelog.bench.store.peer import PeerFailed, parse, run_peer, version
from tidelog.bench.store.report import as_json, as_markdown, table
from tidelog.bench.store.run import StoreReport, StoreResult, run

FACTS = Facts("2026-01-02", "Some CPU, 2 cores", "Linux 6", "3.11.9", "abc1234", "ours, 1", "peer, 2")
SAID = """goos: linux
Benchmark_MemStoreLoadNextMsgFiltered/wildcard_linear_scan-2   1   1988757740 ns/op
Benchmark_MemStoreLoadNextMsgFiltered/wildcard_bounded_scan      2347	    869039 ns/op
Benchmark_Other/literal_bounded_scan-2         	       1	1780179643 ns/op
PASS
"""


def taken() -> StoreReport:
    append, search = chosen(CASES, ("append-memory", "search-few"))
    return StoreReport(
        1,
        3,
        [
            StoreResult(append, (Figure("", "M msg/s", (2.0, 4.0, 3.0), at_least(3)),), 0.25),
            StoreResult(
                search,
                (
                    Figure("next, by a reader", "ms", (2.0,), at_most(1)),
                    Figure("previous, by a reader", "ms", (0.5,)),
                ),
                0.5,
            ),
        ],
        {"reopen": "WrongDelivery: one\nis missing"},
        {"wildcard_bounded_scan": 0.869},
    )


def test_json_has_a_row_for_every_figure() -> None:
    rows = json.loads(as_json(taken()))
    assert [(row["case"], row["value"], row["met"], row["peer"]) for row in rows] == [
        ("append-memory", 3.0, True, None),
        ("search-few", 2.0, False, 0.869),
        ("search-few", 0.5, None, None),
    ]


def test_markdown_says_what_where_and_whether_met() -> None:
    text = as_markdown(taken(), FACTS)
    for piece in (
        "- Commit: abc1234",
        "| append-memory | append, in memory |  | M msg/s | 3.0 | 2.0 .. 4.0 | >= 3 | met |  | 0.25 |",
        "| ms | 2.0 | 2.0 .. 2.0 | <= 1 | missed | 0.9 | 0.50 |",
        "- Others took up to 0.50 of a processor",
        "**reopen failed**: WrongDelivery: one is missing",
    ):
        assert piece in text
    assert "- Size:" not in text
    assert "- Size: 0.5 of the full one" in as_markdown(replace(taken(), scale=0.5), FACTS)


def test_table_shows_every_figure() -> None:
    console = Console(width=140, file=io.StringIO())
    console.print(table(taken()))
    assert isinstance(console.file, io.StringIO)
    assert "missed" in console.file.getvalue()


def test_a_figure_survives_the_way_from_a_child() -> None:
    for figure in (Figure("a", "ms", (1.0, 2.0), at_most(3)), Figure("b", "us", (1.0,))):
        assert from_fields(json.loads(json.dumps(as_fields(figure)))) == figure


def test_the_figures_of_the_peer_are_found() -> None:
    assert parse(SAID) == {"wildcard_linear_scan": 1988.75774, "wildcard_bounded_scan": 0.869039}


def test_a_peer_that_cannot_be_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerFailed, match="no `go`"):
        run_peer(tmp_path)
    (tmp_path / "go").write_text("#!/bin/sh\necho broken\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    with pytest.raises(PeerFailed, match="broken"):
        run_peer(tmp_path)
    assert version(tmp_path) == "nats-server, from source"


def test_a_case_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    (good,) = chosen(CASES, ("cursor",))
    bad = replace(good, name="no-such-case")
    report = run([bad, good], directory=tmp_path, scale=0.0001, rounds=1, progress=lambda _: None)
    assert list(report.failures) == ["no-such-case"]
    assert [result.case.name for result in report.results] == ["cursor"]
    assert all(figure.goal is None for figure in report.results[0].figures), "goals are for full size"
    assert store_run.used_s() > 0
    assert list(tmp_path.iterdir()) == []
