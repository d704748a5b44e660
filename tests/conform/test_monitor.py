"""The same traffic through the original and through us: the same documents, the same counters.

Compared are keys, their order, the kinds of values, and every number that the traffic determines.
"""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tidelog.testing.peer import ServerProcess, tidelog_argv

CONFIG = """
accounts {
  A { users: [{user: a, password: a}], mappings: {src: dst} }
  B { users: [{user: b, password: b}] }
}
server_tags: ["x:y"]
server_metadata: {k: v}
"""


def connect(user: str) -> bytes:
    options = {"verbose": False, "pedantic": False, "user": user, "pass": user, "name": f"{user}{user}"}
    options |= {"lang": "python3", "version": "1.2.3", "protocol": 1, "headers": True}
    return b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n"


# Who says what, in two parts: the original counts what comes in one burst with CONNECT for the wrong account.
# Each part ends with a PING, so its PONG tells that all of it has been done.
STAYS = (
    connect("a"),
    b"SUB foo.* q 1\r\nSUB bar 2\r\nSUB lim 3\r\nUNSUB 3 5\r\nSUB gone 4\r\nUNSUB 4\r\n"
    b"PUB foo.x 5\r\nhello\r\nPUB foo.x 5\r\nhello\r\nPUB foo.x 5\r\nhello\r\n"
    b"HPUB bar 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nxx\r\n"
    b"PUB nobody 1\r\nx\r\nPUB lim 4\r\nlast\r\nPING\r\n",
)
LEAVES = connect("b"), b"SUB here 1\r\nPUB here 3\r\nabc\r\nPING\r\n"
OTHER = connect("a"), b"PUB bar 2\r\nhi\r\nPING\r\n"

Ask = Callable[[str], tuple[int, str]]


def wait_for_pong(sock: socket.socket) -> None:
    received = b""
    while b"PONG\r\n" not in received:
        part = sock.recv(65536)
        assert part, received
        received += part


@pytest.fixture(scope="module")
def theirs(peer_argv: list[str]) -> Iterator[Ask]:
    yield from visited(peer_argv)


@pytest.fixture(scope="module")
def ours() -> Iterator[Ask]:
    yield from visited(tidelog_argv())


def visited(argv: list[str]) -> Iterator[Ask]:
    """A server that the three have visited; the second has left again."""
    with ServerProcess(argv, config=CONFIG) as server, ExitStack() as opened:
        sockets = []
        for script in (STAYS, LEAVES, OTHER):
            sock = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            sockets.append(sock)
            for part in script:
                sock.sendall(part)
                wait_for_pong(sock)
        sockets[1].close()

        def ask(target: str) -> tuple[int, str]:
            try:
                url = f"http://127.0.0.1:{server.monitor_port}{target}"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        deadline = time.monotonic() + 5
        while json.loads(ask("/connz?state=closed")[1])["total"] < 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield ask


# What the original has and we do not: its commit, switches for features, and the services of `$SYS`.
THEIR_OWN = {"git_commit", "feature_flags", "imports", "exports"}


def shape(value: Any) -> Any:
    """Keys in their order, and the kind of every value. Maps from names keep their kind only."""
    if isinstance(value, dict):
        return [
            (key, "map" if key in ("http_req_stats", "metadata") else shape(part))
            for key, part in value.items()
            if key not in THEIR_OWN
        ]
    if isinstance(value, list):
        # Which shapes there are: the original lists subscriptions in any order.
        return ["list", *sorted({repr(shape(part)) for part in value})]
    if isinstance(value, bool) or value is None:
        return repr(value)
    return "number" if isinstance(value, int | float) else "text"


@pytest.mark.parametrize(
    "target",
    [
        "/varz",
        "/connz",
        "/connz?subs=1",
        "/connz?subs=detail&auth=1",
        "/connz?state=closed",
        "/connz?state=closed&subs=detail&auth=1",
        "/connz?state=all&sort=uptime",
        "/connz?offset=1&limit=1",
        "/connz?state=closed&cid=1",
        "/subsz",
        "/subsz?subs=1&acc=A&test=foo.x",
        "/accountz",
        "/accountz?acc=A",
        "/accountz?acc=$SYS",
        "/accstatz",
        "/accstatz?unused=1",
        "/healthz",
        "/healthz?details=1",
        "/healthz?stream=x",
        "/healthz?account=a&consumer=x&details=true",
        "/routez",
        "/leafz",
        "/gatewayz",
        "/jsz",
        "/jsz?streams=1&config=1",
        "/ipqueuesz",
    ],
)
def test_documents_have_the_same_shape(theirs: Ask, ours: Ask, target: str) -> None:
    their_status, their_body = theirs(target)
    our_status, our_body = ours(target)
    assert our_status == their_status
    assert shape(json.loads(our_body)) == shape(json.loads(their_body))


