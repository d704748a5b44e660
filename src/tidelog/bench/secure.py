"""TLS for the load generator: a channel over a connected socket, a publisher and a subscriber.

OpenSSL does the work, with the GIL released, on memory and not on the socket: servers write TLS records of
a few hundred bytes to 16 KiB, and one recv that brings hundreds of them costs far less than two reads for
each. That took the generator from more CPU than the server under test to a third of it (docs/benchmarks).
"""

import socket
import ssl
import time
from types import TracebackType

from tidelog.base import errors
from tidelog.bench.check import Check
from tidelog.bench.fault import Stopped
from tidelog.bench.load import Run

SEND_SIZE = 64 * 1024
RECEIVE_SIZE = 256 * 1024


class Channel:
    """The client side of TLS over a socket; time-outs of the socket come through as they are."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self.sock = sock
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.raw = memoryview(bytearray(RECEIVE_SIZE))
        # Encrypted bytes that the socket has not taken yet.
        self.unsent = memoryview(b"")

    def handshake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                self.fill()
        self.flush()

    def flush(self) -> None:
        """Hand everything encrypted to the socket; after a time-out, call again."""
        while self.unsent or self.outgoing.pending:
            if not self.unsent:
                self.unsent = memoryview(self.outgoing.read())
            self.unsent = self.unsent[self.sock.send(self.unsent) :]

    def fill(self) -> None:
        """One recv, for `take` to decrypt."""
        size = self.sock.recv_into(self.raw)
        if size == 0:
            raise errors.Disconnected("the server closed the connection")
        self.incoming.write(self.raw[:size])

    def take(self, buffer: memoryview) -> int:
        """Decrypt what has been received, as far as the buffer goes; 0 if there is no whole record."""
        at = 0
        try:
            while at < len(buffer):
                size = int(self.tls.read(len(buffer) - at, buffer[at:]))
                if size == 0:
                    break
                at += size
        except ssl.SSLWantReadError:
            pass
        return at

    def sendall(self, data: bytes) -> None:
        self.tls.write(data)
        self.flush()

    def recv(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        while not (taken := self.take(buffer)):
            self.fill()
        return bytes(buffer[:taken])

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        self.sock.setsockopt(level, name, value)

    def settimeout(self, timeout_s: float | None) -> None:
        self.sock.settimeout(timeout_s)

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> "Channel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def look_at(run: Run) -> None:
    """What a loop does when a tick has passed without anything to do."""
    if run.stopped:
        raise Stopped("another worker failed")
    if run.late:
        raise errors.Timeout("the server did not take or deliver everything in time")


def send_all(run: Run, channel: Channel, data: bytes) -> None:
    view = memoryview(data)
    for at in range(0, len(data), SEND_SIZE):
        channel.tls.write(view[at : at + SEND_SIZE])
        while channel.unsent or channel.outgoing.pending:
            try:
                channel.flush()
            except BlockingIOError:
                look_at(run)
            except OSError as error:
                raise errors.Disconnected(str(error)) from error


def receive_into(run: Run, channel: Channel, buffer: memoryview) -> int:
    """At least a byte."""
    while True:
        try:
            size = channel.take(buffer)
            if size:
                return size
            channel.fill()
        except BlockingIOError:
            look_at(run)
        except OSError as error:
            raise errors.Disconnected(str(error)) from error


def publish(run: Run, channel: Channel, lap: bytes, laps: int) -> int:
    """Send `lap` `laps` times, then PING; monotonic ns at which the PONG was read."""
    for _ in range(laps):
        send_all(run, channel, lap)
        if run.stopped:
            raise Stopped("another worker failed")
    send_all(run, channel, b"PING\r\n")
    lines = Check([(b"", ())], laps=0)
    buffer = memoryview(bytearray(RECEIVE_SIZE))
    while lines.pongs == 0:
        lines.feed(buffer[: receive_into(run, channel, buffer)])
    return time.monotonic_ns()


def receive(run: Run, channel: Channel, check: Check) -> int:
    """Read until the check is complete; monotonic ns of the last byte."""
    buffer = memoryview(bytearray(RECEIVE_SIZE))
    while check.left:
        check.feed(buffer[: receive_into(run, channel, buffer)])
        for _ in range(check.take_pings()):
            send_all(run, channel, b"PONG\r\n")
        if run.stopped:
            raise Stopped("another worker failed")
    return time.monotonic_ns()
