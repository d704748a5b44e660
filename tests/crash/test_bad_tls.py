"""Nonsense where TLS or a websocket is expected."""

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import certificate
from crash.bystander import Bystander
from crash.raw import LogTail, Raw, eventually, resident_size
from tidelog.testing.peer import ServerProcess, tidelog_argv

MIB = 1024 * 1024
HANDSHAKE_FAILED = "Client connection closed: TLS Handshake Failure"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """TLS for clients, and a plain websocket."""
    cert, key = certificate.issue().write(tmp_path_factory.mktemp("tls"), "server")
    config = f"""
        tls {{ cert_file: "{cert}", key_file: "{key}", timeout: 0.8 }}
        websocket {{ host: 127.0.0.1, port: -1, no_tls: true, handshake_timeout: "800ms" }}
        max_payload: 65536
        debug: true
    """
    with ServerProcess(tidelog_argv(), config=config) as running:
        yield running
        assert "Traceback" not in running.log
        assert "Internal error" not in running.log


@pytest.fixture(scope="module")
def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.authority().cert_pem.decode())


def client_hello(trust: ssl.SSLContext) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trust.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "TLS handshake error"),
        (bytes(range(256)) * 40, "TLS handshake error"),
        (b"\x16\x03\x01\xff\xff" + bytes(70_000), "TLS handshake error"),
        (b'CONNECT {"verbose":false}\r\nPING\r\n', "TLS handshake error"),
    ],
)
def test_no_handshake_at_all(server: ServerProcess, trust: ssl.SSLContext, said: bytes, logged: str) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port) as client:
        assert client.info()["tls_required"] is True
        client.send(said)
        assert b"PONG" not in client.rest()
        log.has(logged)
        log.has(HANDSHAKE_FAILED)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_half_a_handshake_times_out(server: ServerProcess, trust: ssl.SSLContext, share: float) -> None:
    log = LogTail(server)
    hello = client_hello(trust)
    with Bystander(server, tls=trust), Raw(server.port) as client:
        client.info()
        client.send(hello[: int(len(hello) * share)])
        client.rest()
        log.has("TLS handshake timeout")
        log.has(HANDSHAKE_FAILED)


def test_nonsense_behind_the_handshake(server: ServerProcess, trust: ssl.SSLContext) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port) as client:
        client.info()
        with trust.wrap_socket(client.socket, server_hostname="localhost") as secure:
            secure.sendall(b"NONSENSE\r\n")
            assert secure.recv(100) == b"-ERR 'Unknown Protocol Operation'\r\n"
            assert secure.recv(100) == b""
        log.has("parser error at b'NONSENSE")


def test_broken_records_behind_the_handshake(server: ServerProcess, trust: ssl.SSLContext) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port) as client:
        client.info()
        with trust.wrap_socket(client.socket.dup(), server_hostname="localhost"):
            client.send(b"\x17\x03\x03\x00\x20" + bytes(32))
            client.rest()
        log.has("read error: ")
        log.has("Client connection closed: Read Error")


def test_many_half_handshakes_are_bounded(server: ServerProcess, trust: ssl.SSLContext) -> None:
    hello = client_hello(trust)
    with Bystander(server, tls=trust) as bystander, ExitStack() as clients:
        before = resident_size(server.pid)
        for _ in range(200):
            client = clients.enter_context(Raw(server.port))
            client.info()
            client.send(hello[:-1])
        bystander.goes_on(20)
        assert resident_size(server.pid) - before < 40 * MIB
        for _ in eventually():
            if server.monitor_json("/varz")["connections"] == 1:
                break


# Websocket


def shake_hands(server: ServerProcess) -> Raw:
    client = Raw(server.port_of("websocket"))
    key = base64.b64encode(os.urandom(16)).decode()
    client.send(
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        ).encode()
    )
    assert client.line().startswith(b"HTTP/1.1 101 ")
    while client.line() != b"\r\n":
        pass
    opcode, payload = read_frame(client)
    assert opcode == 2
    assert payload.startswith(b"INFO ")
    return client


def read_frame(client: Raw) -> tuple[int, bytes]:
    first, size = client.lines.read(2)
    if size >= 126:
        size = int.from_bytes(client.lines.read(2 if size == 126 else 8))
    return first & 15, client.lines.read(size)


def masked(payload: bytes, *, first: int = 0x82) -> bytes:
    """A short frame, masked with zeros."""
    return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload


@pytest.mark.parametrize(
    "said",
    [b"\x00\xff garbage\r\n\r\n", b"CONNECT {}\r\nPING\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"],
)
def test_no_upgrade(server: ServerProcess, trust: ssl.SSLContext, said: bytes) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port_of("websocket")) as client:
        client.send(said)
        assert client.rest().startswith(b"HTTP/1.1 4")
        log.has("websocket handshake error")
        log.has("Client connection closed: Protocol Violation")


def test_half_an_upgrade_times_out(server: ServerProcess, trust: ssl.SSLContext) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port_of("websocket")) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
        client.rest()
        log.has("Websocket handshake timeout")


def test_an_endless_request_is_bounded(server: ServerProcess, trust: ssl.SSLContext) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), Raw(server.port_of("websocket")) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.send(b"GET / HTTP/1.1\r\n" + b"X-Header: aaaaaaaaaaaaaaaa\r\n" * 100_000)
        assert b" 101 " not in client.rest()
        log.has("websocket handshake error: ")
        log.has("Client connection closed: Protocol Violation")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x82\x04PING", 1002),  # not masked
        (b"\x82\xff" + (1 << 40).to_bytes(8) + bytes(4), 1009),
        (b"\xf2\x80" + bytes(4), 1002),  # reserved bits
        (b"\x83\x80" + bytes(4), 1002),  # an opcode that there is not
        (b"\x89\xfe\x01\x00" + bytes(4 + 256), 1002),  # a ping too long for control frames
        (masked(b"NONSENSE\r\n"), 1002),
        (masked(b"PUB a 65537\r\n"), 1009),
    ],
)
def test_bad_frames(server: ServerProcess, trust: ssl.SSLContext, frame: bytes, code: int) -> None:
    log = LogTail(server)
    with Bystander(server, tls=trust), shake_hands(server) as client:
        client.send(frame)
        opcode, payload = read_frame(client)
        if opcode == 2:
            assert payload.startswith(b"-ERR ")
            opcode, payload = read_frame(client)
        assert opcode == 8
        assert int.from_bytes(payload[:2]) == code
        assert client.rest() == b""
        log.has("Client connection closed: ")


def test_frames_that_never_end_hold_only_what_came(server: ServerProcess, trust: ssl.SSLContext) -> None:
    """Fifty clients announce eight million bytes each and send a few."""
    with Bystander(server, tls=trust) as bystander, ExitStack() as clients:
        before = resident_size(server.pid)
        for _ in range(50):
            client = clients.enter_context(shake_hands(server))
            client.send(b"\x82\xff" + (8_000_000).to_bytes(8) + bytes(4) + b"PING")
        bystander.goes_on(20)
        assert resident_size(server.pid) - before < 10 * MIB