@pytest.mark.parametrize(
    "target",
    [
        "/connz?auth=ja",
        "/connz?subs=x",
        "/connz?offset=1.5",
        "/connz?limit=99999999999999999999999",
        "/connz?cid=-3",
        "/connz?state=x",
        "/connz?sort=xx",
        "/connz?sort=stop",
        "/connz?sort=reason&state=all",
        "/connz?sort=xx&state=x&cid=x&limit=x",
        '/connz?auth=%22a%5C',
        "/subsz?subs=2",
        "/subsz?limit=a&offset=b",
        "/subsz?test=a.*",
        "/subsz?test=a..b",
        "/accountz?acc=zz",
        "/accstatz?unused=maybe",
        "/routez?subs=x",
        "/leafz?subs=detail",
        "/gatewayz?accs=x",
        "/jsz?limit=x&accounts=y",
        "/jsz?leader-only=1",
        "/healthz?details=x",
        "/healthz?stream=x",
        "/healthz?account=a&consumer=x",
        "/healthz?account=a&consumer=x&details=1",
        "/healthz",
        "/ipqueuesz?all=x",
        "/raftz",
        "/nope",
    ],
)  # fmt: skip
def test_answers_are_the_same_to_the_letter(theirs: Ask, ours: Ask, target: str) -> None:
    assert ours(target) == theirs(target)


EXACT = (
    "in_msgs",
    "out_msgs",
    "in_bytes",
    "out_bytes",
    "subscriptions",
    "kind",
    "type",
    "name",
    "lang",
    "version",
)


def test_connections_count_exactly(theirs: Ask, ours: Ask) -> None:
    def counted(ask: Ask) -> list[dict[str, Any]]:
        document = json.loads(ask("/connz?state=all&subs=detail&auth=1")[1])
        for connection in document["connections"]:
            for detail in (details := connection.get("subscriptions_list_detail", [])):
                detail.pop("cid")
            details.sort(key=lambda detail: str(detail["sid"]))
        keys = (*EXACT, "reason", "authorized_user", "account", "name_tag", "subscriptions_list_detail")
        return [{key: connection.get(key) for key in keys} for connection in document["connections"]]

    assert counted(ours) == counted(theirs)
    assert len(counted(ours)) == 3


def test_server_and_accounts_count_exactly(theirs: Ask, ours: Ask) -> None:
    def counted(ask: Ask) -> dict[str, Any]:
        varz = json.loads(ask("/varz")[1])
        accounts = json.loads(ask("/accstatz?unused=1")[1])["account_statz"]
        keys = (
            "connections",
            "total_connections",
            "slow_consumers",
            "stale_connections",
            "leafnodes",
            "routes",
        )
        volume = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "in_client_msgs", "out_client_msgs")
        found = {key: varz[key] for key in (*keys, *volume, "max_payload", "max_pending", "tags", "metadata")}
        for account in accounts:
            name = account["acc"]
            found |= {
                f"{name} {key}": account[key] for key in ("conns", "sent", "received", "slow_consumers")
            }
        return found

    assert counted(ours) == counted(theirs)
    assert counted(ours)["in_msgs"] == 8


def test_subscriptions_are_the_same_but_for_the_originals_own(theirs: Ask, ours: Ask) -> None:
    def listed(ask: Ask) -> list[tuple[Any, ...]]:
        document = json.loads(ask("/subsz?subs=1")[1])
        keys = ("account", "account_tag", "subject", "qgroup", "sid", "msgs", "max")
        return sorted(
            tuple(str(sub.get(key)) for key in keys)
            for sub in document["subscriptions_list"]
            if not sub["subject"].startswith("$SYS")
        )

    assert listed(ours) == listed(theirs)
    assert len(listed(ours)) == 3
