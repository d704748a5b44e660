"""Pull consumers: who gets what, how requests end, and what is counted."""

import pytest

from unit.stream.quay import Delivered, Quay

SECOND = 1_000_000_000


@pytest.fixture
def quay() -> Quay:
    return Quay()


def test_messages_come_once_in_order_with_what_is_left(quay: Quay) -> None:
    """CONSUMER-1, CONSUMER-2"""
    quay.stream()
    consumer = quay.consumer()
    quay.fill(5)
    got = quay.ask(consumer, b"3")
    assert [(one.subject, one.payload, one.numbers) for one in got] == [
        (b"S.0", b"0", (1, 1, 1, 4)),
        (b"S.0", b"1", (1, 2, 2, 3)),
        (b"S.0", b"2", (1, 3, 3, 2)),
    ]
    assert [one.numbers for one in quay.ask(consumer)] == [(1, 4, 4, 1)]
    assert quay.info(consumer).num_pending == 1


def test_a_request_that_waits_gets_what_is_stored_later(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    assert quay.ask(consumer, {"batch": 2, "expires": 5 * SECOND}) == []
    assert quay.info(consumer).num_waiting == 1
    quay.fill(3)
    assert [one.seq for one in quay.take()] == [1, 2]
    assert quay.info(consumer).num_waiting == 0


def test_requests_are_served_one_message_each_in_turn(quay: Quay) -> None:
    """CONSUMER-3"""
    quay.stream()
    consumer = quay.consumer()
    heard: dict[str, list[Delivered]] = {"a": [], "b": [], "c": []}
    for name, into in heard.items():
        quay.hear(f"own.{name}".encode(), into)
        quay.ask(consumer, {"batch": 2, "expires": SECOND}, f"own.{name}".encode())
    quay.fill(5)
    assert {name: [one.seq for one in into] for name, into in heard.items()} == {
        "a": [1, 4],
        "b": [2, 5],
        "c": [3],
    }


def test_a_request_ends_with_a_timeout_that_says_what_was_wanted(quay: Quay) -> None:
    """CONSUMER-4"""
    quay.stream()
    consumer = quay.consumer()
    quay.fill(1)
    got = quay.ask(consumer, {"batch": 3, "expires": SECOND, "max_bytes": 1000})
    assert [one.seq for one in got] == [1]
    quay.advance(1)
    (end,) = quay.take()
    assert end.status == "408 Request Timeout"
    assert b"Nats-Pending-Messages: 2\r\n" in end.header
    assert end.reply is None
    quay.advance(5)
    quay.fill(1)
    assert quay.take() == []


def test_heartbeats_come_while_a_request_waits(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    assert quay.ask(consumer, {"batch": 1, "expires": 2 * SECOND, "idle_heartbeat": SECOND // 2}) == []
    quay.advance(2)
    assert [one.status for one in quay.take()] == ["100 Idle Heartbeat"] * 3 + ["408 Request Timeout"]


def test_a_request_that_does_not_wait_is_told_when_there_is_nothing(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    assert [one.status for one in quay.ask(consumer, {"batch": 1, "no_wait": True})] == ["404 No Messages"]
    quay.fill(2)
    got = quay.ask(consumer, {"batch": 5, "no_wait": True})
    assert [one.seq for one in got[:2]] == [1, 2]
    assert [one.status for one in got[2:]] == ["404 No Messages"]


def test_a_request_that_does_not_wait_gives_way_to_those_that_were_there(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(max_ack_pending=1)
    quay.fill(3)
    assert len(quay.ask(consumer, {"batch": 4, "expires": 5 * SECOND})) == 1
    assert [one.status for one in quay.ask(consumer, {"batch": 2, "no_wait": True})] == [
        "408 Requests Pending"
    ]


def test_bytes_are_a_bound(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    for _ in range(3):
        quay.publish(b"S.a", b"x" * 100)
    got = quay.ask(consumer, {"batch": 10, "max_bytes": 300, "expires": SECOND})
    assert [one.reply is not None for one in got] == [True, True, False]
    assert got[-1].status == "409 Message Size Exceeds MaxBytes"
    got = quay.ask(consumer, {"batch": 1, "max_bytes": 3000, "expires": SECOND})
    assert [one.reply is not None for one in got] == [True, False]
    assert got[-1].status == "409 Batch Completed"


@pytest.mark.parametrize(
    ("config", "body", "status"),
    [
        ({"max_batch": 2}, b"3", "409 Exceeded MaxRequestBatch of 2"),
        (
            {"max_expires": 50_000_000},
            {"batch": 1, "expires": SECOND},
            "409 Exceeded MaxRequestExpires of 50ms",
        ),
        ({"max_bytes": 10}, {"batch": 1, "max_bytes": 11}, "409 Exceeded MaxRequestMaxBytes of 10"),
        (
            {},
            {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND},
            "400 Bad Request - heartbeat value too large",
        ),
        ({}, {"batch": 1, "min_pending": 1}, "400 Bad Request - Not a Overflow Priority consumer"),
        ({}, {"batch": 1, "id": "x"}, "400 Bad Request - Not a Pinned Client Priority consumer"),
        ({}, {"batch": 1, "priority": 10}, "400 Bad Request - Priority must be between 0 and 9"),
        ({}, b"{", "400 Bad Request - unexpected end of JSON input"),
    ],
)
def test_requests_that_ask_for_too_much_are_refused(
    quay: Quay, config: dict[str, int], body: object, status: str
) -> None:
    quay.stream()
    consumer = quay.consumer(**config)
    assert [one.status for one in quay.ask(consumer, body)] == [status]


def test_too_many_requests_are_refused_but_those_with_heartbeats(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(max_waiting=1)
    quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND})
    assert [one.status for one in quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND})] == [
        "409 Exceeded MaxWaiting"
    ]
    assert quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND, "idle_heartbeat": SECOND}) == []


def test_a_request_nobody_listens_to_gets_nothing(quay: Quay) -> None:
    """CONSUMER-4"""
    quay.stream()
    consumer = quay.consumer()
    quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND}, b"nobody.1")
    quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND}, b"inbox.1")
    quay.fill(1)
    assert [one.numbers for one in quay.take()] == [(1, 1, 1, 0)]
    assert quay.info(consumer).num_waiting == 0


