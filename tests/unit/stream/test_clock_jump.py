"""The wall clock jumps: what waits for a time to pass waits as long as before, and nothing is lost or doubled."""

import pytest

from tidelog.base.clock import ManualClock
from unit.stream.quay import Quay

SECOND = 1_000_000_000
HOUR_S = 3600.0


class JumpingClock(ManualClock):
    """Its wall clock can be set; what passes goes on as it did."""

    def __init__(self, start_ns: int) -> None:
        super().__init__(start_ns)
        self.set_ns = 0

    def now_ns(self) -> int:
        return self.ns + self.set_ns

    def jump(self, seconds: float) -> None:
        self.set_ns += int(seconds * 1e9)


@pytest.fixture
def quay() -> Quay:
    quay = Quay()
    quay.clock = JumpingClock(quay.clock.ns)
    quay.restart()
    return quay


def jump(quay: Quay, seconds: float) -> None:
    assert isinstance(quay.clock, JumpingClock)
    quay.clock.jump(seconds)


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_sequences_go_on_and_readers_see_everything(quay: Quay, seconds: float) -> None:
    stream = quay.stream()
    consumer = quay.consumer()
    quay.fill(2)
    jump(quay, seconds)
    quay.fill(2)
    assert [one.seq for one in quay.fetch(consumer, 10)] == [1, 2, 3, 4]
    quay.restart()
    assert quay.account.find("S").log.store.last_seq == 4
    assert stream.log.store.last_seq == 4


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_a_message_comes_again_when_the_wait_has_passed(quay: Quay, seconds: float) -> None:
    quay.stream()
    consumer = quay.consumer(ack_wait=5 * SECOND)
    quay.fill(1)
    assert len(quay.fetch(consumer, 1)) == 1
    jump(quay, seconds)
    quay.advance(4)
    assert quay.fetch(consumer, 1) == []
    quay.advance(2)
    (again,) = quay.fetch(consumer, 1)
    assert again.numbers[0] == 2


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_a_request_for_messages_ends_when_its_time_has_passed(quay: Quay, seconds: float) -> None:
    quay.stream()
    consumer = quay.consumer()
    quay.ask(consumer, {"batch": 1, "expires": 5 * SECOND})
    jump(quay, seconds)
    quay.advance(4)
    assert quay.take() == []
    quay.advance(2)
    assert [one.status for one in quay.take()] == ["408 Request Timeout"]


def test_what_is_too_old_by_the_wall_clock_goes(quay: Quay) -> None:
    stream = quay.stream(max_age=60 * SECOND)
    quay.fill(2)
    jump(quay, HOUR_S)
    quay.fill(1)
    quay.advance(1)
    assert (stream.log.store.first_seq, stream.log.store.last_seq) == (3, 3)


def test_what_was_stored_before_the_clock_was_set_back_stays_and_goes_in_time(quay: Quay) -> None:
    stream = quay.stream(max_age=60 * SECOND)
    quay.fill(1)
    jump(quay, -HOUR_S)
    quay.fill(1)
    quay.advance(59)
    assert stream.log.store.count == 2
    jump(quay, HOUR_S)
    quay.advance(120)
    assert stream.log.store.count == 0


def test_a_message_id_is_known_whichever_way_the_clock_jumps(quay: Quay) -> None:
    quay.stream(duplicate_window=60 * SECOND)
    assert quay.publish(b"S.a", Nats_Msg_Id="x")["seq"] == 1
    jump(quay, -HOUR_S)
    assert quay.publish(b"S.a", Nats_Msg_Id="x")["duplicate"]
    jump(quay, HOUR_S)
    assert quay.publish(b"S.a", Nats_Msg_Id="x")["duplicate"]
