"""What a connection keeps of an operation that has not come whole, through a real pair of sockets."""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.base.limits import CARRY_IN_PLACE_SIZE, READ_BURST_SIZE
from tidelog.serve.connection import Connection, ReadBuffer
from unit.broker.house import House, with_limits


class Loop:
    """Reads and writes when told to."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        del self.readers[fd]

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> None:
        del self.writers[fd]

    def write(self) -> None:
        for callback in list(self.writers.values()):
            callback()

    def call_later(self, *_: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class Wire:
    """A connection of `house`. Connections of one server share their `buffer`."""

    def __init__(self, house: House, buffer: ReadBuffer | None = None) -> None:
        self.far, near = socket.socketpair()
        for end in (self.far, near):
            end.setblocking(False)
        self.loop = Loop()
        self.gone: list[str] = []
        self.failed: list[str] = []
        self.house = house
        self.buffer = buffer or ReadBuffer()
        server: Any = SimpleNamespace(
            read_buffer=self.buffer,
            flush_all=lambda: self.flush_all(),
            monotonic_ns=house.clock.monotonic_ns,
            now_ns=house.clock.now_ns,
            peer_gone=lambda _, reason: self.gone.append(reason),
            connection_closed=lambda _: None,
            connection_failed=lambda _, error: self.failed.append(type(error).__name__),
            write_deadline_s=10.0,
        )
        self.connection = Connection(server, self.loop, near.detach())
        self.clock = house.clock
        self.session = house.broker.open_session(self.connection, "h", 1)
        self.connection.attach(self.session)

    def flush_all(self) -> None:
        for recipient in self.house.broker.flushes.take():
            if isinstance(recipient.connection, Connection):
                recipient.connection.flush()

    def send(self, data: bytes, piece: int = 50_000) -> None:
        """All of it, in pieces that are received one by one. What a read leaves, the next one finds."""
        while data:
            data = data[self.far.send(data[:piece]) :]
            for _ in range(2):
                for callback in list(self.loop.readers.values()):
                    callback()

    def close(self) -> None:
        self.far.close()
        self.connection.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(House(with_limits(max_control_line=8_000_000, max_payload=8_000_000)))
    yield wire
    wire.close()


@pytest.mark.parametrize(
    "size", [CARRY_IN_PLACE_SIZE - 20, CARRY_IN_PLACE_SIZE + 1, READ_BURST_SIZE + 1, 3 * READ_BURST_SIZE]
)
def test_a_control_line_of_any_allowed_size_comes_through(wire: Wire, size: int) -> None:
    wire.send(b'CONNECT {"verbose":false,"name":"' + b"x" * size + b'"}\r\nSUB a 1\r\n')
    assert wire.gone == []
    assert wire.session.client_name == "x" * size
    assert wire.session.subscription_count == 1


@pytest.mark.parametrize("size", [CARRY_IN_PLACE_SIZE - 20, CARRY_IN_PLACE_SIZE + 1, 3 * READ_BURST_SIZE])
def test_a_payload_of_any_allowed_size_comes_through(wire: Wire, size: int) -> None:
    wire.send(b'CONNECT {"verbose":false}\r\nSUB a 1\r\n')
    wire.session.recipient.outbox.take()
    wire.flush_all = lambda: None  # type: ignore[method-assign]
    body = bytes(range(250)) * (size // 250)
    wire.send(b"PUB a %d\r\n%s\r\nPUB a 0\r\n\r\n" % (len(body), body))
    assert wire.gone == []
    said = b"".join(wire.session.recipient.outbox.take())
    assert said == b"MSG a 1 %d\r\n%s\r\nMSG a 1 0\r\n\r\n" % (len(body), body)


def test_each_part_of_a_large_payload_is_a_sign_of_life(wire: Wire) -> None:
    wire.send(b'CONNECT {"verbose":false}\r\nPUB a 500000\r\n' + b"x" * 200_000)
    wire.clock.advance(seconds=60)
    wire.send(b"x")
    assert wire.session.last_in_ns == wire.clock.monotonic_ns()


def test_activity_is_messages_that_come_and_go(wire: Wire) -> None:
    begun_ns = wire.session.last_activity_ns
    wire.clock.advance(seconds=1)
    wire.send(b"PING\r\n")
    assert wire.session.last_activity_ns == begun_ns
    wire.send(b"SUB a 1\r\n")
    wire.clock.advance(seconds=1)
    wire.send(b"PUB b 1\r\nx\r\n")
    assert wire.session.last_activity_ns == wire.clock.now_ns() > begun_ns
    wire.clock.advance(seconds=1)
    wire.flush_all()
    assert wire.session.last_activity_ns < wire.clock.now_ns()
    other = Wire(wire.house)
    other.send(b'CONNECT {"verbose":false}\r\nPUB a 1\r\nx\r\n')
    wire.flush_all()
    assert wire.session.last_activity_ns == wire.clock.now_ns()
    other.close()


def test_a_large_payload_with_a_wrong_size_is_told_at_once(wire: Wire) -> None:
    body = b"x" * (CARRY_IN_PLACE_SIZE + 1000)
    wire.send(b"PUB a %d\r\n%s\r\n" % (len(body) + 1, body))
    assert wire.session.reason == "Protocol Violation"


def test_servers_in_other_threads_receive_elsewhere() -> None:
    """While one reads a burst, Python may let the other go on (PARSE-4)."""
    one, other = (Wire(House(with_limits())) for _ in range(2))
    subscribe_refusal = one.house.broker.subscribe_refusal

    def meanwhile(*arguments: Any) -> str | None:
        other.send(b"PING\r\n" * 20)
        return subscribe_refusal(*arguments)

    one.house.broker.subscribe_refusal = meanwhile  # type: ignore[method-assign]
    one.send(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nSUB b 2\r\n')
    assert [subscription.subject for subscription in one.session.subscriptions()] == [b"a", b"b"]
    assert one.session.reason == ""
    one.close()
    other.close()