def test_a_deleted_consumer_says_so_to_those_who_wait(quay: Quay) -> None:
    stream = quay.stream()
    consumer = quay.consumer()
    quay.ask(consumer, {"batch": 4, "expires": 5 * SECOND})
    stream.keeper.delete("c")
    (end,) = quay.take()
    assert end.status == "409 Consumer Deleted"
    assert end.header == b"NATS/1.0 409 Consumer Deleted\r\n\r\n"


def test_a_filter_lets_its_subjects_pass_and_counts_them(quay: Quay) -> None:
    """CONSUMER-1, CONSUMER-2"""
    stream = quay.stream()
    consumer = quay.consumer(filter_subjects=["S.1", "S.3"])
    quay.fill(20, subjects=5)
    got = quay.ask(consumer, b"3")
    assert [one.numbers for one in got] == [(1, 2, 1, 7), (1, 4, 2, 6), (1, 7, 3, 5)]
    stream.delete(12)
    assert quay.info(consumer).num_pending == 4
    quay.fill(5, subjects=5)
    assert [one.numbers for one in quay.ask(consumer, b"1")] == [(1, 9, 4, 5)]


def test_what_is_not_committed_does_not_come(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND})
    quay.send(b"S.a")
    assert quay.take() == []
    quay.engine.commit()
    assert [one.seq for one in quay.take()] == [1]


def test_only_consumers_that_want_a_message_are_looked_at(quay: Quay) -> None:
    """FOLLOW-1, CONSUMER-7"""
    stream = quay.stream()
    for number in range(50):
        consumer = quay.consumer(f"c{number}", filter_subject=f"S.{number}")
        quay.ask(consumer, {"batch": 2, "expires": 5 * SECOND})
    quay.send(b"S.elsewhere", reply=None)
    quay.send(b"S.7", reply=None)
    quay.engine.commit()
    assert [one.subject for one in quay.take()] == [b"S.7"]
    assert stream.log.horizon.waiting() == 50
    quay.send(b"S.7", reply=None)
    quay.engine.commit()
    assert [one.subject for one in quay.take()] == [b"S.7"]
    assert stream.log.horizon.waiting() == 49


def test_who_is_held_back_goes_on_when_what_it_waits_for_has_gone(quay: Quay) -> None:
    """CONSUMER-6: what waits for an acknowledgement goes with the message, and makes room."""
    stream = quay.stream(max_msgs=3)
    consumer = quay.consumer(filter_subject="S.0", max_ack_pending=1)
    quay.fill(2)
    assert [one.seq for one in quay.ask(consumer, {"batch": 2, "expires": 5 * SECOND})] == [1]
    for _ in range(2):
        quay.send(b"S.other", reply=None)
    quay.engine.commit()
    assert stream.log.store.first_seq == 2
    assert [one.seq for one in quay.take()] == [2]


def test_an_idle_consumer_costs_no_timer_and_is_in_no_list(quay: Quay) -> None:
    """CONSUMER-7"""
    stream = quay.stream()
    for number in range(100):
        quay.consumer(f"c{number}")
    assert quay.timers.next_due_ns() is None
    quay.fill(3)
    assert stream.log.horizon.waiting() == 0
    consumer = quay.consumer("last")
    quay.fetch(consumer, 10)
    assert stream.log.horizon.waiting() == 0
