"""Acknowledgements, and what comes again without them."""

import msgspec
import pytest

from unit.stream.quay import Quay

SECOND = 1_000_000_000


@pytest.fixture
def quay() -> Quay:
    return Quay()


def test_what_is_acknowledged_does_not_come_again(quay: Quay) -> None:
    """CONSUMER-5"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(3)
    first, second, third = quay.fetch(consumer, 3)
    quay.ack(second, b"")
    quay.advance(2)
    again = quay.fetch(consumer, 3)
    assert [one.numbers for one in again] == [(2, 1, 4, 0), (2, 3, 5, 0)]
    quay.ack(again[0], b"+OK")
    quay.ack(third)
    quay.advance(5)
    assert quay.fetch(consumer, 3) == []
    assert quay.info(consumer).num_ack_pending == 0
    del first


def test_a_late_acknowledgement_counts_while_it_waits_to_come_again(quay: Quay) -> None:
    """CONSUMER-5"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(2)
    first, second = quay.fetch(consumer, 2)
    quay.advance(2)
    quay.ack(first)
    assert [one.seq for one in quay.fetch(consumer, 2)] == [2]
    assert quay.info(consumer).num_redelivered == 1
    quay.ack(second)
    assert quay.info(consumer).num_redelivered == 0


def test_the_floor_is_in_front_of_the_oldest_that_waits(quay: Quay) -> None:
    """CONSUMER-6"""
    quay.stream()
    consumer = quay.consumer(filter_subject="S.1")
    quay.fill(8, subjects=2)
    got = quay.fetch(consumer, 4)
    assert [one.seq for one in got] == [2, 4, 6, 8]
    quay.ack(got[1])
    assert consumer.floors() == (0, 0)
    quay.ack(got[0])
    assert consumer.floors() == (2, 5)
    quay.ack(got[3])
    quay.ack(got[2])
    assert consumer.floors() == (4, 8)


def test_no_more_wait_than_may(quay: Quay) -> None:
    """CONSUMER-6"""
    quay.stream()
    consumer = quay.consumer(max_ack_pending=2)
    quay.fill(5)
    got = quay.ask(consumer, {"batch": 5, "expires": 60 * SECOND})
    assert [one.seq for one in got] == [1, 2]
    quay.ack(got[1])
    assert [one.seq for one in quay.take()] == [3]
    quay.ack(got[0])
    assert [one.numbers for one in quay.take()] == [(1, 4, 4, 1)]


def test_a_message_comes_as_often_as_it_may_and_is_told_of(quay: Quay) -> None:
    """CONSUMER-5"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND, max_deliver=2)
    quay.fill(1)
    for count in (1, 2):
        (message,) = quay.fetch(consumer, 1)
        assert message.numbers[0] == count
        quay.advance(1.1)
    assert quay.fetch(consumer, 1) == []
    (event,) = quay.told("max_deliver")
    assert event["subject"] == "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.c"
    assert (event["stream_seq"], event["deliveries"], event["stream"], event["consumer"]) == (1, 2, "S", "c")
    info = quay.info(consumer)
    assert (info.num_ack_pending, info.num_redelivered) == (0, 1)
    # As at the peer the floor moves with what is acknowledged.
    assert consumer.floors() == (0, 0)
    quay.fill(1)
    quay.ack(quay.fetch(consumer, 1)[0])
    assert consumer.floors() == (3, 2)


def test_nak_brings_it_again_at_once_or_when_asked(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(ack_wait=10 * SECOND)
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    quay.ack(message, b"-NAK")
    (message,) = quay.fetch(consumer, 1)
    assert message.numbers == (2, 1, 2, 0)
    for body in (b'-NAK {"delay": 2000000000}', b"-NAK 2s"):
        quay.ack(message, body)
        quay.advance(1)
        assert quay.fetch(consumer, 1) == []
        quay.advance(1.1)
        (message,) = quay.fetch(consumer, 1)
    assert message.numbers == (4, 1, 4, 0)
    assert [event["deliveries"] for event in quay.told("nak")] == [1, 2, 3]


def test_nak_goes_to_a_request_that_waits(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.fill(1)
    (message,) = quay.ask(consumer, {"batch": 2, "expires": 60 * SECOND})
    quay.ack(message, b"-NAK")
    assert [one.numbers for one in quay.take()] == [(2, 1, 2, 0)]


def test_work_under_way_counts_the_time_anew(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    for _ in range(3):
        quay.advance(0.8)
        quay.ack(message, b"+WPI")
    assert quay.fetch(consumer, 1) == []
    quay.advance(1.1)
    assert [one.numbers[0] for one in quay.fetch(consumer, 1)] == [2]


def test_work_on_what_was_to_come_again_is_timed_anew(quay: Quay) -> None:
    """CONSUMER-5"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    quay.advance(1.5)
    quay.ack(message, b"+WPI")
    assert quay.fetch(consumer, 1) == []
    quay.advance(1.1)
    assert [one.numbers[0] for one in quay.fetch(consumer, 1)] == [2]


