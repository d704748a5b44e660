"""Push consumers: interest, queue groups, flow control, heartbeats, rate and replay."""

import pytest

from tidelog.base.instant import timestamp
from unit.stream.quay import Delivered, Quay

SECOND = 1_000_000_000


@pytest.fixture
def quay() -> Quay:
    return Quay()


def test_messages_are_pushed_as_they_come(quay: Quay) -> None:
    """CONSUMER-1"""
    quay.stream()
    quay.fill(2)
    consumer = quay.consumer(deliver_subject="inbox.push", ack_policy="none")
    assert [one.numbers for one in quay.take()] == [(1, 1, 1, 1), (1, 2, 2, 0)]
    quay.fill(1)
    assert [one.numbers for one in quay.take()] == [(1, 3, 3, 0)]
    info = quay.info(consumer)
    assert info.push_bound
    assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == (3, 3)


def test_nothing_is_pushed_before_somebody_listens_and_all_of_it_then(quay: Quay) -> None:
    quay.stream()
    quay.fill(2)
    consumer = quay.consumer(deliver_subject="late.push")
    assert not quay.info(consumer).push_bound
    subscription = quay.hear(b"late.*")
    assert [one.seq for one in quay.take()] == [1, 2]
    quay.interest.remove(subscription)
    assert not quay.info(consumer).push_bound
    quay.fill(1)
    assert quay.info(consumer).num_pending == 1
    quay.hear(b"late.push")
    assert [one.seq for one in quay.take()] == [3]


def test_members_of_a_queue_group_share(quay: Quay) -> None:
    quay.stream()
    one: list[Delivered] = []
    other: list[Delivered] = []
    quay.hear(b"work", one, b"q")
    quay.hear(b"work", other, b"q")
    quay.consumer(deliver_subject="work", deliver_group="q")
    quay.fill(100)
    assert len(one) + len(other) == 100
    assert one
    assert other


def test_what_is_not_acknowledged_is_pushed_again(quay: Quay) -> None:
    """CONSUMER-5"""
    quay.stream()
    quay.consumer(deliver_subject="inbox.push", ack_wait=SECOND)
    quay.fill(2)
    first, _second = quay.take()
    quay.ack(first)
    quay.advance(1.1)
    assert [one.numbers for one in quay.take()] == [(2, 2, 3, 0)]


def test_heartbeats_come_when_nothing_else_does(quay: Quay) -> None:
    quay.stream()
    quay.consumer(deliver_subject="inbox.push", ack_policy="none", idle_heartbeat=SECOND)
    quay.fill(1)
    quay.take()
    quay.advance(0.9)
    assert quay.take() == []
    quay.advance(1.2)
    beats = quay.take()
    assert [one.header for one in beats] == [
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"
    ] * len(beats)
    assert len(beats) == 2
    quay.fill(1)
    quay.take()
    quay.advance(0.9)
    assert quay.take() == []


def test_flow_control_asks_and_stops_without_an_answer(quay: Quay) -> None:
    quay.stream()
    quay.consumer(
        deliver_subject="inbox.push", ack_policy="none", flow_control=True, idle_heartbeat=10 * SECOND
    )
    for _ in range(8):
        for _ in range(8):
            quay.send(b"S.a", b"x" * 100_000, reply=None)
        quay.engine.commit()
    got = quay.take()
    (question,) = [one for one in got if one.status == "100 FlowControl Request"]
    assert question.reply is not None
    assert question.reply.startswith(b"$JS.FC.S.c.")
    delivered = [one for one in got if one.payload]
    assert 2 * 1024 * 1024 <= len(delivered) * 100_000 < 2_400_000
    quay.advance(10)
    (beat,) = quay.take()
    assert b"Nats-Consumer-Stalled: " + question.reply in beat.header
    quay.account.post.publish(b"$JS.FC.S.c.none", b"")
    assert quay.take() == []
    quay.account.post.publish(question.reply, b"")
    quay.advance(0.01)
    got = quay.take()
    assert next(one.seq for one in got if one.payload) == len(delivered) + 1
    assert len([one for one in got if one.payload]) > len(delivered)


def test_a_rate_is_kept(quay: Quay) -> None:
    quay.stream(max_msg_size=1000)
    quay.fill(0)
    for _ in range(20):
        quay.send(b"S.a", b"x" * 950, reply=None)
    quay.engine.commit()
    # A thousand bytes a second.
    quay.consumer(deliver_subject="inbox.push", ack_policy="none", rate_limit_bps=8000)
    came = len(quay.take())
    assert came <= 2
    quay.advance(5)
    assert 3 <= len(quay.take()) <= 6


