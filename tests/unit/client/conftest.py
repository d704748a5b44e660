"""A server that follows a script, so that the client can be shown what no real server does on demand."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

INFO = b'INFO {"server_id":"S","version":"2.12.0","headers":true,"max_payload":1024}\r\n'


class Peer:
    """The server's side of one connection. Reading past the end of the client's bytes gives b""."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.reader = sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_line(self) -> bytes:
        return self.reader.readline().rstrip(b"\r\n")

    def read_until(self, line: bytes) -> list[bytes]:
        """The lines before `line`, which is taken, too."""
        found = []
        while (read := self.read_line()) != line:
            if not read and not self.reader.peek(1):
                raise AssertionError(f"the client closed before {line!r}; it had sent {found}")
            found.append(read)
        return found

    def greet(self) -> bytes:
        """INFO, and PONG for what must follow CONNECT. The CONNECT line."""
        self.send(INFO)
        connect = self.read_line()
        assert self.read_line() == b"PING"
        self.send(b"PONG\r\n")
        return connect


Script = Callable[[Peer], None]
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(script, ...)` runs one script per connection, in that order, and gives the URL."""
    failures: list[BaseException] = []
    threads: list[threading.Thread] = []

    def start(*scripts: Script) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(10)

        def run() -> None:
            with listener:
                for script in scripts:
                    accepted, _ = listener.accept()
                    accepted.settimeout(10)
                    peer = Peer(accepted)
                    try:
                        with contextlib.suppress(ConnectionError):
                            script(peer)
                    except (AssertionError, OSError) as error:
                        failures.append(error)
                    finally:
                        peer.reader.close()
                        accepted.close()

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return f"nats://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(15)
        assert not thread.is_alive()
    assert not failures, failures
