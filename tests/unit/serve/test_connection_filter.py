"""What waits between a filter and a socket that takes nothing, through a real pair of sockets."""

from collections.abc import Iterator, Sequence

import pytest

from tidelog.base.limits import FILTER_SEND_SIZE, OUTBOX_BLOCK_LAST
from tidelog.serve.filter import Bytes, FilterError
from unit.broker.house import House, with_limits
from unit.serve.test_connection_carry import Wire

MAX_PENDING = 8 * FILTER_SEND_SIZE


class Echo:
    """A filter that answers whatever comes, as a websocket answers pings, and lets nothing in."""

    established = True

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.queued: list[bytes] = []

    def receive(self, data: Bytes) -> list[Bytes]:
        self.queued += [bytes(data), b"answer"]
        return []

    def send(self, parts: Sequence[Bytes]) -> None:
        self.sent.append(sum(map(len, parts)))
        self.queued += map(bytes, parts)

    def take(self) -> list[bytes]:
        taken, self.queued = self.queued, []
        return taken

    def close(self, reason: str) -> None:
        pass

    def end(self) -> FilterError:
        return FilterError("Client Closed")


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(House(with_limits(max_pending=MAX_PENDING)))
    yield wire
    wire.close()


def test_who_asks_a_filter_and_never_reads_is_a_slow_consumer(wire: Wire) -> None:
    wire.connection.set_filter(Echo())
    asked = 0
    while not wire.session.closed and asked < 2 * MAX_PENDING:
        asked += 50_000
        wire.send(bytes(50_000))
    assert wire.session.reason == "Slow Consumer (Pending Bytes)"


def test_a_filter_is_given_no_more_at_once_than_it_may_hold(wire: Wire) -> None:
    stage = Echo()
    wire.connection.set_filter(stage)
    data = bytes(range(256)) * 12_000
    wire.session.recipient.write(data)
    wire.connection.flush()
    assert max(stage.sent) <= FILTER_SEND_SIZE + OUTBOX_BLOCK_LAST
    read = b""
    while len(read) < len(data):
        try:
            read += wire.far.recv(1_000_000)
        except BlockingIOError:
            wire.loop.write()
    assert read == data
    assert max(stage.sent) <= FILTER_SEND_SIZE + OUTBOX_BLOCK_LAST
    assert sum(stage.sent) == len(data)
