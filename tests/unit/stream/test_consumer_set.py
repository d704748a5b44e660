"""Consumers of a stream as a set: what is told when they come and go, and what becomes of messages then."""

import pytest

from unit.stream.quay import Quay


@pytest.fixture
def quay() -> Quay:
    return Quay()


def test_a_new_consumer_may_be_described_before_it_delivers(quay: Quay) -> None:
    stream = quay.stream()
    quay.fill(3)
    quay.hear(b"d")
    config = quay.consumer("x", deliver_subject="nobody").config.copy()
    config.durable_name, config.name, config.deliver_subject = "c", "c", "d"
    consumer = stream.keeper.create(config, begin=False)
    assert quay.info(consumer).num_pending == 3
    assert quay.take() == []
    consumer.pump()
    assert [one.seq for one in quay.take()] == [1, 2, 3]


def test_a_group_must_be_listened_to_by_its_members(quay: Quay) -> None:
    quay.stream()
    quay.fill(1)
    quay.hear(b"d")
    quay.hear(b"d", queue=b"other")
    consumer = quay.consumer(deliver_subject="d", deliver_group="g")
    assert not quay.info(consumer).push_bound
    assert quay.take() == []
    quay.hear(b"d", queue=b"g")
    assert quay.info(consumer).push_bound


def test_a_pause_is_told_of_when_it_begins_and_ends(quay: Quay) -> None:
    stream = quay.stream()
    quay.consumer()
    for until in (None, "2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z", None, None):
        stream.keeper.pause("c", until)
    assert [event["paused"] for event in quay.told("consumer_pause")] == [True, False]


def test_consumers_of_a_deleted_stream_are_told_of(quay: Quay) -> None:
    quay.stream()
    quay.consumer()
    quay.account.delete("S")
    assert [event["action"] for event in quay.told("consumer_action")] == ["create", "delete"]


def test_what_all_are_done_with_goes_when_a_stream_begins_to_ask_for_interest(quay: Quay) -> None:
    stream = quay.stream()
    quay.fill(3)
    first, second, _ = quay.fetch(quay.consumer(), 3)
    quay.ack(first)
    changed = stream.config.copy()
    changed.retention = "interest"
    quay.account.update(changed)
    assert stream.log.store.first_seq == second.seq
