"""The forms of a report, of a comparison made by hand."""

import io
import json

from rich.console import Console

from tidelog.bench.case import CASES, RATE, Goal, chosen
from tidelog.bench.compare import CaseResult, Comparison, Cost, Row
from tidelog.bench.report import Facts, as_json, as_markdown, commit, gather_facts, number, table

FACTS = Facts("2026-01-02", "Some CPU, 2 cores", "Linux 6", "3.11.9", "abc1234", "ours, 1", "peer, 2")


def comparison() -> Comparison:
    rate = Row("request", "request/reply", RATE, (100.0, 300.0, 200.0), (100.0, 50.0, 400.0))
    p50 = Row("request p50", "request/reply, p50", "us", (30.0,), (40.0,), Goal(0.9, at_least=False))
    p99 = Row("request p99", "request/reply, p99", "us", (50.0,), (40.0,), Goal(1.0, at_least=False))
    result = CaseResult(
        chosen(CASES, ("request",))[0],
        (rate, p50, p99),
        Cost(0.5, 0.25, 0.0, 400.0),
        Cost(1.5, 0.125, 0.75, 100.0),
    )
    return Comparison(3, [result], {"tls": "Timeout: the server\ndid nothing"})


def test_json_has_the_agreed_keys_and_medians() -> None:
    rows = json.loads(as_json(comparison()))
    assert rows[0] == {
        "case": "request",
        "unit": "msg/s",
        "ours": 200.0,
        "peer": 100.0,
        "ratio": 2.0,
        "rounds": 3,
    }
    assert [row["case"] for row in rows] == ["request", "request p50", "request p99"]


def test_markdown_says_what_where_and_whether_met() -> None:
    text = as_markdown(comparison(), FACTS)
    for piece in (
        "- Commit: abc1234",
        "- Machine: Some CPU, 2 cores",
        "| request p50 | request/reply, p50 | us | 30.0 | 40.0 | 0.75 | <= 0.9 | met |",
        "| 1.25 | <= 1 | missed |",
        "| request | msg/s | 100 .. 300 | 50.0 .. 400 |",
        "| request | 0.50 | 0.25 | 0.00 | 1.50 | 0.12 | 0.75 | 400 | 100 | 4.00 |",
        "- Others took up to 0.75 of a processor",
        "less is better",
        "**tls failed**: Timeout: the server did nothing",
    ):
        assert piece in text


def test_table_shows_every_row() -> None:
    console = Console(width=120, file=io.StringIO())
    console.print(table(comparison()))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "request p99" in text
    assert "missed" in text
    assert "less is better" in text


def test_numbers_keep_three_digits() -> None:
    assert [number(value) for value in (1234567.8, 100.4, 99.96, 3.14)] == [
        "1,234,568",
        "100",
        "100.0",
        "3.1",
    ]


def test_facts_of_this_machine() -> None:
    facts = gather_facts(ours="a", peer="b")
    assert "cores" in facts.machine
    assert facts.commit == commit() != ""
