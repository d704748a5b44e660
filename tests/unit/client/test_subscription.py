from collections.abc import Callable
from typing import Any

import pytest

from tidelog.base.errors import ClientError, Disconnected, Timeout
from tidelog.client import connect, subscription

Serve = Callable[..., str]
Peer = Any


def deliver(*payloads: bytes, then: Callable[[Peer], None] | None = None) -> Callable[[Peer], None]:
    """A script: after the subscription, these messages."""

    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"".join(b"MSG a 1 %d\r\n%b\r\n" % (len(payload), payload) for payload in payloads))
        if then:
            then(peer)
        else:
            peer.reader.read()

    return script


def test_messages_come_in_order_by_every_way_of_asking(serve: Serve) -> None:
    with connect(serve(deliver(b"1", b"2", b"3", b"4", b"5"))) as connection:
        inbound = connection.subscribe("a")
        assert inbound.next(5).payload == b"1"
        assert next(iter(inbound)).payload == b"2"
        found = [message.payload for message in inbound.next_batch(2, 5)]
        while len(found) < 3:
            found += [message.payload for message in inbound.next_batch(2, 5)]
        assert found == [b"3", b"4", b"5"]
        assert inbound.pending == 0


def test_next_gives_up_in_time(serve: Serve) -> None:
    with connect(serve(deliver())) as connection, pytest.raises(Timeout, match="no message on 'a'"):
        connection.subscribe("a").next(0.02)


def test_iteration_ends_after_the_last_wanted_message(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"UNSUB 1 2")
        peer.send(b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nMSG a 1 1\r\n3\r\n")
        peer.reader.read()

    with connect(serve(script)) as connection:
        inbound = connection.subscribe("a")
        inbound.unsubscribe(2)
        assert [message.payload for message in inbound] == [b"1", b"2"]
        with pytest.raises(Disconnected, match="has ended"):
            inbound.next(1)


def test_unsubscribe_ends_at_once_and_keeps_what_has_come(serve: Serve) -> None:
    def then(peer: Peer) -> None:
        assert peer.read_line() == b"UNSUB 1"

    with connect(serve(deliver(b"1", b"2", then=then))) as connection:
        inbound = connection.subscribe("a")
        inbound.next(5)
        inbound.unsubscribe()
        inbound.unsubscribe()
        assert [message.payload for message in inbound] in ([b"2"], [])


def test_drain_collects_what_was_on_its_way(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"UNSUB 1")
        peer.send(b"MSG a 1 1\r\n1\r\n")
        assert peer.read_line() == b"PING"
        peer.send(b"MSG a 1 1\r\n2\r\nPONG\r\n")

    connection = connect(serve(script))
    inbound = connection.subscribe("a")
    connection.drain()
    assert not connection.is_connected
    assert [message.payload for message in inbound] == [b"1", b"2"]


def test_iteration_raises_when_the_server_ends_the_connection(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"MSG a 1 1\r\n1\r\n")

    with connect(serve(script)) as connection:
        messages = iter(connection.subscribe("a"))
        assert next(messages).payload == b"1"
        with pytest.raises(Disconnected, match="closed the connection"):
            next(messages)


def test_a_queue_group_is_part_of_the_subscription(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        assert peer.read_line() == b"SUB a q 1"

    with connect(serve(script)) as connection:
        connection.subscribe("a", "q")


@pytest.mark.parametrize(("count_max", "size_max"), [(2, 10**9), (10**9, 1)], ids=["by count", "by size"])
def test_what_is_over_the_bounds_is_dropped_and_counted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, count_max: int, size_max: int
) -> None:
    monkeypatch.setattr(subscription, "PENDING_COUNT_MAX", count_max)
    monkeypatch.setattr(subscription, "PENDING_SIZE_MAX", size_max)

    def then(peer: Peer) -> None:
        peer.read_until(b"PING")
        peer.send(b"PONG\r\n")

    with connect(serve(deliver(b"1", b"2", b"3", then=then))) as connection:
        inbound = connection.subscribe("a")
        connection.flush()
        assert (inbound.pending, inbound.dropped) == (2, 1)
        assert [inbound.next(1).payload for _ in range(2)] == [b"1", b"2"]


def test_respond_needs_somebody_who_waits(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_until(b"SUB a 1")
        peer.send(b"MSG a 1 1\r\n1\r\nHMSG a 1 back 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nok\r\n")
        peer.read_until(b"PUB back 2")

    with connect(serve(script)) as connection:
        inbound = connection.subscribe("a")
        plain = inbound.next(5)
        assert (plain.headers, plain.reply, plain.header_block, plain.status) == ({}, "", b"", 0)
        with pytest.raises(ClientError, match="asks for no reply"):
            plain.respond(b"no")
        asking = inbound.next(5)
        assert repr(asking) == "Message('a', 2 bytes, reply='back')"
        assert asking.headers == {"A": ["b"]}
        asking.respond(b"ok")
