import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.base.errors import ClientError, Disconnected, NoResponders, ServerError, Timeout
from tidelog.client import connect
from tidelog.client.connection import WRITE_BUFFER_SIZE

Serve = Callable[..., str]
# A script's peer: see conftest.
Peer = Any

CLOSED_PORT = "nats://127.0.0.1:1"


def read_to_end(peer: Peer) -> bytes:
    return peer.reader.read()


def test_connect_tells_who_it_is_and_waits_for_the_answer(serve: Serve) -> None:
    told: list[bytes] = []

    def script(peer: Peer) -> None:
        told.append(peer.greet())

    with connect(serve(script), name="me", user="u", password="p", echo=False) as connection:
        assert connection.is_connected
        assert connection.max_payload == 1024
        assert connection.info["server_id"] == "S"
    verb, document = told[0].split(b" ", 1)
    fields = json.loads(document)
    assert verb == b"CONNECT"
    assert fields["user"] == "u"
    assert fields["pass"] == "p"
    assert fields["name"] == "me"
    assert fields["protocol"] == 1
    assert (fields["echo"], fields["verbose"], fields["pedantic"]) == (False, False, False)
    assert (fields["headers"], fields["no_responders"]) == (True, True)


@pytest.mark.parametrize(
    ("userinfo", "expected"), [("u:p", {"user": "u", "pass": "p"}), ("tok", {"auth_token": "tok"})]
)
def test_a_url_may_name_user_or_token(serve: Serve, userinfo: str, expected: dict[str, str]) -> None:
    told: list[bytes] = []
    url = serve(lambda peer: told.append(peer.greet()))
    with connect(url.replace("//", f"//{userinfo}@")) as connection:
        assert userinfo not in connection.url
    assert expected.items() <= json.loads(told[0].split(b" ", 1)[1]).items()


def test_connect_goes_on_to_the_next_url(serve: Serve) -> None:
    url = serve(lambda peer: peer.greet())
    with connect([CLOSED_PORT, url]) as connection:
        assert connection.url == url


def test_connect_reports_the_last_failure() -> None:
    with pytest.raises(Disconnected, match="Connection refused"):
        connect(CLOSED_PORT)


def test_a_refusal_is_a_server_error_at_once(serve: Serve) -> None:
    def refuse(peer: Peer) -> None:
        peer.send(b'INFO {"auth_required":true}\r\n')
        peer.read_line()
        peer.read_line()
        peer.send(b"-ERR 'Authorization Violation'\r\n")

    with pytest.raises(ServerError, match=r"^Authorization Violation$"):
        connect([serve(refuse), CLOSED_PORT])