def test_replay_takes_the_time_that_it_took(quay: Quay) -> None:
    quay.stream()
    for _ in range(3):
        quay.fill(1)
        quay.advance(1)
    quay.consumer(deliver_subject="inbox.push", ack_policy="none", replay_policy="original")
    assert [one.seq for one in quay.take()] == [1]
    quay.advance(0.5)
    assert quay.take() == []
    quay.advance(0.6)
    assert [one.seq for one in quay.take()] == [2]
    quay.advance(1)
    assert [one.seq for one in quay.take()] == [3]
    quay.fill(1)
    quay.fill(1)
    assert [one.seq for one in quay.take()] == [4, 5]


def test_headers_only_says_how_large_the_payload_was(quay: Quay) -> None:
    quay.stream()
    quay.consumer(deliver_subject="inbox.push", ack_policy="none", headers_only=True)
    quay.publish(b"S.a", b"12345")
    quay.publish(b"S.a", b"123", Own="1")
    got = [one for one in quay.take() if one.reply]
    assert [(one.header, one.payload) for one in got] == [
        (b"NATS/1.0\r\nNats-Msg-Size: 5\r\n\r\n", b""),
        (b"NATS/1.0\r\nOwn: 1\r\nNats-Msg-Size: 3\r\n\r\n", b""),
    ]


def test_one_that_is_not_used_goes(quay: Quay) -> None:
    stream = quay.stream()
    quay.consumer(
        "push", durable_name="", deliver_subject="late.push", ack_policy="none", inactive_threshold=SECOND
    )
    subscription = quay.hear(b"late.push")
    quay.advance(5)
    assert list(stream.consumers) == ["push"]
    quay.interest.remove(subscription)
    quay.advance(0.5)
    subscription = quay.hear(b"late.push")
    quay.advance(5)
    assert list(stream.consumers) == ["push"]
    quay.interest.remove(subscription)
    quay.advance(1.1)
    assert list(stream.consumers) == []
    assert [event["action"] for event in quay.told("consumer_action")] == ["create", "delete"]


def test_a_pull_consumer_goes_when_nobody_asks_any_more(quay: Quay) -> None:
    stream = quay.stream()
    consumer = quay.consumer("pull", durable_name="", inactive_threshold=SECOND)
    quay.ask(consumer, {"batch": 1, "expires": 3 * SECOND})
    quay.advance(3.5)
    assert list(stream.consumers) == ["pull"]
    quay.advance(1)
    assert list(stream.consumers) == []


def test_a_pause_holds_everything_back_and_ends(quay: Quay) -> None:
    stream = quay.stream()
    consumer = quay.consumer(deliver_subject="inbox.push", ack_policy="none")
    until = quay.clock.now_ns() + 5 * SECOND
    stream.keeper.pause("c", timestamp(until))
    quay.fill(2)
    assert quay.take() == []
    info = quay.info(consumer)
    assert (info.paused, info.pause_remaining) == (True, 5 * SECOND)
    quay.advance(5)
    assert [one.seq for one in quay.take()] == [1, 2]
    assert [event["paused"] for event in quay.told("consumer_pause")] == [True, False]


def test_reset_begins_anew(quay: Quay) -> None:
    stream = quay.stream()
    consumer = quay.consumer()
    quay.fill(5)
    got = quay.fetch(consumer, 4)
    quay.ack(got[0])
    assert stream.keeper.reset("c", 0) == 2
    assert [one.numbers for one in quay.fetch(consumer, 2)] == [(1, 2, 1, 3), (1, 3, 2, 2)]
    assert stream.keeper.reset("c", 4) == 4
    assert [one.numbers for one in quay.fetch(consumer, 5)] == [(1, 4, 1, 1), (1, 5, 2, 0)]


# ---- where they begin ----


def test_deliver_policies(quay: Quay) -> None:
    stream = quay.stream()
    quay.fill(6, subjects=3)
    quay.advance(10)
    late = quay.clock.now_ns()
    quay.fill(6, subjects=3)
    policies = {
        "all": {},
        "last": {},
        "new": {},
        "last_per_subject": {"filter_subject": "S.*"},
        "by_start_sequence": {"opt_start_seq": 9},
        "by_start_time": {"opt_start_time": timestamp(late)},
    }
    found = {}
    for number, (policy, fields) in enumerate(policies.items()):
        consumer = quay.consumer(f"c{number}", deliver_policy=policy, **fields)
        found[policy] = [one.numbers[1] for one in quay.fetch(consumer, 100)]
        left = [one.numbers[3] for one in quay.fetch(consumer, 100)]
        assert left == []
    assert found == {
        "all": list(range(1, 13)),
        "last": [12],
        "new": [],
        "last_per_subject": [10, 11, 12],
        "by_start_sequence": [9, 10, 11, 12],
        "by_start_time": [7, 8, 9, 10, 11, 12],
    }
    quay.fill(2)
    assert [[one.seq for one in quay.fetch(stream.consumers[f"c{number}"], 9)] for number in range(6)] == [
        [13, 14]
    ] * 6


