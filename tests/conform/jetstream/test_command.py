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


def test_a_stream_is_backed_up_and_restored(run: Run, js: JetStream, tmp_path: Path) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"]})
    fill(js)
    assert "O: 30 messages in" in run(f"stream backup O {tmp_path}/b --no-progress")
    run("stream rm O --force")
    assert "O: 30 messages restored" in run(f"stream restore {tmp_path}/b")
    assert read(run, "stream state O")["messages"] == 30


def test_a_consumer_is_made_shown_changed_and_removed(run: Run, js: JetStream) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"]})
    fill(js)
    flags = "--pull --filter o.1 --deliver 4 --wait 10s --max-deliver 5 --sample 50 --metadata a=b"
    made = read(run, f"consumer add O c {flags}")
    config = made["config"]
    assert (config["durable_name"], config["filter_subject"], config["opt_start_seq"]) == ("c", "o.1", 4)
    assert (config["ack_policy"], config["ack_wait"], config["sample_freq"]) == ("explicit", 10**10, "50%")
    assert made["num_pending"] == 9
    backoff = "--backoff linear --backoff-steps 3 --backoff-min 1s --backoff-max 5s"
    assert read(run, f"consumer add O d {backoff}")["config"]["backoff"] == [10**9, 3 * 10**9, 5 * 10**9]
    pushed = read(run, "consumer add O p --target here --ack none --deliver new --filter o.1,o.2")
    assert pushed["config"]["filter_subjects"] == ["o.1", "o.2"]
    assert run("consumer ls O --names") == "c\nd\np\n"
    assert "o.1" in run("consumer ls O")
    assert "explicit" in run("consumer info O c")
    changed = read(run, "consumer edit O c --max-deliver 7 --force")
    assert changed["config"]["max_deliver"] == 7
    assert read(run, "consumer copy O c e --filter o.2")["config"]["filter_subject"] == "o.2"
    assert len(read(run, "consumer report O")) == 4
    assert "c " in run("consumer report O")
    run("consumer rm O d --force")
    assert "consumer ls STREAM` lists" in run("consumer info O d", code=1)
    assert "CONSUMER is missing" in run("consumer add O", code=2)


def test_messages_are_taken_from_a_consumer(run: Run, js: JetStream) -> None:
    js.create_stream({"name": "O", "subjects": ["o.*"]})
    fill(js)
    run("consumer add O c --wait 1m")
    assert run("consumer next O c --count 2 --raw") == "1\n2\n"
    taken = json.loads(run("consumer next O c --nak --json"))
    assert (taken["seq"], taken["deliveries"], taken["pending"]) == (3, 1, 27)
    assert "[3] o.0, delivery 2" in run("consumer next O c")
    assert read(run, "consumer state O c")["ack_floor"]["stream_seq"] == 3
    assert read(run, "consumer pause O c 1h --force")["paused"] is True
    assert "had no message" in run("consumer next O c --wait 100ms", code=1)
    assert "c delivers" in run("consumer resume O c --force")
    assert run("consumer next O c --raw") == "4\n"
    assert "goes on at 2" in run("consumer reset O c --sequence 2 --force")
    assert run("consumer next O c --raw") == "2\n"


def test_a_bucket_is_used_from_the_command_line(run: Run) -> None:
    made = read(run, "kv add b --history 3 --ttl 1h --description words")
    assert (made["config"]["max_msgs_per_subject"], made["config"]["max_age"]) == (3, 3600 * 10**9)
    assert run("kv put b k one") == "1\n"
    assert run("kv update b k two 1") == "2\n"
    assert "wrong last sequence" in run("kv update b k three 1", code=1)
    assert "has a key 'k' already" in run("kv create b k four", code=1)
    assert run("kv create b l five") == "3\n"
    assert run("kv get b k --raw") == "two"
    assert read(run, "kv get b k --revision 1")["value"] == "one"
    assert run("kv revert b k 1 --force") == "4\n"
    assert run("kv ls b") == "k\nl\n"
    assert "five" in run("kv ls b --verbose --display-value")
    assert run("kv ls --names") == "b\n"
    run("kv del b l --force")
    assert "has no key 'l'" in run("kv get b l", code=1)
    assert [row["operation"] for row in read(run, "kv history b l")] == ["PUT", "DEL"]
    lines = run("kv watch b --history --count 5 --json").splitlines()
    assert [json.loads(line)["revision"] for line in lines] == [1, 2, 3, 4, 5]
    run("kv purge b k --force")
    assert "2 deleted keys are gone" in run("kv compact b --force")
    assert read(run, "kv edit b --history 5")["config"]["max_msgs_per_subject"] == 5
    assert "words" in run("kv info b")
    run("kv del b --force")
    assert "No buckets" in run("kv ls")


def test_an_object_store_is_used_from_the_command_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = bytes(range(256)) * 1_000
    (tmp_path / "f").write_bytes(data)
    assert read(run, "object add o --description files")["config"]["name"] == "OBJ_o"
    put = read(run, "object put o f --name g --header A:b --chunk-size 10K --no-progress")
    assert (put["size"], put["chunks"], put["headers"]) == (len(data), 25, {"A": ["b"]})
    assert "use --force" in run("object put o f --name g", code=2)
    assert "g: " in run("object get o g --no-progress")
    assert (tmp_path / "g").read_bytes() == data
    assert "use --force" in run("object get o g", code=2)
    assert "leads out" in run("object get o ../g", code=2)
    assert run("object ls o --names") == "g\n"
    assert "SHA-256=" in run("object info o g")
    assert json.loads(run("object watch o --count 1 --json"))["name"] == "g"
    run("object rm o g --force")
    assert "has no object 'g'" in run("object get o g --force", code=1)
    run("object seal o --force")
    assert "files" in run("object info o")
    assert run("object ls --names") == "o\n"
    run("object rm o --force")
