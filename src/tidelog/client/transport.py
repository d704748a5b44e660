"""Bytes to and from one server over TCP or TLS: the only socket of the client (websockets are built on it).

What it promises: nothing here blocks but `wait` and the opening calls, all of them bounded by the caller's
time. `read` gives what has arrived, or None when nothing has; the end of the stream raises Disconnected.
`write` takes as much as fits and says how much.

How it works: a non-blocking socket and one `poll` object. TLS is the standard library's.

What it does not do: know NATS, buffer input, or connect again.
"""

import select
import socket
import ssl
import time
from typing import Protocol

from tidelog.base.errors import Disconnected, Timeout
from tidelog.base.limits import READ_BURST_SIZE
from tidelog.client.address import Address


class Transport(Protocol):
    def read(self) -> bytes | memoryview | None:
        """What has arrived, valid until the next call; None when nothing has."""

    def write(self, data: memoryview) -> int:
        """Send from the front of `data`; how many of its bytes have left. The rest is to be given again."""

    def wait(self, timeout_s: float | None, *, for_space: bool = False) -> bool:
        """Wait for input (or for space to write into as well). False: the time is over."""

    def close(self) -> None: ...


class SocketTransport:
    """TCP, or TLS when the socket is an encrypted one."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._buffer = memoryview(bytearray(READ_BURST_SIZE))
        self._for_input = select.poll()
        self._for_input.register(sock, select.POLLIN)
        self._for_both = select.poll()
        self._for_both.register(sock, select.POLLIN | select.POLLOUT)

    def read(self) -> bytes | memoryview | None:
        size = self._receive(self._buffer)
        if size and isinstance(self.socket, ssl.SSLSocket):
            # One call gives one TLS record; a burst is many.
            while size < len(self._buffer):
                more = self._receive(self._buffer[size:])
                if not more:
                    break
                size += more
        return self._buffer[:size] if size else None

    def _receive(self, space: memoryview) -> int:
        try:
            size = self.socket.recv_into(space)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise Disconnected(f"connection lost: {error.strerror or error}") from error
        if size == 0:
            raise Disconnected("the server closed the connection")
        return size

    def write(self, data: memoryview) -> int:
        try:
            return self.socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise Disconnected(f"connection lost: {error.strerror or error}") from error

    def wait(self, timeout_s: float | None, *, for_space: bool = False) -> bool:
        # A TLS record that was read only in part: its rest is not in the socket any more.
        if isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            return True
        poll = self._for_both if for_space else self._for_input
        return bool(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))

    def close(self) -> None:
        self.socket.close()


def open_socket(address: Address, deadline: float) -> socket.socket:
    """A TCP connection. Raises Disconnected or Timeout."""
    try:
        sock = socket.create_connection((address.host, address.port), timeout=left(deadline))
    except TimeoutError:
        raise Timeout(f"{address}: no connection in time") from None
    except OSError as error:
        raise Disconnected(f"{address}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def left(deadline: float) -> float:
    """Seconds until `deadline`, never quite none: a timeout of 0 means "do not block" to a socket."""
    return max(0.001, deadline - time.monotonic())