def test_last_per_subject_counts_down_to_nothing(quay: Quay) -> None:
    """CONSUMER-2"""
    stream = quay.stream()
    quay.fill(20, subjects=4)
    consumer = quay.consumer(deliver_policy="last_per_subject", filter_subject="S.>")
    assert quay.info(consumer).num_pending == 4
    assert [one.numbers for one in quay.fetch(consumer, 2)] == [(1, 17, 1, 3), (1, 18, 2, 2)]
    stream.delete(19)
    quay.fill(1)
    assert [one.numbers for one in quay.fetch(consumer, 9)] == [(1, 20, 3, 1), (1, 21, 4, 0)]


# ---- priority groups ----


def test_overflow_gets_something_only_when_much_waits(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(priority_policy="overflow", priority_groups=["g"])
    quay.fill(2)
    assert quay.ask(consumer, {"batch": 5, "expires": SECOND, "group": "g", "min_pending": 3}) == []
    quay.fill(1)
    assert [one.seq for one in quay.take()] == [1]
    assert [one.status for one in quay.ask(consumer, {"batch": 1, "expires": SECOND})] == [
        "400 Bad Request - Priority Group missing"
    ]


def test_a_pinned_client_gets_everything_until_it_is_silent(quay: Quay) -> None:
    quay.stream()
    consumer = quay.consumer(priority_policy="pinned_client", priority_groups=["g"], priority_timeout=SECOND)
    quay.fill(1)
    (message,) = quay.ask(consumer, {"batch": 2, "expires": 60 * SECOND, "group": "g"})
    pin = message.header.split(b"Nats-Pin-Id: ")[1].split(b"\r\n")[0]
    others: list[Delivered] = []
    quay.hear(b"other", others)
    quay.ask(consumer, {"batch": 2, "expires": 60 * SECOND, "group": "g"}, b"other")
    quay.fill(1)
    assert others == []
    assert [one.seq for one in quay.take()] == [2]
    assert quay.told("consumer_group_pinned")[0]["pinned_id"] == pin.decode()
    wrong = quay.ask(consumer, {"batch": 1, "expires": SECOND, "group": "g", "id": "wrong"})
    assert [one.status for one in wrong] == ["423 Nats-Pin-Id mismatch"]
    quay.advance(1.1)
    assert quay.told("consumer_group_unpinned")[0]["reason"] == "timeout"
    quay.fill(1)
    assert [one.seq for one in others] == [3]


def test_urgent_requests_come_first(quay: Quay) -> None:
    """CONSUMER-3"""
    quay.stream()
    consumer = quay.consumer(priority_policy="prioritized", priority_groups=["g"])
    heard: dict[int, list[Delivered]] = {2: [], 0: [], 1: []}
    for priority, into in heard.items():
        subject = f"own.{priority}".encode()
        quay.hear(subject, into)
        quay.ask(consumer, {"batch": 2, "expires": 60 * SECOND, "group": "g", "priority": priority}, subject)
    quay.advance(0.001)
    quay.fill(5)
    assert {priority: [one.seq for one in into] for priority, into in heard.items()} == {
        0: [1, 2],
        1: [3, 4],
        2: [5],
    }


def test_an_urgent_request_of_the_same_burst_comes_first(quay: Quay) -> None:
    """CONSUMER-3"""
    quay.stream()
    quay.fill(3)
    consumer = quay.consumer(priority_policy="prioritized", priority_groups=["g"])
    heard: dict[int, list[Delivered]] = {1: [], 0: []}
    for priority, into in heard.items():
        subject = f"own.{priority}".encode()
        quay.hear(subject, into)
        quay.ask(consumer, {"batch": 2, "expires": 60 * SECOND, "group": "g", "priority": priority}, subject)
    quay.advance(0.001)
    assert {priority: [one.seq for one in into] for priority, into in heard.items()} == {0: [1, 2], 1: [3]}


# ---- taking turns ----


def test_nobody_is_held_up_by_much(quay: Quay) -> None:
    """A turn is bounded in bytes; the rest comes in the next ones, also to requests that do not wait."""
    quay.stream()
    consumer = quay.consumer()
    for _ in range(40):
        quay.send(b"S.a", b"x" * 100_000, reply=None)
    quay.engine.commit()
    got = quay.ask(consumer, {"batch": 40, "no_wait": True})
    assert 10 <= len(got) <= 11
    quay.advance(0)
    assert [one.seq for one in quay.take()] == list(range(len(got) + 1, 41))
