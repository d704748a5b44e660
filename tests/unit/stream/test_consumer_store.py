"""What consumers keep: restarts, crashes, and files that cannot be read."""

import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth
from sim.worker import SimWorker
from tidelog.base.errors import StorageError
from tidelog.base.limits import CONSUMER_STATE_DELAY_NS, CONSUMER_STATES_AT_ONCE
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_state import State, decode_state, encode_state
from unit.stream.quay import Quay

SECOND = 1_000_000_000


@pytest.fixture
def quay() -> Quay:
    return Quay()


def again(quay: Quay, name: str = "c") -> Consumer:
    consumer: Consumer = quay.account.find("S").consumers[name]
    return consumer


def test_a_consumer_goes_on_where_it_was(quay: Quay) -> None:
    """CONSUMER-8, CONSUMER-9"""
    quay.stream()
    consumer = quay.consumer(ack_wait=10 * SECOND)
    quay.fill(10)
    got = quay.fetch(consumer, 6)
    quay.ack(got[0])
    quay.ack(got[3])
    quay.ack(got[1], b"-NAK")
    before = quay.info(consumer)
    quay.restart()
    consumer = again(quay)
    after = quay.info(consumer)
    after.ts = before.ts
    assert after == before
    assert [one.numbers for one in quay.fetch(consumer, 10)] == [
        (2, 2, 7, 4),
        (1, 7, 8, 3),
        (1, 8, 9, 2),
        (1, 9, 10, 1),
        (1, 10, 11, 0),
    ]
    quay.advance(10.1)
    assert [one.seq for one in quay.fetch(consumer, 10)] == [2, 3, 5, 6, 7, 8, 9, 10]