def test_what_is_not_nats_is_told(serve: Serve) -> None:
    with pytest.raises(Disconnected, match="not NATS"):
        connect(serve(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")))


def test_info_that_is_no_json_is_told(serve: Serve) -> None:
    with pytest.raises(Disconnected, match="INFO is not JSON"):
        connect(serve(lambda peer: peer.send(b"INFO {\r\n")))


def test_a_silent_server_is_given_up_in_time(serve: Serve) -> None:
    url = serve(read_to_end)
    with pytest.raises(Timeout, match="no greeting"):
        connect(url, timeout_s=0.05)


def test_a_server_that_does_not_answer_connect_is_given_up_in_time(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(b"INFO {}\r\n")
        read_to_end(peer)

    with pytest.raises(Timeout, match="no answer to CONNECT"):
        connect(serve(script), timeout_s=0.05)


def test_tls_asked_for_and_not_offered_sends_no_credentials(serve: Serve) -> None:
    sent: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.send(b"INFO {}\r\n")
        sent.append(read_to_end(peer))

    with pytest.raises(Disconnected, match="the server has none"):
        connect(serve(script).replace("nats:", "tls:"), user="u", password="p")
    # Joined by the fixture only later; the peer has read to the end when the client has closed.
    deadline = time.monotonic() + 5
    while not sent and time.monotonic() < deadline:
        time.sleep(0.005)
    assert sent == [b""]


def test_publishes_stay_in_the_buffer_until_a_call_that_waits(serve: Serve) -> None:
    lines: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.greet()
        lines.extend(peer.read_until(b"PING"))
        peer.send(b"PONG\r\n")

    with connect(serve(script)) as connection:
        connection.publish("a", b"1")
        connection.publish("b", b"", reply="r")
        connection.publish("c", b"2", headers={"K": "v"})
        connection.publish("d", b"3", reply="r", headers={"K": "v"})
        assert not lines
        connection.flush()
    block = [b"NATS/1.0", b"K: v", b""]
    assert lines == [
        b"PUB a 1", b"1", b"PUB b r 0", b"", b"HPUB c 18 19", *block, b"2", b"HPUB d r 18 19", *block, b"3",
    ]  # fmt: skip


def test_a_full_buffer_leaves_by_itself(serve: Serve) -> None:
    seen: list[int] = []

    def script(peer: Peer) -> None:
        peer.greet()
        seen.append(len(peer.reader.read(WRITE_BUFFER_SIZE)))
        peer.send(b"MSG done 1 0\r\n\r\n")
        read_to_end(peer)

    with connect(serve(script)) as connection:
        done = connection.subscribe("done")
        for _ in range(WRITE_BUFFER_SIZE // 1000 + 1):
            connection.publish("a", b"x" * 1000)
        assert done.next(5).subject == "done"
    assert seen == [WRITE_BUFFER_SIZE]


def test_close_sends_what_is_buffered_and_may_be_repeated(serve: Serve) -> None:
    rest: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.greet()
        rest.append(read_to_end(peer))
        peer.send(b"")

    url = serve(script)
    connection = connect(url)
    connection.publish("last", b"word")
    connection.close()
    connection.close()
    assert not connection.is_connected
    with pytest.raises(Disconnected, match="closed by this side"):
        connection.flush()
    deadline = time.monotonic() + 5
    while not rest and time.monotonic() < deadline:
        time.sleep(0.005)
    assert rest == [b"PUB last 4\r\nword\r\n"]


@pytest.mark.parametrize("size", [1024, 1025])
def test_max_payload_counts_header_and_payload(serve: Serve, size: int) -> None:
    with connect(serve(lambda peer: (peer.greet(), read_to_end(peer)))) as connection:
        if size > 1024:
            with pytest.raises(ClientError, match="takes 1024 at most"):
                connection.publish("a", b"x" * (size - 18), headers={"K": "v"})
        else:
            connection.publish("a", b"x" * (size - 18), headers={"K": "v"})


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB", "a\tb"])
def test_subjects_that_break_the_line_are_refused(serve: Serve, subject: str) -> None:
    with connect(serve(lambda peer: (peer.greet(), read_to_end(peer)))) as connection:
        for attempt in (connection.publish, connection.subscribe):
            with pytest.raises(ClientError, match="empty or has a blank"):
                attempt(subject)


def test_ping_is_answered_by_the_call_that_reads_it(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"PING\r\n")
        assert peer.read_line() == b"PONG"
        peer.send(b"MSG a 1 1\r\nx\r\n")

    with connect(serve(script)) as connection:
        assert connection.subscribe("a").next(5).payload == b"x"


def test_an_error_is_raised_once_and_loses_no_message(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"MSG a 1 1\r\nx\r\n-ERR 'Permissions Violation for Publish to \"b\"'\r\n-ERR 'more'\r\n")
        peer.read_until(b"PING")
        peer.send(b"PONG\r\n")

    with connect(serve(script)) as connection:
        subscription = connection.subscribe("a")
        with pytest.raises(ServerError, match=r'^Permissions Violation for Publish to "b"$'):
            subscription.next(5)
        assert subscription.next(5).payload == b"x"
        connection.flush()


def test_a_lost_connection_tells_the_servers_reason(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"-ERR 'Stale Connection'\r\n")

    with connect(serve(script)) as connection:
        with pytest.raises(ServerError, match="Stale Connection"):
            connection.subscribe("a").next(5)
        with pytest.raises(Disconnected, match="Stale Connection"):
            connection.flush()
        with pytest.raises(Disconnected, match="Stale Connection"):
            connection.flush()


def test_a_later_info_replaces_the_first(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"PING")
        peer.send(b'INFO {"max_payload":2,"ldm":true}\r\nPONG\r\n')

    with connect(serve(script)) as connection:
        connection.flush()
        assert connection.max_payload == 2
        assert connection.info["ldm"] is True


def test_flush_gives_up_in_time_and_later_pongs_are_counted_right(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"PING")
        peer.read_until(b"PING")
        peer.send(b"PONG\r\n")
        peer.read_until(b"PING")
        peer.send(b"PONG\r\nPONG\r\n")

    with connect(serve(script)) as connection:
        for _ in range(2):
            with pytest.raises(Timeout, match="did not answer"):
                connection.flush(0.05)
        connection.flush(5)


def test_request_takes_its_own_reply_and_no_late_one(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        inbox = peer.read_line().split()[1].removesuffix(b".*")
        assert peer.read_line() == b"PUB svc %b.1 1" % inbox
        peer.read_until(b"PUB svc %b.2 1" % inbox)
        peer.send(b"MSG %b.1 1 4\r\nlate\r\nMSG %b.2 1 3\r\nown\r\n" % (inbox, inbox))
        peer.read_until(b"PUB svc %b.3 1" % inbox)
        peer.send(b"HMSG %b.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % inbox)

    with connect(serve(script)) as connection:
        with pytest.raises(Timeout, match="no reply from 'svc'"):
            connection.request("svc", b"1", timeout_s=0.05)
        assert connection.request("svc", b"2", timeout_s=5).payload == b"own"
        with pytest.raises(NoResponders, match="nobody listens to 'svc'"):
            connection.request("svc", b"3", timeout_s=5)


def test_two_full_pipes_do_not_wait_for_each_other(serve: Serve) -> None:
    """The server writes more than sockets hold before it reads anything."""
    payload = b"x" * 1000
    count = 20_000

    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB in 1")
        peer.send((b"MSG in 1 %d\r\n%b\r\n" % (len(payload), payload)) * count)
        for _ in range(count):
            peer.reader.readline()
            peer.reader.readline()

    with connect(serve(script), timeout_s=20) as connection:
        inbound = connection.subscribe("in")
        for _ in range(count):
            connection.publish("out", payload)
        received = sum(1 for _ in itertools.islice(inbound, count))
    assert received == count
