"""Requests of the JetStream API over a raw connection, one after the other."""

import json
import socket
from types import TracebackType
from typing import Any, Self


class Api:
    def __init__(self, port: int, inbox: str = "_I", user: str = "") -> None:
        """Answers come below `inbox`; two that are not to hear each other's have different ones.

        The password of a `user` is its name.
        """
        self.inbox = inbox.encode()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.input = self.socket.makefile("rb")
        self.input.readline()
        login = b',"user":"%b","pass":"%b"' % (user.encode(), user.encode()) if user else b""
        connect = b'{"verbose":false,"headers":true,"no_responders":true%b}' % login
        self.socket.sendall(b"CONNECT %b\r\nSUB %b.> 1\r\n" % (connect, self.inbox))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.input.close()
        self.socket.close()

    def request(self, subject: str, body: bytes = b"", header: bytes = b"") -> bytes:
        """The answer: header block, if any, and payload."""
        name = subject.encode()
        if header:
            sizes = b"%d %d" % (len(header), len(header) + len(body))
            self.socket.sendall(b"HPUB %b %b.x %b\r\n%b%b\r\n" % (name, self.inbox, sizes, header, body))
        else:
            self.socket.sendall(b"PUB %b %b.x %d\r\n%b\r\n" % (name, self.inbox, len(body), body))
        return self.next()

    def next(self) -> bytes:
        """The next message that comes in."""
        while True:
            line = self.input.readline()
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            elif line.startswith((b"MSG", b"HMSG")):
                return self.input.read(int(line.split()[-1]) + 2)[:-2]
            elif not line.startswith((b"PONG", b"INFO")):
                raise AssertionError(f"the server said {line!r}")

    def ask(self, subject: str, body: Any = "") -> Any:
        """A JSON answer to a JSON request."""
        text = body if isinstance(body, str) else json.dumps(body)
        answer = self.request(f"$JS.API.{subject}", text.encode())
        if answer.startswith(b"NATS/1.0"):
            answer = answer.partition(b"\r\n\r\n")[2]
        return json.loads(answer)
