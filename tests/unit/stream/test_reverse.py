"""Consumers that read backwards."""

import pytest

from tidelog.base.instant import timestamp
from tidelog.stream.failure import ApiFailure
from unit.stream.quay import Quay

SECOND = 1_000_000_000


@pytest.fixture
def quay() -> Quay:
    return Quay()


def test_messages_come_newest_first_and_then_the_end(quay: Quay) -> None:
    """CONSUMER-11, CONSUMER-2"""
    quay.stream()
    quay.fill(5)
    consumer = quay.consumer(direction="reverse", ack_policy="none")
    assert quay.info(consumer).num_pending == 5
    got = quay.ask(consumer, {"batch": 3, "expires": SECOND})
    assert [one.numbers for one in got] == [(1, 5, 1, 4), (1, 4, 2, 3), (1, 3, 3, 2)]
    # What is stored later is not part of it.
    quay.fill(2)
    got = quay.ask(consumer, {"batch": 3, "expires": SECOND})
    assert [one.numbers for one in got[:2]] == [(1, 2, 4, 1), (1, 1, 5, 0)]
    assert got[2].header == b"NATS/1.0 404 No Messages\r\nTidelog-End: range\r\n\r\n"
    for body in ({"batch": 1, "no_wait": True}, {"batch": 1, "expires": SECOND}):
        (end,) = quay.ask(consumer, body)
        assert b"Tidelog-End: range" in end.header
    info = quay.info(consumer)
    assert (info.num_pending, info.delivered.stream_seq, info.num_waiting) == (0, 1, 0)


def test_it_begins_where_it_is_told_and_takes_what_it_wants(quay: Quay) -> None:
    """CONSUMER-11"""
    quay.stream()
    quay.fill(6, subjects=2)
    late = quay.clock.now_ns()
    quay.advance(10)
    quay.fill(6, subjects=2)
    fields = {"direction": "reverse", "ack_policy": "none"}
    one = quay.consumer(
        "one", deliver_policy="by_start_sequence", opt_start_seq=9, filter_subject="S.1", **fields
    )
    other = quay.consumer("other", deliver_policy="by_start_time", opt_start_time=timestamp(late), **fields)
    assert [each.numbers[1::2] for each in quay.fetch(one, 100)] == [(8, 3), (6, 2), (4, 1), (2, 0)]
    assert [each.seq for each in quay.fetch(other, 100)] == [6, 5, 4, 3, 2, 1]


def test_it_goes_on_after_a_restart_and_over_what_has_gone(quay: Quay) -> None:
    """CONSUMER-11"""
    stream = quay.stream()
    quay.fill(6)
    consumer = quay.consumer(direction="reverse", ack_policy="none")
    assert [one.seq for one in quay.fetch(consumer, 2)] == [6, 5]
    stream.delete(3)
    quay.restart()
    consumer = quay.account.find("S").consumers["c"]
    assert [one.numbers[1::2] for one in quay.fetch(consumer, 9)] == [(4, 2), (2, 1), (1, 0)]


@pytest.mark.parametrize(
    "fields",
    [
        {"ack_policy": "explicit"},
        {"deliver_subject": "d"},
        {"deliver_policy": "new"},
        {"replay_policy": "original"},
    ],
)
def test_what_makes_no_sense_backwards_is_refused(quay: Quay, fields: dict[str, str]) -> None:
    quay.stream()
    with pytest.raises(ApiFailure, match="consumer in reverse"):
        quay.consumer(direction="reverse", **{"ack_policy": "none"} | fields)
