"""The publisher and the subscriber of `bench.load` over TLS, driven from Python.

OpenSSL does the work, with the GIL released, in pieces of 16 KiB and more, so Python's share is a few percent. Measured
rates against a bare TLS sink stand in docs/benchmarks.
"""

import ssl
from ssl import SSLSocket
import time

from tidelog.base import errors
from tidelog.bench.check import Check
from tidelog.bench.fault import Stopped
from tidelog.bench.load import Run

SEND_SIZE = 64 * 1024
RECEIVE_SIZE = 256 * 1024


def look_at(run: Run) -> None:
    """What a loop does when a tick has passed without anything to do."""
    if run.stopped:
        raise Stopped("another worker failed")
    if run.late:
        raise errors.Timeout("the server did not take or deliver everything in time")


def send_all(run: Run, sock: ssl.SSLSocket, data: bytes) -> None:
    view = memoryview(data)
    at = 0
    while at < len(data):
        try:
            at += sock.send(view[at : at + SEND_SIZE])
        except (ssl.SSLWantWriteError, BlockingIOError):
            look_at(run)
        except OSError as error:
            raise errors.Disconnected(str(error)) from error


def receive_into(run: Run, sock: ssl.SSLSocket, piece: bytearray) -> int:
    """One read of at least a byte."""
    while True:
        try:
            size = sock.recv_into(piece)
        except (ssl.SSLWantReadError, BlockingIOError):
            look_at(run)
            continue
        except OSError as error:
            raise errors.Disconnected(str(error)) from error
        if size == 0:
            raise errors.Disconnected("the server closed the connection")
        return size


def publish(run: Run, sock: ssl.SSLSocket, lap: bytes, laps: int) -> int:
    """Send `lap` `laps` times, then PING; monotonic ns at which the PONG was read."""
    for _ in range(laps):
        send_all(run, sock, lap)
        if run.stopped:
            raise Stopped("another worker failed")
    send_all(run, sock, b"PING\r\n")
    lines = Check([(b"", ())], laps=0)
    piece = bytearray(RECEIVE_SIZE)
    view = memoryview(piece)
    while lines.pongs == 0:
        lines.feed(view[: receive_into(run, sock, piece)])
    return time.monotonic_ns()


def receive(run: Run, sock: ssl.SSLSocket, check: Check) -> int:
    """Read until the check is complete; monotonic ns of the last byte."""
    piece = bytearray(RECEIVE_SIZE)
    view = memoryview(piece)
    while check.left:
        check.feed(view[: receive_into(run, sock, piece)])
        for _ in range(check.take_pings()):
            send_all(run, sock, b"PONG\r\n")
        if run.stopped:
            raise Stopped("another worker failed")
    return time.monotonic_ns()
