"""Clocks."""

from tidelog.base.clock import ManualClock, SystemClock


def test_the_system_clock_runs() -> None:
    clock = SystemClock()
    first = clock.monotonic_ns()
    assert clock.monotonic_ns() >= first
    assert clock.now_ns() > 1_700_000_000_000_000_000


def test_a_manual_clock_moves_when_told_to() -> None:
    clock = ManualClock(100)
    assert (clock.now_ns(), clock.monotonic_ns()) == (100, 100)
    clock.advance(seconds=1.5, ns=3)
    assert (clock.now_ns(), clock.monotonic_ns()) == (1_500_000_103, 1_500_000_103)
