import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificate import authority, issue
from tidelog.base.errors import Disconnected, Timeout
from tidelog.base.limits import READ_BURST_SIZE
from tidelog.client.address import parse
from tidelog.client.encryption import Encryption
from tidelog.client.transport import SocketTransport, open_socket


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def soon() -> float:
    return time.monotonic() + 5


def test_read_gives_what_has_come_or_none(pair: tuple[socket.socket, socket.socket]) -> None:
    transport = SocketTransport(pair[0])
    assert transport.read() is None
    assert not transport.wait(0)
    pair[1].send(b"abc")
    assert transport.wait(5)
    assert bytes(transport.read() or b"") == b"abc"


def test_the_end_of_the_stream_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    with pytest.raises(Disconnected, match="closed the connection"):
        SocketTransport(pair[0]).read()


def test_write_takes_what_fits(pair: tuple[socket.socket, socket.socket]) -> None:
    transport = SocketTransport(pair[0])
    data = memoryview(bytes(16 * 1024 * 1024))
    assert 0 < transport.write(data) < len(data)
    assert transport.write(data) == 0
    assert not transport.wait(0, for_space=True)


def test_a_record_read_in_part_is_not_waited_for(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    """The buffer ends within the last record, and nothing comes after it."""
    (tmp_path / "ca.pem").write_bytes(authority().cert_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issue().write(tmp_path, "server"))
    record = b"x" * 15_000
    count = READ_BURST_SIZE // len(record) + 1
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * READ_BURST_SIZE)  # room for all of them
    accepted: list[ssl.SSLSocket] = []
    sent = threading.Event()

    def serve() -> None:
        encrypted = context.wrap_socket(pair[1], server_side=True)
        accepted.append(encrypted)
        for _ in range(count):
            encrypted.sendall(record)
        sent.set()

    thread = threading.Thread(target=serve)
    thread.start()
    encrypted = Encryption(ca_file=str(tmp_path / "ca.pem")).wrap(pair[0], "127.0.0.1", soon())
    transport = SocketTransport(encrypted)
    try:
        assert sent.wait(5)
        received = 0
        while received < count * len(record):
            assert transport.wait(5)
            received += len(transport.read() or b"")
        assert not transport.wait(0)
    finally:
        thread.join()
        transport.close()
        accepted[0].close()


def test_a_handshake_that_nobody_answers_is_given_up_in_time(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with pytest.raises(Timeout, match="no TLS handshake"):
        Encryption().wrap(pair[0], "localhost", time.monotonic() + 0.05)


def test_a_refused_connection_names_the_address() -> None:
    with pytest.raises(Disconnected, match=r"nats://127\.0\.0\.1:1: Connection refused"):
        open_socket(parse("127.0.0.1:1"), soon())
