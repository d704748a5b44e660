"""The crew: together at the start, and the first failure ends all."""

import threading
import time
from array import array

import pytest

from tidelog.base.errors import Timeout
from tidelog.bench.case import RATE
from tidelog.bench.fault import Stopped
from tidelog.bench.load import Run
from tidelog.bench.run import Crew, Outcome, expectation
from tidelog.bench.workload import delivered, lap


def test_all_workers_start_before_any_works() -> None:
    crew = Crew()
    meeting = threading.Barrier(3)

    def job(_: Run) -> int:
        meeting.wait(10)
        return time.monotonic_ns()

    ends = crew.work([job, job, job])
    assert 0 < crew.start_ns < min(ends)


def test_first_failure_is_raised_and_the_others_are_stopped() -> None:
    def fail(_: Run) -> int:
        raise Timeout("the cause")

    def wait_for_stop(run: Run) -> int:
        while not run.stopped:
            pass
        raise Stopped("a consequence")

    with pytest.raises(Timeout, match="the cause"):
        Crew().work([wait_for_stop, fail, wait_for_stop])


def test_rate_and_percentiles() -> None:
    outcome = Outcome(200, 2_000_000_000, 0.1, array("q", range(1000, 101_000, 1000)))
    assert outcome.values() == {RATE: 100.0, "p50": 51.0, "p90": 91.0, "p99": 100.0}
    assert Outcome(3, 1_000_000_000, 0.0).values() == {RATE: 3.0}


def test_publishers_whose_frames_begin_differently_are_refused() -> None:
    first, second = delivered(lap(("a",), size=16, count=2)), delivered(lap(("bb",), size=16, count=2))
    with pytest.raises(ValueError, match="alike"):
        expectation([first, second], 1)
