"""Requests and actions over NATS, asked of both servers in the same way."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.base.errors import ClientError, NoResponders, Timeout
from tidelog.client import connect
from tidelog.client.connection import Connection
from tidelog.testing.peer import ServerProcess, nats_server_path, tidelog_argv

CONFIG = """
accounts {
  A { users: [{user: a, password: a}] }
  $SYS { users: [{user: s, password: s}] }
}
"""


@pytest.fixture(params=["ours", "peer"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    argv = tidelog_argv() if request.param == "ours" else [str(nats_server_path())]
    with ServerProcess(argv, config=CONFIG) as process:
        yield process


def ask(server: ServerProcess, user: str, subject: str, body: object = None) -> dict[str, Any]:
    with connect(f"nats://{user}:{user}@127.0.0.1:{server.port}") as client:
        answer = client.request(subject, b"" if body is None else json.dumps(body).encode(), timeout_s=2.0)
        document: dict[str, Any] = json.loads(answer.payload)
        return document


def test_everybody_may_ask_who_they_are(server: ServerProcess) -> None:
    assert ask(server, "a", "$SYS.REQ.USER.INFO")["data"] == {
        "user": "a",
        "account": "A",
        "account_name": "A",
    }


def test_only_the_system_account_may_ask_about_the_server(server: ServerProcess) -> None:
    assert ask(server, "s", "$SYS.REQ.SERVER.PING.VARZ")["data"]["port"] == server.port
    with pytest.raises(NoResponders):
        ask(server, "a", "$SYS.REQ.SERVER.PING.VARZ")


def test_a_client_is_kicked(server: ServerProcess) -> None:
    server_id = ask(server, "s", "$SYS.REQ.SERVER.PING")["server"]["id"]
    with connect(f"nats://a:a@127.0.0.1:{server.port}") as client:
        answer = ask(server, "s", f"$SYS.REQ.SERVER.{server_id}.KICK", {"cid": client.info["client_id"]})
        assert "error" not in answer
        with pytest.raises(ClientError):
            ping_forever(client)
    assert "error" in ask(server, "s", f"$SYS.REQ.SERVER.{server_id}.KICK", {"cid": 999_999})


def ping_forever(client: Connection) -> None:
    for _ in range(1000):
        client.flush(1.0)


@pytest.mark.parametrize("headers", [{"A": "b"}, {"Nats-Trace-Only": "true"}, {"Nats-Trace-Only": "no"}])
def test_a_traced_message_tells_where_it_went(peer_argv: list[str], headers: dict[str, str]) -> None:
    assert traced(tidelog_argv(), headers) == traced(peer_argv, headers)


def traced(argv: list[str], headers: dict[str, str]) -> list[Any]:
    """Reports and deliveries of messages to two subscriptions, to nobody, and with a destination that cannot be."""
    with ServerProcess(argv) as server, connect(server.url, name="tester") as client:
        reports, plain = client.subscribe("reports"), client.subscribe("a.*")
        member = client.subscribe("a.b", queue="q")
        for subject, destination in (
            ("a.b", "reports"),
            ("x", "reports"),
            ("a.b", "not valid"),
            ("a.c", "reports"),
        ):
            client.publish(subject, b"hi", headers={"Nats-Trace-Dest": destination, **headers})
        client.flush()
        found: list[Any] = []
        for subscription in (reports, plain, member):
            messages = []
            with contextlib.suppress(Timeout):
                while True:
                    messages.append(subscription.next(0.1).payload)
            found.append(messages)
        return [[comparable(json.loads(report)) for report in found[0]], found[1], found[2]]


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    del report["server"]
    for event in report["events"]:
        assert event.pop("ts").endswith("Z")
        assert event.pop("cid")
    return report


def test_reload_over_nats_lists_what_it_did() -> None:
    with ServerProcess(tidelog_argv(), config=CONFIG) as server:
        server_id = ask(server, "s", "$SYS.REQ.SERVER.PING")["server"]["id"]
        subject = f"$SYS.REQ.SERVER.{server_id}.RELOAD"
        server.write_config(CONFIG + "\nmax_payload: 1024\n")
        good = ask(server, "s", subject)
        assert "error" not in good
        assert any("max_payload" in line for line in good["data"]["applied"])
        server.write_config(CONFIG + "\nmax_payload: 1024\nhttp_base_path: /x\n")
        refused = ask(server, "s", subject)
        assert "http_base_path" in refused["error"]["description"] or refused["data"]["refused"]
        server.write_config("nonsense {")
        assert "Parse error" in ask(server, "s", subject)["error"]["description"]
        with connect(f"nats://a:a@127.0.0.1:{server.port}") as client:
            assert client.info["max_payload"] == 1024
