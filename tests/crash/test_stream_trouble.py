"""Bad days of a server with streams: what clients and the operator are told, and what is there afterwards."""

import json
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conform.jetstream.api import Api
from crash.bystander import Bystander
from crash.conftest import StartServer
from tidelog.testing.peer import ServerProcess, tidelog_argv

FILE = {"name": "S", "subjects": ["s.>"], "storage": "file"}
MEMORY = {**FILE, "storage": "memory"}
CONSUMER = {"durable_name": "c", "ack_policy": "explicit"}
# A file system of its own, and so small that it is soon full.
SMALL = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"']


def store(tmp_path: Path) -> list[str]:
    return ["-js", "-sd", str(tmp_path)]


def publish(api: Api, payload: bytes = b"x", subject: str = "s.a") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(api.request(subject, payload))
    return answer


def consumer(api: Api, name: str = "c", **fields: Any) -> dict[str, Any]:
    config = {**CONSUMER, "durable_name": name, **fields}
    answer: dict[str, Any] = api.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    return answer


def state(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.ask("STREAM.INFO.S")["state"]
    return found


def kill(server: ServerProcess) -> None:
    server.signal(signal.SIGKILL)
    server.wait()


# ---- room ----


def can_mount(tmp_path: Path) -> bool:
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*SMALL, str(tmp_path), "true"], capture_output=True, check=False).returncode
    )


