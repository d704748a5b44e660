"""Sockets that listen: bound early and synchronously, accepted from on the loop.

`bind` is called before anything heavy is imported, so that a client's connect succeeds within milliseconds of the
start of the process; whoever comes early waits in the backlog.

Running out of file descriptors costs only those who come then: accepting pauses, says so, and goes on by itself.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.base.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from tidelog.serve.log import Logger

BACKLOG = 1024
# Connections accepted per wake-up, so that a storm of them does not hold up those that are in.
ACCEPT_BURST = 64
# How long accepting pauses when the process or the machine is out of something.
ACCEPT_PAUSE_S = 0.1
WILDCARDS = ("", "0.0.0.0", "::")
# How a socket of both families writes the address of an IPv4 peer.
MAPPED = "::ffff:"
# It says so no more often than this, however long that lasts.
COMPLAINT_S = 1.0
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def bind(host: str, port: int, what: str = "port") -> socket.socket:
    """A listening socket; port -1 takes any free one. Raises ConfigError in the peer's words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if host and ":" not in host and not host.replace(".", "").isdigit():
        try:
            family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        except OSError as error:
            raise ConfigError(f'Error listening on {what}: {host}:{port}, "{error.strerror}"') from error
    # As in Go, any wildcard means both families where there are two.
    if host in WILDCARDS and socket.has_dualstack_ipv6():
        try:
            return _listen(socket.AF_INET6, "::", port)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise _refused(what, host, port, error) from error
    try:
        return _listen(family, host, port)
    except OSError as error:
        raise _refused(what, host, port, error) from error


def _listen(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, max(port, 0)))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _refused(what: str, host: str, port: int, error: OSError) -> ConfigError:
    cause = os.strerror(error.errno).lower() if error.errno else str(error)
    text = f'Error listening on {what}: {host}:{port}, "listen tcp {host}:{port}: bind: {cause}"'
    return ConfigError(text)


def address(sock: socket.socket) -> tuple[str, int]:
    host, port = sock.getsockname()[:2]
    return host, port


def shown(host: str, port: int) -> str:
    """`host:port` for logs and URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Listener:
    """Accepts from one socket and hands every connection's descriptor and address to `on_accept`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_accept: Callable[[int, str, int], None],
        log: Logger,
    ) -> None:
        self.loop = loop
        self.sock = sock
        self.on_accept = on_accept
        self.log = log
        self.closed = False
        self.complained_s = -COMPLAINT_S
        loop.add_reader(sock.fileno(), self.accept)

    def accept(self) -> None:
        for _ in range(ACCEPT_BURST):
            try:
                fd, peer = self.sock._accept()  # type: ignore[attr-defined]  # accept() makes an object too many
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self.pause(error)
                return
            os.set_blocking(fd, False)
            self.on_accept(fd, peer[0].removeprefix(MAPPED), peer[1])

    def pause(self, error: OSError) -> None:
        now_s = self.loop.time()
        if now_s - self.complained_s >= COMPLAINT_S:
            self.complained_s = now_s
            pause = f"trying again in {ACCEPT_PAUSE_S:g}s"
            self.log.error(f"Error accepting a connection, {pause}: {error.strerror}")
        self.loop.remove_reader(self.sock.fileno())
        self.loop.call_later(ACCEPT_PAUSE_S, self.go_on)

    def go_on(self) -> None:
        if not self.closed:
            self.loop.add_reader(self.sock.fileno(), self.accept)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.loop.remove_reader(self.sock.fileno())
            self.sock.close()
