"""A raw connection: what no client library would send, and what comes back."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from tidelog.testing.peer import ServerProcess

TIMEOUT_S = 10.0
POLL_S = 0.003


class Raw:
    def __init__(self, port: int, *, receive_size: int = 0) -> None:
        """`receive_size`: of the socket's buffer, small for clients that are to be slow."""
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT_S)
        if receive_size:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_size)
        self.socket.connect(("127.0.0.1", port))
        self.lines = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lines.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """The next line that is no PING; empty at the end of the connection."""
        while (line := self.lines.readline()) == b"PING\r\n":
            pass
        return line

    def info(self) -> dict[str, Any]:
        line = self.line()
        assert line.startswith(b"INFO "), line
        found: dict[str, Any] = json.loads(line[5:])
        return found

    def enter(self, **fields: object) -> dict[str, Any]:
        """INFO, CONNECT, and a round trip."""
        info = self.info()
        self.send(b"CONNECT " + json.dumps({"verbose": False, "pedantic": False} | fields).encode() + b"\r\n")
        self.round_trip()
        return info

    def round_trip(self) -> list[bytes]:
        """The lines that come before the answer to a PING."""
        self.send(b"PING\r\n")
        said = []
        while (line := self.line()) != b"PONG\r\n":
            assert line, f"the connection ended after {said}"
            said.append(line)
        return said

    def rest(self) -> bytes:
        """All that comes until the server ends the connection. A reset is an end too."""
        data = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while part := self.lines.read1():
                data += part
        return bytes(data)


def resident_size(pid: int) -> int:
    """Bytes of memory that a process holds now."""
    return _memory(pid, "VmRSS")


def highest_size(pid: int) -> int:
    """Bytes of memory that a process has ever held."""
    return _memory(pid, "VmHWM")


def _memory(pid: int, field: str) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(field)


def eventually(timeout_s: float = TIMEOUT_S, about: Callable[[], str] = str) -> Iterator[None]:
    """`for _ in eventually(): if done: break`: looks again and again, and fails in the end."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL_S)
    raise AssertionError(f"not within {timeout_s} s: {about()}")


class LogTail:
    """What a server logs from now on."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.start = len(server.log)

    @property
    def text(self) -> str:
        return self.server.log[self.start :]

    def has(self, words: str) -> None:
        """Wait for words."""
        for _ in eventually(about=lambda: f"no {words!r} in {self.text[-2000:]!r}"):
            if words in self.text:
                return
