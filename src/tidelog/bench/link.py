"""One connection of the load generator: dialled, greeted, subscribed, and handed to the loops.

`dial` returns only when the server has answered two PINGs. The second one matters: servers send another INFO
behind the first PONG, and after the second PONG nothing of the greeting is left on the way.
"""

import json
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tidelog import __version__
from tidelog.base import errors
from tidelog.bench.secure import Channel

# The loops of `bench.load` wake so often, at least, to see whether their run is over.
TICK_US = 100_000
GREETING_TIMEOUT_S = 10.0

Link = socket.socket | Channel


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is, and who we are there. With `tls` the connection is upgraded after INFO."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    @classmethod
    def parse(cls, url: str, *, tls: ssl.SSLContext | None = None) -> "Target":
        """From `nats://[user:password@]host[:port]`, or `tls://` to trust the system's authorities."""
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        if parts.scheme not in ("nats", "tls") or not parts.hostname:
            raise errors.ConfigError(f"not a server URL: {url!r}; write nats://host:port or tls://host:port")
        if parts.scheme == "tls" and tls is None:
            tls = ssl.create_default_context()
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.hostname, parts.port or 4222, user, password, tls)


def connect_line(target: Target) -> bytes:
    """CONNECT as an ordinary client library would send it."""
    options: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "lang": "tidelog-bench",
        "version": __version__,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "tls_required": target.tls is not None,
    }
    if target.user:
        options |= {"user": target.user, "pass": target.password}
    return b"CONNECT " + json.dumps(options, separators=(",", ":")).encode() + b"\r\n"


def read_until(sock: Link, end: bytes) -> bytes:
    """Read until what was read ends with `end`; -ERR and the end of the stream are errors."""
    seen = bytearray()
    while not seen.endswith(end):
        piece = sock.recv(65536)
        if not piece:
            raise errors.Disconnected("the server closed the connection while greeting")
        seen += piece
        at = seen.find(b"-ERR")
        if at >= 0:
            raise errors.ServerError(seen[at:].split(b"\r\n")[0].decode("utf-8", "replace"))
    return bytes(seen)


def dial(target: Target, subscriptions: Sequence[tuple[str, str]] = ()) -> Link:
    """Connect and subscribe to (subject, sid) pairs. The socket blocks, with time-outs of one tick."""
    try:
        sock = socket.create_connection((target.host, target.port), timeout=GREETING_TIMEOUT_S)
    except OSError as error:
        raise errors.Disconnected(f"cannot reach {target.host}:{target.port}: {error}") from error
    try:
        link = greet(sock, target, subscriptions)
        tick = struct.pack("@ll", 0, TICK_US)
        link.settimeout(None)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, tick)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, tick)
    except TimeoutError as error:
        sock.close()
        raise errors.Timeout(
            f"{target.host}:{target.port} did not greet within {GREETING_TIMEOUT_S} s"
        ) from error
    except OSError as error:
        sock.close()
        raise errors.Disconnected(f"{target.host}:{target.port} did not greet: {error}") from error
    except BaseException:
        sock.close()
        raise
    return link


def greet(sock: socket.socket, target: Target, subscriptions: Sequence[tuple[str, str]]) -> Link:
    link: Link = sock
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    read_until(sock, b"\r\n")
    if target.tls is not None:
        link = Channel(sock, target.tls, target.host)
        link.handshake()
    lines = [f"SUB {subject} {sid}\r\n".encode() for subject, sid in subscriptions]
    link.sendall(connect_line(target) + b"".join(lines) + b"PING\r\nPING\r\n")
    seen = b""
    while seen.count(b"PONG\r\n") < 2:
        seen += read_until(link, b"\r\n")
    return link
