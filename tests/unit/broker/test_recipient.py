"""The recipient: slow consumers, pauses for producers, and the queue of those with something to send."""

import pytest

from tidelog.base.limits import CONGESTED_SIZE
from tidelog.broker.settings import Authorization, BrokerSettings, Permissions, ResponseRights, User
from unit.broker.house import House

DELIVERY = b"MSG foo 1 10\r\n0123456789\r\n"
PUBLISH = b"PUB foo 10\r\n0123456789\r\n"


@pytest.mark.parametrize("room", [-1, 0, 1])
def test_who_lets_more_than_max_pending_wait_is_slow(room: int) -> None:
    """SESS-10: exactly so much may wait, and nobody else notices."""
    house, count = House(), 3
    slow, quick, publisher = house.client(), house.client(), house.client()
    slow.session.recipient.bound(count * len(DELIVERY) + room)
    for client in (slow, quick):
        client.send(b"SUB foo 1\r\n")
    for _ in range(count):
        publisher.send(PUBLISH)
        assert quick.read() == DELIVERY
    assert slow.reason == ("Slow Consumer (Pending Bytes)" if room < 0 else "")
    publisher.send(PUBLISH)
    assert quick.read() == DELIVERY
    assert slow.reason == "Slow Consumer (Pending Bytes)"
    # No last words, and what waited is not sent.
    assert (slow.ended, slow.read()) == (False, b"")
    assert (house.broker.slow_consumers, house.broker.account("$G").slow_consumers) == (1, 1)
    assert (publisher.reason, quick.reason) == ("", "")
    lines = [line for line in house.log.of("info") if "Slow Consumer Detected" in line]
    assert len(lines) == 1


def test_a_session_may_become_slow_by_its_own_messages() -> None:
    house = House()
    client = house.client()
    client.session.recipient.bound(100)
    client.send(b"SUB foo 1\r\nUNSUB 1 50\r\n" + PUBLISH * 20)
    assert client.reason == "Slow Consumer (Pending Bytes)"
    assert client.session.in_msgs < 20
    assert house.broker.subscription_count == 0


def test_a_service_that_becomes_slow_with_a_request_is_closed_once() -> None:
    """What is noted of the delivery concerns a session that has ended by it."""
    permissions = Permissions(responses=ResponseRights())
    users = (User("u", "p", permissions=permissions), User("v", "p"))
    house = House(BrokerSettings(authorization=Authorization(users=users)), trace=True)
    service = house.client(user="u", **{"pass": "p"})
    asker = house.client(user="v", **{"pass": "p"})
    service.session.recipient.bound(20)
    service.send(b"SUB foo 1\r\nUNSUB 1 1\r\n")
    asker.send(b"PUB foo r 10\r\n0123456789\r\n")
    assert service.reason == "Slow Consumer (Pending Bytes)"
    assert house.broker.subscription_count == 0
    assert house.broker.slow_consumers == 1


def test_a_producer_is_remembered_when_it_fills_an_outbox() -> None:
    house = House()
    consumer, producer = house.client(), house.client()
    consumer.send(b"SUB foo 1\r\n")
    payload = b"x" * 100_000
    message = b"PUB foo %d\r\n%s\r\n" % (len(payload), payload)
    while consumer.session.pending_size + len(message) < CONGESTED_SIZE:
        producer.send(message)
        assert producer.session.recipient.congested_by is None
    producer.send(message)
    assert producer.session.recipient.congested_by is consumer.session.recipient
    # Own messages never pause anybody.
    producer.session.recipient.congested_by = None
    consumer.send(message)
    assert consumer.session.recipient.congested_by is None


def test_who_has_something_to_send_waits_in_line_once() -> None:
    house = House()
    told = []
    one, two = house.client(), house.client()
    house.broker.flushes.take()
    house.broker.flushes.wake = lambda: told.append("wake")
    one.send(b"SUB foo 1\r\nPING\r\n")
    two.send(b"SUB foo 1\r\n" + PUBLISH * 3)
    assert house.broker.flushes.take() == [one.session.recipient, two.session.recipient]
    assert told == ["wake"]
    assert house.broker.flushes.take() == []
    two.send(b"PING\r\n")
    assert house.broker.flushes.take() == [two.session.recipient]
    assert told == ["wake", "wake"]


def test_the_bound_may_change() -> None:
    house = House()
    client = house.client()
    client.session.recipient.bound(10)
    assert client.session.recipient.max_pending == 10
    client.send(b"PING\r\nPING\r\n")
    assert client.reason == "Slow Consumer (Pending Bytes)"