def test_a_terminated_message_does_not_come_again_and_is_told_of(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    quay.ack(message, b"+TERM because of it")
    quay.advance(2)
    assert quay.fetch(consumer, 1) == []
    (event,) = quay.told("terminated")
    assert event["reason"] == "because of it"
    assert (event["consumer_seq"], event["stream_seq"], event["deliveries"]) == (1, 1, 1)


def test_next_acknowledges_and_asks_for_more(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.fill(4)
    (message,) = quay.fetch(consumer, 1)
    quay.ack(message, b"+NXT", b"inbox.2")
    assert [one.seq for one in quay.take()] == [2]
    assert consumer.floors() == (1, 1)
    quay.ack(message, b'+NXT {"batch": 2}', b"inbox.2")
    assert [one.seq for one in quay.take()] == [3, 4]


def test_whoever_asks_is_told_that_an_acknowledgement_was_seen(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    for body in (b"+WPI", b"+ACK", b"+ACK"):
        quay.ack(message, body, b"inbox.ack")
        assert [(one.payload, one.header, one.reply) for one in quay.take()] == [(b"", b"", None)]
    # What was never delivered is not confirmed.
    quay.account.post.publish(b"$JS.ACK.S.c.1.9.9.1.0", b"+ACK", reply=b"inbox.ack")
    assert quay.take() == []


def test_all_before_it_are_acknowledged_too(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(ack_policy="all", ack_wait=SECOND)
    quay.fill(5)
    got = quay.fetch(consumer, 5)
    quay.ack(got[2])
    assert quay.info(consumer).num_ack_pending == 2
    assert consumer.floors() == (3, 3)
    quay.advance(1.1)
    assert [one.seq for one in quay.fetch(consumer, 5)] == [4, 5]


def test_backoff_says_how_long_each_time(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(backoff=[SECOND, 3 * SECOND], max_deliver=4)
    quay.fill(1)
    quay.fetch(consumer, 1)
    waited = []
    for _ in range(2):
        seconds = 0.0
        while not quay.fetch(consumer, 1):
            quay.advance(0.25)
            seconds += 0.25
        waited.append(seconds)
    assert waited == [1.0, 3.0]


def test_a_message_that_is_removed_is_not_waited_for(quay: Quay) -> None:
    stream = quay.stream()
    consumer = quay.consumer()
    quay.fill(3)
    quay.fetch(consumer, 3)
    stream.delete(2)
    assert quay.info(consumer).num_ack_pending == 2
    (event,) = quay.told("terminated")
    assert event["reason"] == "Unacknowledged message was deleted"
    stream.purge()
    info = quay.info(consumer)
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    assert info.ack_floor.stream_seq == 3


def test_acknowledgements_are_sampled(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(sample_freq="100")
    quay.fill(1)
    (message,) = quay.fetch(consumer, 1)
    quay.advance(2)
    quay.ack(message)
    (event,) = quay.told("consumer_ack")
    assert event["subject"] == "$JS.EVENT.METRIC.CONSUMER.ACK.S.c"
    assert event["ack_time"] == 2 * SECOND


def test_a_work_queue_lets_go_of_what_is_acknowledged(quay: Quay) -> None:
    stream = quay.stream(retention="workqueue")
    consumer = quay.consumer()
    quay.fill(3)
    got = quay.fetch(consumer, 3)
    quay.ack(got[1], reply=b"inbox.ack")
    quay.engine.commit()
    assert stream.log.state().messages == 2
    quay.ack(got[0], b"+TERM")
    quay.ack(got[2])
    quay.engine.commit()
    assert stream.log.state().messages == 0
    assert quay.told("terminated")[0]["stream_seq"] == 1


def test_with_interest_a_message_stays_while_somebody_needs_it(quay: Quay) -> None:
    stream = quay.stream(retention="interest")
    one, other = quay.consumer("one"), quay.consumer("other", filter_subject="S.1")
    quay.fill(4, subjects=2)
    for message in quay.fetch(one, 4):
        quay.ack(message)
    assert [message.seq for message in quay.fetch(other, 4)] == [2, 4]
    quay.engine.commit()
    assert stream.log.state().messages == 2
    stream.keeper.delete("other")
    quay.engine.commit()
    assert stream.log.state().messages == 0


def test_what_is_no_acknowledgement_changes_nothing(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.fill(1)
    quay.fetch(consumer, 1)
    for subject in (b"$JS.ACK.S.c", b"$JS.ACK.S.c.x.y.z.0.0", b"$JS.ACK.S.other.1.1.1.1.0", b"$JS.ACK."):
        quay.account.post.publish(subject, b"+ACK")
    assert quay.info(consumer).num_ack_pending == 1
    quay.account.post.publish(b"$JS.ACK._.hash.S.c.1.1.1.1.0", b"+ACK")
    assert quay.info(consumer).num_ack_pending == 0
    assert msgspec.json.encode(quay.info(consumer))


def test_an_acknowledgement_that_nobody_wants_is_not_taken(quay: Quay) -> None:
    quay.stream()
    quay.fill(1)
    silent = quay.consumer("silent", ack_policy="none")
    (message,) = quay.fetch(silent, 1)
    assert message.reply is not None
    assert quay.account.post.publish(message.reply, b"+ACK", reply=b"inbox.2") == 0
    (wanted,) = quay.fetch(quay.consumer("wanted"), 1)
    assert wanted.reply is not None
    assert quay.account.post.publish(wanted.reply, b"+ACK", reply=b"inbox.2") == 1
