"""The TLS publisher and subscriber against Python's own TLS on the other side."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.base.errors import Disconnected, Timeout
from tidelog.bench.certificate import write_certificate
from tidelog.bench.check import Check
from tidelog.bench.fault import Stopped
from tidelog.bench.load import Run
from tidelog.bench.secure import Channel, publish, receive
from tidelog.bench.workload import delivered, lap

Play = Callable[[ssl.SSLSocket], None]
Connect = Callable[[Play], Channel]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A channel to a TLS peer that plays the given part."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(certificate, key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    threads: list[threading.Thread] = []
    channels: list[Channel] = []

    def one(play: Play) -> Channel:
        near, far = socket.socketpair()
        far.settimeout(10)

        def work() -> None:
            with server.wrap_socket(far, server_side=True) as sock:
                play(sock)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        channels.append(Channel(near, client, "127.0.0.1"))
        channels[-1].handshake()
        tick = struct.pack("@ll", 0, 20_000)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, tick)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, tick)
        return channels[-1]

    yield one
    for channel in channels:
        channel.close()
    for thread in threads:
        thread.join()


def read_exactly(sock: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    return data


def test_publish_sends_everything_and_waits_for_pong(connect: Connect) -> None:
    seen = []

    def play(sock: ssl.SSLSocket) -> None:
        seen.append(read_exactly(sock, 2 * 300_000 + 6))
        sock.sendall(b"PONG\r\n")
        sock.recv(1)

    data = bytes(range(250)) * 1200
    channel = connect(play)
    publish(Run(timeout_s=10), channel, data, 2)
    channel.close()
    assert seen[0] == data * 2 + b"PING\r\n"


@pytest.mark.parametrize("record", [100, 5000, 100_000])
def test_receive_verifies_records_of_any_size(connect: Connect, record: int) -> None:
    stream = delivered(lap(("a",), size=128, count=500))
    sent = b"PING\r\n" + stream.data * 3
    answered = []

    def play(sock: ssl.SSLSocket) -> None:
        for at in range(0, len(sent), record):
            sock.sendall(sent[at : at + record])
        answered.append(sock.recv(100))

    check = Check([(stream.data, stream.starts)], laps=3)
    channel = connect(play)
    receive(Run(timeout_s=10), channel, check)
    assert check.left == 0
    channel.close()


def test_loops_end_by_deadline_stop_and_hang_up(connect: Connect) -> None:
    def silent(sock: ssl.SSLSocket) -> None:
        assert sock.recv(1) == b""

    def check() -> Check:
        stream = delivered(lap(("a",), size=128, count=5))
        return Check([(stream.data, stream.starts)], laps=1)

    late, stopped = Run(timeout_s=0.05), Run(timeout_s=10)
    stopped.stop()
    channel = connect(silent)
    with pytest.raises(Timeout):
        receive(late, channel, check())
    with pytest.raises(Stopped):
        receive(stopped, channel, check())
    channel.sock.shutdown(socket.SHUT_WR)
    with pytest.raises(Disconnected):
        receive(Run(timeout_s=10), channel, check())
