"""Work that happens when the test says so."""

from __future__ import annotations

import pytest

from sim.worker import SimWorker
from tidelog.base.chance import Chance


class Log:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.worker = SimWorker()

    def submit(self, name: str) -> None:
        def job() -> str:
            self.lines.append(f"run {name}")
            return name

        self.worker.submit(job, lambda result, error: self.lines.append(f"done {result} {error}"))


def test_nothing_runs_before_its_step_and_the_oldest_runs_first() -> None:
    log = Log()
    log.submit("a")
    log.submit("b")
    assert (len(log.worker), log.lines) == (2, [])
    assert log.worker.step()
    assert log.lines == ["run a", "done a None"]
    assert log.worker.run_all() == 1
    assert log.lines[2:] == ["run b", "done b None"]
    assert not log.worker.step()
    assert not log.worker.step_random(Chance(1))


def test_what_a_job_raises_is_told_and_not_raised() -> None:
    worker, told = SimWorker(), []

    def fail() -> int:
        raise ValueError("no")

    worker.submit(fail, lambda result, error: told.append((result, str(error))))
    assert worker.step()
    assert told == [(None, "no")]


def test_what_done_raises_reaches_the_test() -> None:
    worker = SimWorker()

    def done(result: int | None, error: BaseException | None) -> None:
        raise RuntimeError(f"{result} {error}")

    worker.submit(lambda: 1, done)
    with pytest.raises(RuntimeError, match="1 None"):
        worker.step()
    assert len(worker) == 0


def test_jobs_may_submit_jobs_but_not_without_end() -> None:
    worker, seen = SimWorker(), []

    def again(result: int | None, _: BaseException | None) -> None:
        seen.append(result)
        if len(seen) < 4:
            worker.submit(lambda: len(seen), again)

    worker.submit(lambda: 0, again)
    assert worker.run_all(limit=4) == 4
    assert seen == [0, 1, 2, 3]
    seen.clear()
    worker.submit(lambda: 0, again)
    with pytest.raises(AssertionError, match="without end"):
        worker.run_all(limit=3)


def test_the_same_seed_gives_the_same_order_and_seeds_differ() -> None:
    def order(seed: int) -> list[str]:
        log, chance = Log(), Chance(seed)
        for name in "abcdef":
            log.submit(name)
        while log.worker.step_random(chance):
            pass
        return [line for line in log.lines if line.startswith("run")]

    assert order(1) == order(1)
    assert sorted(order(1)) == [f"run {name}" for name in "abcdef"]
    assert len({tuple(order(seed)) for seed in range(10)}) > 5


def test_what_a_crash_drops_never_ran() -> None:
    log = Log()
    log.submit("a")
    log.submit("b")
    assert log.worker.drop_all() == 2
    assert log.worker.run_all() == 0
    assert log.lines == []