def test_what_was_acknowledged_a_moment_before_a_crash_does_not_come_again(quay: Quay) -> None:
    """CONSUMER-9"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(4)
    got = quay.fetch(consumer, 4)
    quay.ack(got[1])
    quay.advance(0.2)
    quay.ack(got[2])
    quay.crash()
    consumer = again(quay)
    quay.advance(2)
    # The third was acknowledged too late to be known.
    assert [one.seq for one in quay.fetch(consumer, 4)] == [1, 3, 4]


def test_a_deleted_consumer_is_not_there_again(quay: Quay) -> None:
    """CONSUMER-8"""
    stream = quay.stream()
    quay.consumer("one")
    quay.consumer("other")
    stream.keeper.delete("one")
    quay.restart()
    assert list(quay.account.find("S").consumers) == ["other"]
    quay.consumer("one")
    quay.restart()
    assert sorted(quay.account.find("S").consumers) == ["one", "other"]


def test_consumers_in_memory_are_gone(quay: Quay) -> None:
    quay.stream()
    quay.consumer(mem_storage=True)
    quay.restart()
    assert quay.account.find("S").consumers == {}


def test_a_changed_configuration_is_kept(quay: Quay) -> None:
    quay.stream()
    quay.consumer(max_ack_pending=10)
    quay.consumer(max_ack_pending=20, filter_subject="S.1")
    quay.restart()
    consumer = again(quay)
    assert (consumer.config.max_ack_pending, consumer.config.filter_subject) == (20, "S.1")
    quay.fill(4, subjects=2)
    assert [one.seq for one in quay.fetch(consumer, 4)] == [2, 4]


def test_last_per_subject_goes_on_with_what_was_left(quay: Quay) -> None:
    quay.stream()
    quay.fill(8, subjects=4)
    consumer = quay.consumer(deliver_policy="last_per_subject", filter_subject="S.*")
    quay.fetch(consumer, 2)
    quay.fill(1)
    quay.restart()
    assert [one.numbers for one in quay.fetch(again(quay), 9)] == [(1, 7, 3, 2), (1, 8, 4, 1), (1, 9, 5, 0)]


def spoil(quay: Quay, slot: str, pos: int = 50) -> None:
    file = quay.disk.open(f"$G/streams/S/consumers/c/{slot}")
    file.write(pos, bytes([file.read(pos, 1)[0] ^ 0xFF]))
    file.close()


def test_a_state_that_cannot_be_read_is_told_of_and_the_older_one_is_used(quay: Quay) -> None:
    """CONSUMER-10"""
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(4)
    for _ in range(2):
        (message,) = quay.fetch(consumer, 1)
        quay.ack(message)
        quay.advance(0.5)
    newest = max(("state.0", "state.1"), key=lambda slot: number(quay, slot))
    spoil(quay, newest)
    quay.crash()
    assert any("its checksum is wrong; the older state is used" in line for _, line in quay.lines.lines)
    assert [one.seq for one in quay.fetch(again(quay), 4)] == [2, 3, 4]


def test_without_a_state_everything_is_delivered_again(quay: Quay) -> None:
    """CONSUMER-10"""
    quay.stream()
    consumer = quay.consumer()
    quay.fill(3)
    for message in quay.fetch(consumer, 2):
        quay.ack(message)
    quay.restart()
    spoil(quay, "state.1")
    quay.crash()
    assert any("everything is delivered again" in line for _, line in quay.lines.lines)
    assert [one.seq for one in quay.fetch(again(quay), 4)] == [1, 2, 3]


def number(quay: Quay, slot: str) -> int:
    file = quay.disk.open(f"$G/streams/S/consumers/c/{slot}")
    try:
        return decode_state(file.read(0, file.size)).number
    finally:
        file.close()


def test_a_disk_that_refuses_states_is_tried_again() -> None:
    """CONSUMER-9"""
    disk = SimDisk(1)
    quay = Quay(disk)
    quay.stream()
    consumer = quay.consumer(ack_wait=SECOND)
    quay.fill(2)
    disk.machine.toxics.append(FailNth(1, "create", "$G/streams/S/consumers"))
    for message in quay.fetch(consumer, 2):
        quay.ack(message)
    quay.advance(0.2)
    assert any("could not be written, which is tried again" in line for _, line in quay.lines.lines)
    quay.advance(5)
    disk.kill()
    quay.disk = disk.reopen()
    quay.crash()
    assert quay.fetch(again(quay), 2) == []


@pytest.mark.parametrize("pos", [0, 9, 13, 40, 90, 100])
def test_any_wrong_byte_is_found(pos: int) -> None:
    """CONSUMER-10"""
    data = bytearray(encode_state(State(1, 2, 3, 4, 5, 6, 7, 8, 9, b"x" * 64, b"y" * 16)))
    assert decode_state(bytes(data)).items == b"x" * 64
    data[pos] ^= 1
    with pytest.raises(StorageError):
        decode_state(bytes(data))
    with pytest.raises(StorageError):
        decode_state(bytes(data[:pos]))


def test_states_wait_for_no_sync_and_for_each_other_no_longer_than_for_a_write() -> None:
    """CONSUMER-9: with more consumers than are written at once, and a worker that is busy with something else."""
    busy, states = SimWorker(), SimWorker()
    quay = Quay(worker=busy, state_worker=states)
    stream = quay.stream()
    busy.run_all()
    count = CONSUMER_STATES_AT_ONCE + 1
    consumers = [quay.consumer(f"c{number}") for number in range(count)]
    busy.run_all()
    quay.fill(2)
    busy.run_all()
    first, second = [], []
    for consumer in consumers:
        one, other = quay.fetch(consumer, 2)
        first.append(one)
        second.append(other)
    quay.advance(0.2)
    states.run_all()
    quay.advance(0.2)
    states.run_all()
    assert len(stream.consumers) == count
    for message in first:
        quay.ack(message)
    quay.advance(CONSUMER_STATE_DELAY_NS / 1e9)
    # One write of many is under way; the rest goes as soon as it is done, with what has changed meanwhile.
    assert len(states) == 1
    quay.advance(0.01)
    quay.ack(second[0])
    states.run_all()
    quay.timers.run(quay.clock.monotonic_ns())
    assert len(states) == 1
    states.run_all()
    assert not quay.engine.consumer_store.changed
    # What changes then has its own time to wait.
    quay.ack(second[1])
    quay.advance(CONSUMER_STATE_DELAY_NS / 1e9 - 0.001)
    assert len(states) == 0
    quay.advance(0.002)
    assert len(states) == 1
    states.run_all()
    quay.crash()
    found = quay.account.find("S").consumers
    floors = [quay.info(found[f"c{number}"]).ack_floor.stream_seq for number in (0, 1, 2, count - 1)]
    assert floors == [2, 2, 1, 1]
