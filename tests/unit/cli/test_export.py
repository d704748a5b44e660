"""`tidelog export` against a server in this process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.base.instant import instant_ns, read_instant, timestamp
from tidelog.cli import command
from tidelog.client.jetstream import JetStream, Publisher, StreamReader
from tidelog.client.jetstream.own import log_info
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import open_bucket
from tidelog.testing import Server

COUNT = 500


@pytest.fixture(scope="module")
def js(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStream]:
    with Server(flags=["-js", "-sd", str(tmp_path_factory.mktemp("store"))]) as server:
        js = JetStream(server.connect())
        js.create_stream({"name": "S", "subjects": ["s.>"], "storage": "file", "allow_direct": True})
        fill(js, 0, COUNT)
        js.delete_message("S", 7)
        yield js


@pytest.fixture(autouse=True)
def found_by_url(js: JetStream, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = js.connection.info["host"], js.connection.info["port"]
    monkeypatch.setenv("NATS_URL", f"nats://{host}:{port}")


def fill(js: JetStream, start: int, count: int) -> None:
    publisher = Publisher(js.connection)
    for number in range(start, start + count):
        publisher.publish(
            f"s.{number % 5}", b"%d" % number, headers={"N": str(number)} if number % 2 else None
        )
    publisher.flush()
    publisher.close()


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert command.run(["export", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_plain_files_and_what_came_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, "S", str(tmp_path), "--end-seq", "100")
    assert (said["start_seq"], said["end_seq"], said["messages"], said["files"]) == (1, 100, 98, 1)
    said = asked(capsys, "S", str(tmp_path))
    assert (said["start_seq"], said["end_seq"], said["messages"]) == (100, COUNT + 1, COUNT + 1 - 100)
    assert asked(capsys, "S", str(tmp_path))["files"] == 0
    table = pq.read_table(tmp_path)
    assert table["seq"].to_pylist() == [seq for seq in range(1, COUNT + 1) if seq != 7]
    assert table["payload"].to_pylist()[:3] == [b"0", b"1", b"2"]
    assert table["headers"].to_pylist()[1] == b"NATS/1.0\r\nN: 1\r\n\r\n"


def test_the_layout_of_the_cold_tier(
    js: JetStream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = asked(capsys, "S", f"file://{tmp_path}/cold", "--format", "cold", "--start-seq", "50")
    assert (said["start_seq"], said["end_seq"]) == (50, COUNT + 1)
    info = log_info(js, "S")
    archive = Archive(open_bucket(f"file://{tmp_path}/cold"), Place("$G", "S", bytes.fromhex(info.log_id)))
    assert (archive.manifest.start_seq, archive.manifest.end_seq) == (50, COUNT + 1)
    tables = [archive.read(entry) for entry in archive.manifest.entries]
    assert pa.concat_tables(tables)["seq"].to_pylist() == list(range(50, COUNT + 1))


def test_by_time_and_subject(js: JetStream, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = list(StreamReader(js, "S").forward())
    since, until = messages[100].time, messages[200].time
    first, last = (instant_ns(read_instant(time)) for time in (since, until))
    wanted = [
        message.seq
        for message in messages
        if first <= instant_ns(read_instant(message.time)) <= last and message.subject in ("s.1", "s.3")
    ]
    words = ["--since", since, "--until", until, "--subject", "s.1", "--subject", "s.3"]
    asked(capsys, "S", str(tmp_path / "a"), *words)
    assert pq.read_table(tmp_path / "a")["seq"].to_pylist() == wanted
    later = timestamp(last + 3600 * 10**9)
    assert asked(capsys, "S", str(tmp_path / "b"), "--since", later)["messages"] == 0


def test_a_range_beyond_the_end_claims_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, "S", str(tmp_path), "--end-seq", "100000")
    assert (said["end_seq"], said["messages"]) == (COUNT + 1, COUNT - 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{1:020d}-{COUNT + 1:020d}.parquet"]


def test_what_is_there_already_must_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(capsys, "S", str(tmp_path), "--start-seq", "100", "--end-seq", "200")
    assert asked(capsys, "S", str(tmp_path), "--start-seq", "150", "--end-seq", "300")["start_seq"] == 200
    assert command.run(["export", "S", str(tmp_path), "--start-seq", "50"]) == 1
    assert "has [100, 300) already, which 50 is not in" in capsys.readouterr().err
    assert command.run(["export", "S", str(tmp_path), "--subject", "s.1"]) == 1
    assert "was exported with the filters ''" in capsys.readouterr().err


def test_messages_that_went_in_between_are_told(
    js: JetStream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    js.create_stream({"name": "T", "subjects": ["t"], "storage": "memory", "max_msgs": 3})
    for _ in range(2):
        js.publish("t", b"")
    assert asked(capsys, "T", str(tmp_path))["end_seq"] == 3
    for _ in range(6):
        js.publish("t", b"")
    said = asked(capsys, "T", str(tmp_path), code=1)
    assert (said["start_seq"], said["end_seq"], said["trimmed"]) == (3, 9, [[3, 5]])
    assert pq.read_table(tmp_path)["seq"].to_pylist() == [1, 2, 6, 7, 8]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["NONE", "x"], 1, "stream not found"),
        (["S", "ftp://x"], 1, "is no object store"),
        (["S", "x", "--format", "cold", "--subject", "a"], 2, "every message of a range"),
        (["S", "x", "--since", "1h", "--start-seq", "4"], 2, "exclude each other"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str],
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.run(["export", *words]) == code
    assert told in capsys.readouterr().err
