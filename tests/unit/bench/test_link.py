"""Dialling a server that is ten lines of Python."""

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tidelog.base.errors import ConfigError, Disconnected, ServerError
from tidelog.bench.link import Target, connect_line, dial

INFO = b'INFO {"version":"9"}\r\n'
Serve = Callable[[Callable[[socket.socket], None]], Target]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Runs a function on the one connection that comes, and gives the address to dial."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def start(play: Callable[[socket.socket], None]) -> Target:
        def work() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(10)
                play(sock)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return Target("127.0.0.1", listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join()
    listener.close()


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        data += sock.recv(4096)
    return data


def test_url_forms() -> None:
    assert Target.parse("nats://h:1") == Target("h", 1)
    assert Target.parse("h") == Target("h", 4222)
    assert Target.parse("nats://u%40:p%3A@h:1") == Target("h", 1, "u@", "p:")
    assert Target.parse("tls://h:1").tls is not None
    for bad in ("http://h", "nats://", "nats:///x"):
        with pytest.raises(ConfigError):
            Target.parse(bad)


def test_password_is_not_shown() -> None:
    assert "secret" not in repr(Target("h", 1, "u", "secret"))


def test_connect_line_carries_the_user_only_if_there_is_one() -> None:
    plain = json.loads(connect_line(Target("h", 1))[8:])
    assert plain["verbose"] is False
    assert "user" not in plain
    assert json.loads(connect_line(Target("h", 1, "u", "p"))[8:])["pass"] == "p"


def test_nothing_of_the_greeting_is_left_on_the_way(serve: Serve) -> None:
    got = []

    def play(sock: socket.socket) -> None:
        sock.sendall(INFO)
        got.append(read_until(sock, b"PING\r\nPING\r\n"))
        # What follows the first PONG comes late and in two pieces.
        sock.sendall(b"PONG\r\nINFO {")
        sock.sendall(b"}\r\nPONG\r\n")
        read_until(sock, b"done")
        sock.sendall(b"first")

    with dial(serve(play), [("a.*", "7")]) as link:
        link.sendall(b"done")
        assert link.recv(100) == b"first"
    assert got[0].startswith(b"CONNECT {")
    assert got[0].endswith(b"}\r\nSUB a.* 7\r\nPING\r\nPING\r\n")


def test_refusal_is_quoted(serve: Serve) -> None:
    def play(sock: socket.socket) -> None:
        sock.sendall(INFO)
        read_until(sock, b"PING\r\n")
        sock.sendall(b"-ERR 'Authorization Violation'\r\n")

    with pytest.raises(ServerError, match="Authorization Violation"):
        dial(serve(play))


def test_hang_up_while_greeting(serve: Serve) -> None:
    with pytest.raises(Disconnected):
        dial(serve(lambda sock: sock.sendall(b"INFO {")))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Disconnected, match=str(port)):
        dial(Target("127.0.0.1", port))
