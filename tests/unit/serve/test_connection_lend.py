"""Large messages are written from where they were received, and nobody sees what comes there next (NET-2)."""

from collections.abc import Iterator

import pytest

from tidelog.base.limits import BORROW_SIZE, CARRY_IN_PLACE_SIZE, CONGESTED_SIZE, LEND_BURST_SIZE
from unit.broker.house import House, with_limits
from unit.serve.test_connection_carry import Wire

PIECE = 100_000
CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'


class Pair:
    """A publisher and a subscriber of one server."""

    def __init__(self) -> None:
        self.house = House(with_limits(max_pending=64 * CONGESTED_SIZE, max_payload=4 * CONGESTED_SIZE))
        self.publisher = Wire(self.house)
        self.subscriber = Wire(self.house, self.publisher.buffer)
        self.publisher.send(CONNECT)
        self.subscriber.send(CONNECT + b"SUB a 1\r\n")
        self.number = 0
        self.expected = bytearray()
        self.got = bytearray()

    def messages(self, count: int, size: int) -> bytes:
        """PUB operations, each of other bytes, whose deliveries are expected from now on."""
        sent = bytearray()
        for _ in range(count):
            self.number += 1
            body = bytes((self.number + place) % 251 for place in range(251)) * (size // 251 + 1)
            sent += b"PUB a %d\r\n%s\r\n" % (size, body[:size])
            self.expected += b"MSG a 1 %d\r\n%s\r\n" % (size, body[:size])
        return bytes(sent)

    def read(self) -> None:
        while True:
            try:
                self.got += self.subscriber.far.recv(1_000_000)
            except BlockingIOError:
                return

    def read_all(self) -> None:
        self.subscriber.flush_all()
        self.read()
        while self.subscriber.loop.writers:
            self.subscriber.loop.write()
            self.read()
        assert self.got == self.expected

    @property
    def pending(self) -> int:
        return self.subscriber.session.pending_size


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    pair.read()
    pair.got.clear()
    yield pair
    pair.publisher.close()
    pair.subscriber.close()


@pytest.mark.parametrize("size", [BORROW_SIZE, 16_384, PIECE + CARRY_IN_PLACE_SIZE])
def test_a_consumer_that_does_not_read_gets_every_byte_later(pair: Pair, size: int) -> None:
    for _ in range(5):
        pair.publisher.send(pair.messages(2 * PIECE // size, size), PIECE)
    assert pair.pending > 0
    pair.read_all()


def test_large_messages_of_a_large_burst_leave_with_it(pair: Pair) -> None:
    pair.publisher.send(pair.messages(LEND_BURST_SIZE // 16_384 + 1, 16_384), PIECE)
    assert pair.pending == 0
    pair.read_all()


@pytest.mark.parametrize("burst", [LEND_BURST_SIZE - 1, LEND_BURST_SIZE])
def test_those_of_a_smaller_burst_leave_with_the_tick(pair: Pair, burst: int) -> None:
    large = pair.messages(3, 16_384)
    filler = b"PING\r\n" * ((burst - len(large)) // 6)
    pair.publisher.send((large + filler).ljust(burst, b" "), PIECE)
    assert (pair.pending > 0) is (burst < LEND_BURST_SIZE)
    pair.read_all()


@pytest.mark.parametrize("tail", [BORROW_SIZE - 1, BORROW_SIZE])
def test_small_messages_leave_with_the_tick(pair: Pair, tail: int) -> None:
    size = tail - len(b"4000\r\n" + b"\r\n")
    pair.publisher.send(pair.messages(PIECE // tail, size), PIECE)
    assert (pair.pending > 0) is (tail < BORROW_SIZE)
    pair.read_all()


def test_an_operation_that_is_put_together_elsewhere_is_copied(pair: Pair) -> None:
    """Two blanks: what is delivered does not stand in the buffer like that."""
    sent = pair.messages(2 * PIECE // 16_384, 16_384).replace(b"PUB a 1", b"PUB a  1")
    pair.publisher.send(sent, PIECE)
    pair.read_all()


def test_a_fault_in_the_middle_of_a_burst_takes_nothing_from_the_others(pair: Pair) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    pair.house.broker.subscribe_refusal = fail  # type: ignore[method-assign, assignment]
    pair.publisher.send(pair.messages(5, 16_384) + b"SUB b 1\r\n", PIECE)
    assert pair.publisher.failed == ["RuntimeError"]
    other = Wire(pair.house, pair.publisher.buffer)
    other.send(CONNECT + b"PUB b 60000\r\n" + b"-" * 60_000 + b"\r\n")
    other.close()
    pair.read_all()


def test_who_has_been_written_holds_nobody_back(pair: Pair) -> None:
    """Deliveries of one burst may be more than what counts as congested, and be gone with it."""
    for number in range(2, 2 + CONGESTED_SIZE // 60_000):
        pair.subscriber.send(b"SUB b %d\r\n" % number)
    pair.subscriber.flush_all = lambda: None  # type: ignore[method-assign]
    body = bytes(30_000)
    pair.publisher.send(b"PUB b %d\r\n%s\r\n" % (len(body), body) * 3, PIECE)
    assert pair.pending > 0
    assert pair.publisher.loop.readers == {}
