"""The synchronous client against a real server: every way in, and what only a whole server does."""

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.base.errors import Disconnected, NoResponders, ServerError
from tidelog.client import connect
from tidelog.testing.peer import ServerProcess

SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
PUBLIC = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"

Start = Callable[..., ServerProcess]


@pytest.fixture(params=["theirs", "ours"])
def start(request: pytest.FixtureRequest) -> Start:
    """Starts servers of one of the two kinds, with a configuration."""
    started: Start = request.getfixturevalue("start_peer" if request.param == "theirs" else "start_ours")
    return lambda config="": started(config=config)


@pytest.fixture
def certificate(certificates: Path) -> Path:
    return certificates / "cert.pem"


def tls_block(certificate: Path) -> str:
    return f'tls {{ cert_file: "{certificate}", key_file: "{certificate.parent / "key.pem"}" }}'


def test_messages_go_through_whole(start: Start) -> None:
    with connect(start().url) as connection:
        inbound = connection.subscribe("a.*", "q")
        connection.publish("a.b", b"x" * 100_000, reply="r.s", headers={"K": ["1", "2"], "k": "ü"})
        message = inbound.next(5)
        assert (message.subject, message.reply, message.payload) == ("a.b", "r.s", b"x" * 100_000)
        assert message.headers == {"K": ["1", "2"], "k": ["ü"]}


def test_many_messages_arrive_in_order(start: Start) -> None:
    count = 50_000
    with connect(start().url) as connection:
        inbound = connection.subscribe("n")
        for number in range(count):
            connection.publish("n", b"%d" % number)
        received = [int(message.payload) for message in itertools.islice(inbound, count)]
        assert received == list(range(count))
        assert inbound.dropped == 0


def test_requests_are_answered_or_told_that_nobody_listens(start: Start) -> None:
    url = start().url
    with connect(url) as asker, connect(url) as answerer:
        service = answerer.subscribe("svc")
        answerer.flush()
        with pytest.raises(NoResponders):
            asker.request("nobody", b"")
        inbox = asker.subscribe(reply := asker.new_inbox())
        asker.publish("svc", b"hello", reply=reply)
        asker.flush()
        service.next(5).respond(b"ok", headers={"A": "b"})
        answerer.flush()
        answer = inbox.next(5)
        assert (answer.payload, answer.headers) == (b"ok", {"A": ["b"]})
        assert asker.rtt_s() > 0


def test_auto_unsubscribe_ends_iteration(start: Start) -> None:
    with connect(start().url) as connection:
        inbound = connection.subscribe("a")
        inbound.unsubscribe(3)
        for number in range(5):
            connection.publish("a", b"%d" % number)
        assert [message.payload for message in inbound] == [b"0", b"1", b"2"]


def test_drain_keeps_everything_published_before(start: Start) -> None:
    connection = connect(start().url)
    inbound = connection.subscribe("a")
    for _ in range(1000):
        connection.publish("a", b"x")
    connection.drain()
    assert len(list(inbound)) == 1000


def test_own_messages_stay_away_without_echo(start: Start) -> None:
    with connect(start().url, echo=False) as connection:
        inbound = connection.subscribe("a")
        connection.publish("a")
        connection.flush()
        assert inbound.pending == 0


def test_permissions_are_told_and_the_connection_goes_on(start: Start) -> None:
    users = "authorization { users: [{ user: u, password: p, permissions: { publish: { deny: secret } } }] }"
    with connect(start(users).url, user="u", password="p") as connection:
        connection.publish("secret")
        with pytest.raises(ServerError, match=r'^Permissions Violation for Publish to "secret"$'):
            connection.flush()
        connection.flush()


@pytest.mark.parametrize(
    ("config", "right", "wrong"),
    [
        ("authorization { user: u, password: p }", {"user": "u", "password": "p"}, {"user": "u"}),
        ("authorization { token: t }", {"token": "t"}, {"token": "x"}),
        (f"authorization {{ users: [{{ nkey: {PUBLIC} }}] }}", {"nkey_seed": SEED}, {}),
    ],
    ids=["user", "token", "nkey"],
)
def test_who_may_come_in(start: Start, config: str, right: dict[str, str], wrong: dict[str, str]) -> None:
    url = start(config).url
    with connect(url, **right) as connection:  # type: ignore[arg-type]
        connection.flush()
    with pytest.raises(ServerError, match="Authorization Violation"):
        connect(url, **wrong)  # type: ignore[arg-type]


def test_tls_when_the_server_asks_for_it(start: Start, certificate: Path) -> None:
    url = start(tls_block(certificate)).url
    with connect(url, tls_ca=str(certificate)) as connection:
        inbound = connection.subscribe("a")
        for _ in range(200):
            connection.publish("a", b"x" * 10_000)
        assert sum(len(inbound.next(5).payload) for _ in range(200)) == 2_000_000
    with pytest.raises(Disconnected, match="self-signed"):
        connect(url)


def test_tls_before_the_greeting(start: Start, certificate: Path) -> None:
    config = tls_block(certificate).replace("{", "{ handshake_first: true,", 1)
    with connect(start(config).url, tls_ca=str(certificate), tls_first=True) as connection:
        connection.flush()


@pytest.mark.parametrize("encrypted", [False, True])
def test_websockets_carry_the_same(start: Start, certificate: Path, encrypted: bool) -> None:
    block = tls_block(certificate) if encrypted else "no_tls: true"
    url = start(f"websocket {{ listen: '127.0.0.1:-1', {block} }}").ports["websocket"][0]
    assert url.startswith("wss:" if encrypted else "ws:")
    with connect(url, tls_ca=str(certificate) if encrypted else "") as connection:
        inbound = connection.subscribe("a")
        for _ in range(200):
            connection.publish("a", b"x" * 10_000, headers={"K": "v"})
        received = [inbound.next(5) for _ in range(200)]
        assert sum(len(message.payload) for message in received) == 2_000_000
        assert received[-1].headers == {"K": ["v"]}


def test_a_server_that_goes_away_is_noticed(start: Start) -> None:
    server = start()
    with connect(server.url) as connection:
        inbound = connection.subscribe("a")
        connection.flush()
        server.signal(signal.SIGKILL)
        with pytest.raises(Disconnected, match=r"closed the connection|reset"):
            inbound.next(5)
