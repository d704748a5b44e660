"""Timers against a sorted list (SESS-9)."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.timer import FIRST_SWEEP, Timer, Timers

STEP = st.one_of(
    st.tuples(st.just("at"), st.integers(0, 30)),
    st.tuples(st.just("cancel"), st.integers(0, 60)),
    st.tuples(st.just("run"), st.integers(0, 5)),
)


@given(st.lists(STEP, max_size=60))
def test_timers_run_when_due_and_in_order(steps: list[tuple[str, int]]) -> None:
    slept_until: list[int | None] = [None]
    timers = Timers()

    def look() -> None:
        slept_until[0] = timers.next_due_ns()

    timers.on_earlier = look
    made: list[Timer] = []
    pending: list[tuple[int, int]] = []
    called: list[tuple[int, int]] = []
    now_ns = 0
    for step, number in steps:
        if step == "at":
            entry = (now_ns + number, len(made))
            made.append(timers.at(entry[0], lambda entry=entry: called.append(entry)))
            pending.append(entry)
        elif step == "cancel" and made:
            chosen = number % len(made)
            made[chosen].cancel()
            pending = [entry for entry in pending if entry[1] != chosen]
        elif step == "run":
            now_ns += number
            due = sorted(entry for entry in pending if entry[0] <= now_ns)
            pending = [entry for entry in pending if entry[0] > now_ns]
            called.clear()
            assert timers.run(now_ns) == len(due)
            assert called == due
            look()
        # Whoever sleeps until what it was last told does not sleep through a timer.
        if pending:
            first = min(pending)[0]
            assert slept_until[0] is not None
            assert slept_until[0] <= first
            assert timers.next_due_ns() == first
        else:
            assert timers.next_due_ns() is None


def test_a_callback_may_set_and_cancel_others() -> None:
    timers = Timers()
    called = []
    second = timers.at(2, lambda: called.append("second"))

    def first() -> None:
        called.append("first")
        second.cancel()
        timers.at(1, lambda: called.append("third"))

    timers.at(1, first)
    assert timers.run(3) == 2
    assert called == ["first", "third"]
    assert timers.next_due_ns() is None


def test_a_timer_runs_once() -> None:
    timers = Timers()
    called = []
    timer = timers.at(1, lambda: called.append(timer.callback))
    timers.run(1)
    timers.run(1)
    # While it runs it is no timer any more: cancelling it then does nothing.
    assert called == [None]


def test_cancelled_timers_are_let_go_of_before_their_time() -> None:
    timers = Timers()
    called: list[int] = []
    for number in range(10 * FIRST_SWEEP):
        timer = timers.at(number, lambda number=number: called.append(number))
        if number % 100:
            timer.cancel()
        assert len(timers) <= FIRST_SWEEP
    timers.run(10 * FIRST_SWEEP)
    assert called == list(range(0, 10 * FIRST_SWEEP, 100))
