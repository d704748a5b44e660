"""Backups of nats-server are restored here: messages, deletions, configurations, and where consumers stand."""

import time
from pathlib import Path
from typing import Any

import pytest

from conform.conftest import StartServer
from conform.jetstream.api import Api
from tidelog.client.connection import connect
from tidelog.client.jetstream import JetStream
from tidelog.client.jetstream.backup import back_up, restore
from tidelog.testing.peer import ServerProcess

# What is about this moment, what an archive does not say, and, of messages with headers, how much they take.
PASSING = ("ts", "last_active", "cluster", "api", "created", "bytes", "last_ts")


def move(theirs: ServerProcess, ours: ServerProcess, name: str, directory: Path) -> None:
    with connect(theirs.url) as connection:
        back_up(JetStream(connection), name, directory)
    with connect(ours.url) as connection:
        restore(JetStream(connection), directory)


def lasting(document: dict[str, Any]) -> dict[str, Any]:
    return {
        key: lasting(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if key not in PASSING and not key.startswith("_nats.")
    }


def stream_info(api: Api, name: str = "S") -> dict[str, Any]:
    found = api.ask(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})
    return lasting(found)


def consumer_info(api: Api, consumer: str) -> dict[str, Any]:
    return lasting(api.ask(f"CONSUMER.INFO.S.{consumer}"))


def messages(api: Api, last_seq: int) -> list[Any]:
    return [api.ask("STREAM.MSG.GET.S", {"seq": seq}) for seq in range(1, last_seq + 1)]


def fetch(api: Api, consumer: str, count: int) -> list[tuple[str, bytes]]:
    """Reply subject and payload of each."""
    body = b'{"batch":%d,"no_wait":true}' % count
    api.socket.sendall(
        b"PUB $JS.API.CONSUMER.MSG.NEXT.S.%b _I.x %d\r\n%b\r\n" % (consumer.encode(), len(body), body)
    )
    found = []
    for _ in range(count):
        line = b""
        while not line.startswith((b"MSG", b"HMSG")):
            line = api.input.readline()
        words = line.split()
        data = api.input.read(int(words[-1]) + 2)[:-2]
        if len(words) == 4 or (words[2] == b"1" and words[3][:1] != b"$"):
            break
        found.append((words[3].decode(), data[int(words[-2]) if line[:1] == b"H" else 0 :]))
    return found


def acknowledge(api: Api, reply: str, body: bytes = b"+ACK") -> None:
    assert api.request(reply, body) == b""


def publish(api: Api, number: int, header: bytes = b"") -> None:
    payload = b"%d " % number * (number % 40 + 1)
    assert b'"seq"' in api.request(f"s.{number % 7}.x", payload, header)


@pytest.fixture
def pair(
    start_peer: StartServer, start_ours: StartServer, tmp_path: Path
) -> tuple[ServerProcess, ServerProcess]:
    theirs = start_peer(flags=["-js", "-sd", str(tmp_path / "theirs")])
    ours = start_ours(flags=["-js", "-sd", str(tmp_path / "ours")])
    return theirs, ours


@pytest.mark.parametrize("compression", ["none", "s2"])
def test_messages_and_what_was_deleted(
    pair: tuple[ServerProcess, ServerProcess], tmp_path: Path, compression: str
) -> None:
    theirs, ours = pair
    config = {
        "name": "S",
        "subjects": ["s.>"],
        "storage": "file",
        "compression": compression,
        "max_msgs": 300,
        "allow_msg_ttl": True,
        "metadata": {"for": "a test"},
    }
    with Api(theirs.port) as api:
        assert "error" not in api.ask("STREAM.CREATE.S", config)
        for number in range(400):
            publish(api, number, b"NATS/1.0\r\nA: %d\r\nB: x\r\n\r\n" % number if number % 3 == 0 else b"")
        publish(api, 400, b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n")
        publish(api, 401, b"NATS/1.0\r\nNats-TTL: 2s\r\n\r\n")
        for seq in (150, 151, 200, 402):
            assert api.ask("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": seq != 200})["success"]
        assert api.ask("STREAM.PURGE.S", {"filter": "s.3.x", "keep": 5})["success"]
        before, there = stream_info(api), messages(api, 405)
    move(theirs, ours, "S", tmp_path / "backup")
    with Api(ours.port) as api:
        assert stream_info(api) == before
        assert messages(api, 405) == there
        time.sleep(2.5)
        publish(api, 402)
        assert api.ask("STREAM.INFO.S")["state"]["last_seq"] == before["state"]["last_seq"] + 1
    ours.stop()
    ours.start()
    with Api(ours.port) as api:
        assert messages(api, 400)[100:] == there[100:400]


def test_where_consumers_stand(pair: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> None:
    theirs, ours = pair
    with Api(theirs.port) as api:
        api.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "file"})
        for number in range(50):
            publish(api, number)
        for name, fields in (
            ("each", {"ack_wait": 1_000_000_000, "max_deliver": 5}),
            ("all", {"ack_policy": "all", "filter_subject": "s.1.x"}),
            ("none", {"ack_policy": "none"}),
            ("new", {"deliver_policy": "new", "description": "nothing yet"}),
        ):
            durable = {"durable_name": name, "ack_policy": "explicit", **fields}
            assert "error" not in api.ask(
                f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": durable}
            )
        got = fetch(api, "each", 10)
        for reply, _ in (*got[:3], *got[5:8]):
            acknowledge(api, reply)
        acknowledge(api, got[4][0], b"-NAK")
        ((again, _),) = fetch(api, "each", 1)
        assert again.split(".")[4] == "2"
        acknowledge(api, fetch(api, "all", 4)[2][0])
        assert len(fetch(api, "none", 5)) == 5
        time.sleep(0.3)
        before = {name: consumer_info(api, name) for name in ("each", "all", "none", "new")}
    move(theirs, ours, "S", tmp_path / "backup")
    with Api(ours.port) as api:
        for name, info in before.items():
            ours_info = consumer_info(api, name)
            for place in ("delivered", "ack_floor"):
                assert lasting(ours_info[place]) == lasting(info[place]), name
            for key in ("config", "num_pending", "num_ack_pending", "num_redelivered"):
                assert ours_info[key] == info[key], (name, key)
        time.sleep(1.5)
        late = sorted(
            (int(reply.split(".")[5]), int(reply.split(".")[4])) for reply, _ in fetch(api, "each", 4)
        )
        assert late == [(4, 2), (5, 3), (9, 2), (10, 2)]
        assert fetch(api, "each", 1)[0][0].split(".")[5] == "11"
        assert fetch(api, "none", 1)[0][0].split(".")[5] == "6"


def test_a_large_backup(pair: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> None:
    """Over many blocks, of what compresses and what does not."""
    theirs, ours = pair
    with Api(theirs.port) as api:
        api.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "file"})
        for number in range(200):
            payload = (b"%d," % number * 40_000 if number % 2 else bytes(range(256)) * 400)[:100_000]
            api.request("s.x", payload)
        there = messages(api, 200)
    move(theirs, ours, "S", tmp_path / "backup")
    with Api(ours.port) as api:
        assert messages(api, 200) == there
