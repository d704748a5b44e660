"""The commands for streams, consumers, buckets and objects against both servers, as somebody would type them."""

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli import command
from tidelog.client import connect
from tidelog.client.jetstream import JetStream, Publisher
from tidelog.testing.peer import ServerProcess

Start = Callable[..., ServerProcess]
Run = Callable[..., str]


@pytest.fixture(params=["theirs", "ours"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerProcess:
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    start: Start = request.getfixturevalue("start_peer" if request.param == "theirs" else "start_ours")
    running = start(flags=["-js", "-sd", str(tmp_path / "js")])
    monkeypatch.setenv("NATS_URL", running.url)
    return running


@pytest.fixture
def js(server: ServerProcess) -> Iterator[JetStream]:
    with connect(server.url) as connection:
        yield JetStream(connection)


@pytest.fixture
def run(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Run:  # noqa: ARG001
    """`run("stream ls")` gives what is printed."""

    def typed(words: str, code: int = 0) -> str:
        capsys.readouterr()
        found = command.run(shlex.split(words))
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return said.out if code == 0 else said.err

    return typed


def read(run: Run, words: str) -> Any:
    return json.loads(run(f"{words} --json"))


def fill(js: JetStream, count: int = 30) -> None:
    publisher = Publisher(js.connection)
    for number in range(1, count + 1):
        publisher.publish(
            f"o.{number % 3}", b"%d" % number, headers={"N": str(number)} if number == 5 else None
        )
    publisher.flush()


def test_a_stream_is_made_shown_changed_and_removed(run: Run, tmp_path: Path) -> None:
    flags = "--subjects o.*,p --max-age 2d --max-bytes 1MB --retention limits --metadata a=b --sync balanced"
    made = read(run, f"stream add O {flags} --storage file --no-allow-rollup --limit-consumer-max-pending 7")
    config = made["config"]
    assert config["subjects"] == ["o.*", "p"]
    assert (config["max_age"], config["max_bytes"]) == (2 * 86_400 * 10**9, 2**20)
    assert config["metadata"]["tidelog.sync"] == "balanced"
    assert config["consumer_limits"] == {"max_ack_pending": 7}
    assert (config["allow_direct"], config["allow_rollup_hdrs"]) == (True, False)
    assert "o.*, p" in run("stream info O")
    assert run("stream ls --names") == "O\n"
    assert "O " in run("stream ls")
    assert "max_msgs" in run("stream edit O --max-msgs 5 --dry-run")
    assert read(run, "stream edit O --max-msgs 5 --force")["config"]["max_msgs"] == 5
    assert "Nothing changes" in run("stream edit O --max-msgs 5")
    (tmp_path / "o.json").write_text(json.dumps({**config, "max_msgs": 9}))
    assert read(run, f"stream copy O P --subjects q --config {tmp_path}/o.json")["config"]["max_msgs"] == 9
    run("stream rm P --force")
    assert "use --force" in run("stream rm O", code=2)
    assert "stream ls` lists" in run("stream info P", code=1)
    assert "Give --subjects" in run("stream add Q", code=2)


def test_messages_are_viewed_from_any_point_in_both_directions(run: Run, js: JetStream) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"], "allow_direct": True})
    fill(js)

    def seqs(flags: str) -> list[int]:
        return [json.loads(line)["seq"] for line in run(f"stream view O {flags} --json").splitlines()]

    assert seqs("") == list(range(1, 11))
    assert seqs("--reverse") == list(range(30, 20, -1))
    assert seqs("4 --reverse --subject o.1") == [28, 25, 22, 19]
    assert seqs("3 --id 7 --subject o.0") == [9, 12, 15]
    assert seqs("3 --reverse --id 7") == [7, 6, 5]
    assert seqs("--all") == list(range(1, 31))
    assert seqs("--all --reverse --since 1h") == list(range(30, 0, -1))
    assert seqs("--until 1h") == []
    assert run("stream view O 2 --raw") == "1\n2\n"
    assert "[5] Subject: o.2 Received: " in run("stream view O 5")
    assert run("stream view O 1 --raw --translate 'tr 1 x'") == "x\n"
    got = read(run, "stream get O 5")
    assert (got["payload"], got["headers"]) == ("5", {"N": ["5"]})
    assert read(run, "stream get O --last-for o.1")["seq"] == 28
    assert "no message found" in run("stream get O 99", code=1)


def test_messages_are_counted_and_taken_away(run: Run, js: JetStream) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"]})
    fill(js)
    assert read(run, "stream subjects O") == {"o.0": 10, "o.1": 10, "o.2": 10}
    assert run("stream subjects O o.1 --names") == "o.1\n"
    run("stream rmm O 3 --force")
    assert read(run, "stream purge O --subject o.1 --force")["purged"] == 10
    assert "9 messages removed from O, 10 are left" in run("stream purge O --keep 10 --force")
    (row,) = read(run, "stream report --messages")
    assert row["state"]["messages"] == 10
    assert "O " in run("stream report")
    run("stream seal O --force")
    assert read(run, "stream info O")["config"]["sealed"] is True


@pytest.mark.parametrize("server", ["theirs"], indirect=True)
def test_a_stream_is_backed_up_and_restored(run: Run, js: JetStream, tmp_path: Path) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"]})
    fill(js)
    assert "O: 30 messages in" in run(f"stream backup O {tmp_path}/b --no-progress")
    run("stream rm O --force")
    assert "O: 30 messages restored" in run(f"stream restore {tmp_path}/b")
    assert read(run, "stream state O")["messages"] == 30
