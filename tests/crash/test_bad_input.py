"""Nonsense on a client's connection: the documented answer, a line in the log, and nobody else notices."""

import random
from collections.abc import Iterator

import pytest

from crash.bystander import Bystander
from crash.raw import LogTail, Raw, eventually, highest_size, resident_size
from tidelog.testing.peer import ServerProcess, tidelog_argv

MIB = 1024 * 1024
UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"
LINE_TOO_LONG = b"-ERR 'maximum control line exceeded'\r\n"
TOO_LARGE = b"-ERR 'Maximum Payload Violation'\r\n"
CLOSED = {
    UNKNOWN: "Protocol Violation",
    LINE_TOO_LONG: "Maximum Control Line Exceeded",
    TOO_LARGE: "Maximum Message Payload Exceeded",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """One server takes it all."""
    with ServerProcess(tidelog_argv(), config="max_payload: 65536\ndebug: true") as running:
        yield running
        assert "Traceback" not in running.log


@pytest.mark.parametrize(
    ("said", "answer", "logged"),
    [
        (b"\x00\xff\x80\x01garbage\r\n", UNKNOWN, "parser error at b'\\x00\\xff\\x80\\x01garbage"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", UNKNOWN, "parser error at b'GET / HTTP/1.1"),
        (b"FROB one two\r\n", UNKNOWN, "parser error at b'FROB one two"),
        (b"PUBX a 1\r\nx\r\n", UNKNOWN, "parser error at b'PUBX a 1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", UNKNOWN, "parser error at b'\\x16\\x03\\x01"),
        (b"PING" + b" " * 5000, LINE_TOO_LONG, "maximum control line exceeded"),
        (b"SUB " + b"a" * 5000, LINE_TOO_LONG, "maximum control line exceeded"),
        (b"PUB " + b"a" * 5000, LINE_TOO_LONG, "maximum control line exceeded"),
        (b"CONNECT " + b"{" * 5000, LINE_TOO_LONG, "maximum control line exceeded"),
        (b"PUB a 65537\r\n", TOO_LARGE, "maximum payload exceeded: 65537 vs 65536"),
        (b"PUB a 99999999999999999999\r\n", b"", "parse error"),
        (b"PUB a -1\r\n", b"", "parse error"),
        (b"PUB a\r\n", b"", "message parse error"),
        (b"HPUB a 20 10\r\n", b"", "message headers not supported"),
        (b"SUB a b c d\r\n", b"", "SUB parse error"),
        (b"PUB a 3\r\nabcdefg\r\n", UNKNOWN, "parser error at"),
        (b"CONNECT nonsense\r\n", b"", "CONNECT"),
        (b"CONNECT " + b"[" * 3000 + b"\r\n", b"", "CONNECT"),
    ],
)
def test_ends_who_talks_nonsense(server: ServerProcess, said: bytes, answer: bytes, logged: str) -> None:
    log = LogTail(server)
    with Bystander(server), Raw(server.port) as client:
        client.info()
        client.send(said)
        assert client.rest() == answer
        log.has(logged)
        assert any("[ERR]" in line and logged in line for line in log.text.splitlines())
        log.has(f"Client connection closed: {CLOSED.get(answer, '')}")


@pytest.mark.parametrize("said", [b"PUB " + b"a" * 6000, b"SUB " + b"a" * 6000, b"PING" + b" " * 6000])
def test_a_control_line_that_trickles_in_is_bounded_too(server: ServerProcess, said: bytes) -> None:
    with Bystander(server), Raw(server.port) as client:
        client.info()
        sent = 0
        client.socket.setblocking(False)
        for position in range(len(said)):
            try:
                client.socket.send(said[position : position + 1])
            except (BrokenPipeError, ConnectionResetError):
                break
            sent = position
        client.socket.settimeout(10)
        assert client.rest() in (LINE_TOO_LONG, b"")  # what stands in a reset connection may be lost
        assert sent > 4096


@pytest.mark.parametrize(
    "said", [b"PUB half 10\r\nabc", b"PUB half", b"S", b"HPUB half 12 20\r\nNATS/1.0\r\n"]
)
def test_half_a_message_is_forgotten_with_its_connection(server: ServerProcess, said: bytes) -> None:
    log = LogTail(server)
    with Bystander(server), Raw(server.port) as receiver:
        receiver.enter()
        receiver.send(b"SUB half 1\r\n")
        receiver.round_trip()
        with Raw(server.port) as client:
            client.enter(headers=True)
            client.send(said)
        log.has("Client connection closed: Client Closed")
        assert receiver.round_trip() == []


def test_half_messages_wait_without_holding_the_memory_they_announce(server: ServerProcess) -> None:
    """A thousand clients that announce 64 KiB each and send a byte of it."""
    before = resident_size(server.pid)
    clients = [Raw(server.port) for _ in range(1000)]
    try:
        with Bystander(server):
            for client in clients:
                client.info()
                client.send(b"CONNECT {}\r\nPUB half 65536\r\nx")
            assert clients[-1].line() == b"+OK\r\n"
            assert resident_size(server.pid) - before < 40 * MIB
    finally:
        for client in clients:
            client.socket.close()
            client.lines.close()


def test_garbage_from_many_at_once(server: ServerProcess) -> None:
    dice = random.Random(37)
    before = highest_size(server.pid)
    with Bystander(server):
        for _ in range(300):
            with Raw(server.port) as client:
                client.info()
                try:
                    client.send(dice.randbytes(dice.randint(1, 4000)))
                except (BrokenPipeError, ConnectionResetError):
                    continue
    assert highest_size(server.pid) - before < 20 * MIB


def test_those_who_are_gone_leave_nothing_behind(server: ServerProcess) -> None:
    for _ in eventually():
        if server.monitor_json("/varz")["connections"] == 0:
            return


def test_what_is_logged_cannot_forge_a_line(server: ServerProcess) -> None:
    log = LogTail(server)
    with Raw(server.port) as client:
        client.info()
        client.send(b"EVIL\x1b[2J\r\n[1] 2026/01/01 [FTL] gone\r\n")
        client.rest()
    log.has("parser error at")
    assert "\x1b" not in log.text
    assert "\n[1] 2026" not in log.text
