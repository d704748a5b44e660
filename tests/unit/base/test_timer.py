"""Timers: what their owner is told; order and cancelling are shown in tests/property."""

import pytest

from tidelog.base.timer import Timers


def test_the_owner_is_told_only_of_earlier_timers() -> None:
    told = []
    timers = Timers(on_earlier=lambda: told.append(timers.next_due_ns()))
    timers.at(10, lambda: None)
    timers.at(20, lambda: None)
    timers.at(10, lambda: None)
    timers.at(5, lambda: None)
    assert told == [10, 5]


def test_cancelled_timers_leave_no_due_time_and_no_callback() -> None:
    timers = Timers()
    timer = timers.at(10, lambda: None)
    assert timers.next_due_ns() == 10
    timer.cancel()
    assert timer.callback is None
    assert len(timers) == 1
    assert timers.next_due_ns() is None
    assert len(timers) == 0


def test_a_callback_that_raises_has_had_its_turn() -> None:
    timers = Timers()
    called = []

    def fail() -> None:
        raise RuntimeError("once")

    timers.at(1, fail)
    timers.at(2, lambda: called.append(2))
    with pytest.raises(RuntimeError, match="once"):
        timers.run(5)
    assert timers.run(5) == 1
    assert called == [2]
