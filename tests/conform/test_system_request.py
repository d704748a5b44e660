"""Requests on `$SYS.REQ.` to the original, and the same to our desk: the same envelopes and documents."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.base.clock import SystemClock
from tidelog.base.errors import ClientError
from tidelog.broker.broker import Broker
from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Permissions,
    ResponseRights,
    SubjectRights,
    User,
)
from tidelog.client import connect
from tidelog.client.connection import Connection
from tidelog.serve.log import Logger, NullSink
from tidelog.serve.monitor.desk import Monitor
from tidelog.serve.monitor.state import ServerState
from tidelog.serve.monitor.system import Asker, SystemDesk
from tidelog.serve.options import Options
from tidelog.testing.peer import ServerProcess
from tidelog.wire.handshake import Info

CONFIG = """
server_name: s1
accounts {
  A { users: [{user: a, password: a, permissions: {
      publish: ["$SYS.REQ.>"], subscribe: {allow: ["_INBOX.>"], deny: ["q.x"]}, allow_responses: {max: 3, expires: "5s"}
  }}] }
  $SYS { users: [{user: s, password: s}] }
}
server_tags: ["x:y"]
server_metadata: {k: v}
"""
RIGHTS = Permissions(
    publish=SubjectRights(allow=("$SYS.REQ.>",)),
    subscribe=SubjectRights(allow=("_INBOX.>",), deny=("q.x",)),
    responses=ResponseRights(3, 5_000_000_000),
)
SETTINGS = BrokerSettings(
    server_name="s1",
    authorization=Authorization(users=(User("a", "a", account="A"), User("s", "s", account="$SYS"))),
    accounts=(AccountSettings("A"), AccountSettings("$SYS")),
    tags=("x:y",),
    metadata=(("k", "v"),),
)
ASKERS = {"a": Asker("A", "a", RIGHTS), "s": Asker("$SYS", "s")}


@pytest.fixture(scope="module")
def clients(peer_argv: list[str]) -> Iterator[dict[str, Connection]]:
    with ServerProcess(peer_argv, config=CONFIG) as server:
        opened = {name: connect(f"nats://{name}:{name}@127.0.0.1:{server.port}", name="n") for name in ASKERS}
        for client in opened.values():
            client.request("$SYS.REQ.USER.INFO")  # the first request subscribes
        yield opened
        for client in opened.values():
            client.close()


@pytest.fixture(scope="module")
def desk() -> SystemDesk:
    clock, log = SystemClock(), Logger(NullSink())
    info = Info(
        server_id="N" * 56, server_name="s1", version="2.15.1", proto=1, go="python3", host="127.0.0.1", port=4222,
        headers=True, max_payload=1048576,
    )  # fmt: skip
    broker = Broker(SETTINGS, info, clock=clock, log=log)
    for name in ASKERS:
        session = broker.open_session(None, "127.0.0.1", 50000)
        broker.greet(session)
        options = {
            "user": name,
            "pass": name,
            "lang": "python3",
            "version": "1",
            "name": "n",
            "verbose": False,
        }
        session.receive(b"CONNECT " + json.dumps(options).encode() + b"\r\nSUB _INBOX.x.* 1\r\n")
    state = ServerState(
        options=Options(broker=SETTINGS, host="127.0.0.1", config_digest="sha256:0"),
        server_id="N" * 56, version="2.15.1", runtime="python3", port=4222, start_ns=1, config_load_ns=1,
    )  # fmt: skip
    return SystemDesk(Monitor(state, broker, clock, log))


# What the original has and we do not.
THEIR_OWN = {"git_commit", "feature_flags", "imports", "exports"}


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, shape(part)) for key, part in value.items() if key not in THEIR_OWN]
    if isinstance(value, list):
        # Which shapes there are: the original lists subscriptions in any order.
        return ["list", *sorted({repr(shape(part)) for part in value})]
    if isinstance(value, bool) or value is None:
        return repr(value)
    return "number" if isinstance(value, int | float) else "text"


def ask_both(
    clients: dict[str, Connection], desk: SystemDesk, name: str, subject: str, body: bytes
) -> tuple[Any, Any]:
    """Answers as documents; None for silence."""
    try:
        theirs = json.loads(clients[name].request(subject, body, timeout_s=0.3).payload)
    except ClientError:
        theirs = None
    ours = desk.answer(subject, body, ASKERS[name])
    return json.loads(ours) if ours is not None else None, theirs


@pytest.mark.parametrize(
    ("name", "subject", "body"),
    [
        ("s", "SERVER.PING", b""),
        ("s", "SERVER.PING.STATSZ", b"{}"),
        ("s", "SERVER.PING.IDZ", b""),
        ("s", "SERVER.PING.VARZ", b"{}"),
        ("s", "SERVER.PING.VARZ", b'{"server_name":"zz"}'),
        ("s", "SERVER.PING.VARZ", b'{"server_name":"s","tags":["X:Y"]}'),
        ("s", "SERVER.PING.CONNZ", b'{"limit":1}'),
        ("s", "SERVER.PING.CONNZ", b'{"subscriptions_detail":true,"auth":true,"sort":"uptime"}'),
        ("s", "SERVER.PING.CONNZ", b'{"state":1}'),
        ("s", "SERVER.PING.CONNZ", b'{"sort":"xx"}'),
        ("s", "SERVER.PING.CONNZ", b'{"limit":"a"}'),
        ("s", "SERVER.PING.CONNZ", b"{x"),
        ("s", "SERVER.PING.SUBSZ", b""),
        ("s", "SERVER.PING.HEALTHZ", b""),
        ("s", "SERVER.PING.HEALTHZ", b'{"details":true,"stream":"x"}'),
        ("s", "SERVER.PING.JSZ", b""),
        ("s", "SERVER.PING.JSZ", b'{"leader_only":true}'),
        ("s", "SERVER.PING.ACCOUNTZ", b""),
        ("s", "SERVER.PING.ACCOUNTZ", b'{"account":"A"}'),
        ("s", "SERVER.PING.ACCOUNTZ", b'{"account":"zz"}'),
        ("s", "SERVER.PING.ROUTEZ", b""),
        ("s", "SERVER.PING.LEAFZ", b""),
        ("s", "SERVER.PING.GATEWAYZ", b""),
        ("s", "SERVER.PING.NOPE", b""),
        ("s", "ACCOUNT.A.CONNZ", b""),
        ("s", "ACCOUNT.A.INFO", b""),
        ("s", "ACCOUNT.zz.INFO", b""),
        ("s", "ACCOUNT.A.STATZ", b""),
        ("s", "ACCOUNT.A.LEAFZ", b""),
        ("s", "ACCOUNT.PING.STATZ", b""),
        ("s", "USER.INFO", b""),
        ("a", "USER.INFO", b""),
        ("a", "SERVER.PING.CONNZ", b'{"limit":1}'),
        ("a", "ACCOUNT.PING.CONNZ", b""),
        ("a", "ACCOUNT.PING.STATZ", b""),
        ("a", "SERVER.PING.VARZ", b""),
        ("a", "ACCOUNT.A.STATZ", b""),
    ],
)
def test_answers_have_the_same_shape(
    clients: dict[str, Connection], desk: SystemDesk, name: str, subject: str, body: bytes
) -> None:
    ours, theirs = ask_both(clients, desk, name, f"$SYS.REQ.{subject}", body)
    assert shape(ours) == shape(theirs)
    if theirs is not None and "error" in theirs:
        assert ours["error"]["code"] == theirs["error"]["code"]
        if theirs["error"]["code"] == 500:
            assert ours["error"] == theirs["error"]


@pytest.mark.parametrize("name", sorted(ASKERS))
def test_user_info_is_the_same(clients: dict[str, Connection], desk: SystemDesk, name: str) -> None:
    ours, theirs = ask_both(clients, desk, name, "$SYS.REQ.USER.INFO", b"")
    assert ours["data"] == theirs["data"]