def test_a_full_disk_refuses_messages_until_there_is_room(start: StartServer, tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("no file system of one's own can be mounted here")
    argv = [*SMALL, str(tmp_path), *tidelog_argv()]
    server = start(argv=argv, config="jetstream { max_file: 1G }", flags=store(tmp_path))
    # The server's own file system, as it sees it.
    other = Path(f"/proc/{server.pid}/root{tmp_path}/other")
    other.write_bytes(bytes(4 << 20))
    with Bystander(server), Api(server.port) as api, Api(server.port, "late") as late:
        api.ask("STREAM.CREATE.S", FILE)
        stored = 0
        full = False
        while not full:
            late.socket.sendall(b"PUB s.a late.x 64000\r\n%b\r\n" % bytes(64_000))
            stored += 1
            assert stored < 1_000
            # One that was accepted when there was no room for it is answered when there is.
            full = not select.select([late.socket], [], [], 1.0)[0]
            assert full or json.loads(late.next()) == {"stream": "S", "seq": stored}
        assert stored > 20
        server.wait_for_log("Stream $G > S takes no messages: the disk is full")
        refused = publish(api)["error"]
        assert refused["code"] == 503
        assert refused["description"].startswith("the disk is full")
        assert "message" in api.ask("STREAM.MSG.GET.S", {"seq": 1})
        other.unlink()
        server.wait_for_log("Stream $G > S takes messages again")
        assert json.loads(late.next())["seq"] == stored
        assert publish(api)["seq"] == stored + 1


def test_memory_has_a_limit_and_what_is_over_it_is_refused(start: StartServer, tmp_path: Path) -> None:
    server = start(config="jetstream { max_mem: 1M }", flags=store(tmp_path))
    with Bystander(server), Api(server.port) as api:
        api.ask("STREAM.CREATE.S", MEMORY)
        stored = 0
        while "error" not in (answer := publish(api, b"x" * 10_000)):
            stored = answer["seq"]
            assert stored < 200
        assert 90 < stored < 110
        assert answer["error"]["description"] == "insufficient resources"
        server.wait_for_log("JetStream memory resource limits exceeded for server")
        assert state(api)["messages"] == stored
        api.ask("STREAM.PURGE.S")
        assert "error" not in publish(api)


# ---- consumers ----


def test_messages_of_a_client_that_vanished_go_to_another(start: StartServer, tmp_path: Path) -> None:
    server = start(flags=store(tmp_path))
    with Api(server.port) as api:
        api.ask("STREAM.CREATE.S", MEMORY)
        consumer(api, ack_wait=200_000_000)
        with Api(server.port, "gone") as vanishing:
            request = b'{"batch":5}'
            vanishing.socket.sendall(
                b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c gone.x %d\r\n%b\r\nPING\r\n" % (len(request), request)
            )
            while not vanishing.input.readline().startswith(b"PONG"):
                pass
            api.socket.sendall(b"PUB s.a 1\r\n1\r\n")
            assert vanishing.next() == b"1"
        # It goes without a word, with a request for four more.
        publish(api, b"2")
        api.socket.sendall(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.c _I.x 11\r\n{"batch":2}\r\n')
        assert sorted([api.next(), api.next()]) == [b"1", b"2"]
        found = api.ask("CONSUMER.INFO.S.c")
        assert (found["num_waiting"], found["num_ack_pending"], found["num_redelivered"]) == (0, 2, 1)


def test_a_state_that_is_spoilt_costs_deliveries_and_nothing_else(start: StartServer, tmp_path: Path) -> None:
    server = start(flags=store(tmp_path))
    with Api(server.port) as api:
        api.ask("STREAM.CREATE.S", FILE)
        consumer(api)
        publish(api, b"1")
        api.socket.sendall(b"SUB acks 2\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.c _I.x 0\r\n\r\n")
        assert api.next() == b"1"
        assert api.request("$JS.ACK.S.c.1.1.1.0.0") == b""
    server.signal(signal.SIGTERM)
    server.wait()
    states = list(tmp_path.rglob("state.*"))
    assert states
    for path in states:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = start(flags=store(tmp_path))
    again.wait_for_log("its checksum is wrong")
    again.wait_for_log("everything is delivered again")
    with Api(again.port) as api:
        assert api.ask("CONSUMER.INFO.S.c")["num_pending"] == 1
        api.socket.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c _I.x 0\r\n\r\n")
        assert api.next() == b"1"


# ---- directories ----


@contextmanager
def running(start: StartServer, directory: Path) -> Iterator[tuple[ServerProcess, Api]]:
    server = start(flags=store(directory))
    with Api(server.port) as api:
        yield server, api
    server.signal(signal.SIGTERM)
    server.wait()


def test_a_directory_from_elsewhere_is_a_stream_here(start: StartServer, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with running(start, there) as (_, api):
        api.ask("STREAM.CREATE.S", FILE)
        consumer(api)
        for _ in range(3):
            publish(api)
    with running(start, here) as (_, api):
        api.ask("STREAM.CREATE.T", {**FILE, "name": "T", "subjects": ["t"]})
    streams = Path("jetstream", "$G", "streams")
    shutil.copytree(there / streams / "S", here / streams / "S")
    with running(start, here) as (_, api):
        assert api.ask("STREAM.NAMES")["streams"] == ["S", "T"]
        assert state(api)["messages"] == 3
        assert api.ask("CONSUMER.INFO.S.c")["num_pending"] == 3
    # Once more, beside the one that is there: one of them is taken, and the other is told of and left.
    shutil.copytree(there / streams / "S", here / streams / "S-copy")
    with running(start, here) as (server, api):
        server.wait_for_log("a stream 'S' of $G is here already")
        assert api.ask("STREAM.NAMES")["streams"] == ["S", "T"]
        assert state(api)["messages"] == 3
    assert (here / streams / "S-copy" / "meta.json").exists()


def test_a_second_server_on_the_same_store_refuses(start: StartServer, tmp_path: Path) -> None:
    server = start(flags=store(tmp_path))
    with Bystander(server), Api(server.port) as api:
        api.ask("STREAM.CREATE.S", FILE)
        second = subprocess.run(
            [*tidelog_argv(), "-a", "127.0.0.1", "-p", "-1", *store(tmp_path)],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert second.returncode == 1
        assert f"is in use by process {server.pid}: one process at a time opens a store" in second.stderr
        assert "Traceback" not in second.stderr
        assert publish(api)["seq"] == 1
    kill(server)
    again = start(flags=store(tmp_path))
    with Api(again.port) as api:
        assert state(api)["messages"] == 1
