"""Producers that wait for a consumer: each reads on sooner or later, and nothing is kept of those that do."""

from collections.abc import Iterator

import pytest

from tidelog.base.limits import CONGESTED_SIZE
from unit.broker.house import Client, House, Waiting, with_limits
from unit.serve.test_connection_carry import Wire

MESSAGE = b"PUB a 65536\r\n%s\r\n" % bytes(65536)
MESSAGES = CONGESTED_SIZE // 65536 + 1


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def wire(waiting: Waiting) -> Iterator[Wire]:
    wire = Wire(House(with_limits(max_pending=4 * CONGESTED_SIZE), elsewhere=waiting))
    wire.send(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
    yield wire
    wire.close()


def consumer(wire: Wire) -> Client:
    client = Client(wire.house, "h", 2, "nats")
    client.connect()
    client.send(b"SUB a 1\r\n")
    return client


def test_a_consumer_that_stays_behind_is_waited_for_once_at_a_time(wire: Wire) -> None:
    slow = consumer(wire)
    wire.send(MESSAGE * MESSAGES)
    for _ in range(10):
        assert wire.loop.readers == {}
        assert list(slow.session.recipient.held_back or ()) == [wire.connection]
        wire.connection.release()
        assert not slow.session.recipient.held_back
        wire.send(b"PUB a 0\r\n\r\n")
    wire.connection.close()
    assert not slow.session.recipient.held_back


def test_who_was_suspended_reads_on_though_its_consumer_is_gone(wire: Wire) -> None:
    slow = consumer(wire)
    for number in range(2, 31):
        slow.send(b"SUB a %d\r\n" % number)
    slow.session.recipient.bound(CONGESTED_SIZE + 300_000)
    wire.session.suspend()
    wire.send(b"PUB a 40000\r\n%s\r\nPUB a 9000\r\n%s\r\n" % (bytes(40_000), bytes(9_000)))
    assert wire.loop.readers == {}
    wire.session.resume()
    assert slow.reason == "Slow Consumer (Pending Bytes)"
    assert len(wire.loop.readers) == 1


def test_a_fault_while_reading_on_ends_the_connection(wire: Wire) -> None:
    wire.session.suspend()
    wire.send(b"CONNECT {}\r\n")
    wire.house.broker.admission.connect_received = None  # type: ignore[method-assign, assignment]
    wire.session.resume()
    assert wire.failed == ["TypeError"]


def test_nobody_waits_where_that_is_not_wanted(wire: Wire) -> None:
    slow = consumer(wire)
    wire.house.broker.apply(with_limits(no_fast_producer_stall=True))
    wire.send(MESSAGE * MESSAGES)
    assert len(wire.loop.readers) == 1
    assert not slow.session.recipient.held_back
