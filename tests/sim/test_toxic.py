"""Calls that go wrong, and the loop that makes every one go wrong once."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from sim.disk import SimDisk
from sim.toxic import (
    CHANGES,
    CONTENT,
    NAMES,
    SYNCS,
    Crashed,
    CrashNth,
    FailNth,
    Flaky,
    Nth,
    Slow,
    every_crash,
    every_failure,
)
from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.errors import DiskFailed


def replace(disk: SimDisk, content: bytes) -> None:
    """The usual way to write a small file at once: each of its calls matters."""
    if disk.exists("new"):
        disk.remove("new")
    file = disk.create("new")
    file.append([content])
    file.sync()
    file.close()
    disk.rename("new", "it")
    disk.sync_directory("")


def every_operation(disk: SimDisk) -> dict[str, Callable[[], object]]:
    disk.make_directory("d")
    disk.sync_directory("")
    file = disk.create("d/a")
    file.append([b"there"])
    return {
        "create": lambda: disk.create("d/b"),
        "open": lambda: disk.open("d/a"),
        "list": lambda: disk.list("d"),
        "make_directory": lambda: disk.make_directory("d/e"),
        "rename": lambda: disk.rename("d/a", "d/c"),
        "remove": lambda: disk.remove("d/a"),
        "sync_directory": lambda: disk.sync_directory("d"),
        "append": lambda: file.append([b"x"]),
        "read": lambda: file.read(0, 1),
        "write": lambda: file.write(0, b"x"),
        "truncate": lambda: file.truncate(0),
        "sync": file.sync,
        "free_size": disk.free_size,
    }


@pytest.mark.parametrize("operation", every_operation(SimDisk()))
def test_every_operation_can_fail_and_says_so(operation: str) -> None:
    disk = SimDisk(1)
    call = every_operation(disk)[operation]
    before = disk.image(), disk.list("d")
    disk.toxics.append(FailNth(1, operation))
    with pytest.raises(DiskFailed) as caught:
        call()
    assert caught.value.errno == errno.EIO
    assert disk.trace(1).endswith(": EIO")
    if operation not in CONTENT:
        assert (disk.image(), disk.list("d")) == before
    if operation in SYNCS:
        with pytest.raises(DiskFailed):
            call()
    else:
        call()


@pytest.mark.parametrize("operation", every_operation(SimDisk()))
def test_in_every_operation_the_process_can_end(operation: str) -> None:
    images = set()
    for seed in range(30):
        disk = SimDisk(seed)
        call = every_operation(disk)[operation]
        disk.toxics.append(CrashNth(1, operation))
        with pytest.raises(Crashed):
            call()
        with pytest.raises(Crashed):
            disk.list("")
        disk.kill()
        disk = disk.reopen()
        images.add(str((disk.image(), disk.list("d"), disk.unsynced())))
    assert (len(images) > 1) == (operation in CHANGES), "it was done, and it was not"


def test_the_nth_of_its_kind_and_place_and_once() -> None:
    fault = FailNth(2, NAMES, "d/", errno.ENOSPC)
    disk = SimDisk(1, toxics=[fault])
    disk.make_directory("d")
    disk.create("d/a").append([b"x"])
    assert (fault.fired, str(fault)) == (False, "FailNth(2): not reached")
    with pytest.raises(DiskFailed, match="No space"):
        disk.create("d/b")
    assert str(fault) == "FailNth(2): 4 create d/b: ENOSPC"
    disk.create("d/b")


def test_a_sticky_fault_goes_on_until_it_is_taken_away() -> None:
    fault = FailNth(2, "create", sticky=True)
    disk = SimDisk(1, toxics=[fault])
    disk.create("a")
    for _ in range(3):
        with pytest.raises(DiskFailed):
            disk.create("b")
    disk.toxics.remove(fault)
    disk.create("b")


def test_every_toxic_counts_for_itself() -> None:
    first, second = FailNth(1, "create"), FailNth(2, "create", number=errno.EACCES)
    disk = SimDisk(1, toxics=[first, second])
    with pytest.raises(DiskFailed, match="Input/output"):
        disk.create("a")
    with pytest.raises(DiskFailed, match="Permission"):
        disk.create("a")


def test_flaky_and_slow() -> None:
    clock = ManualClock(0)
    disk = SimDisk(1, toxics=[Flaky(Chance(1), 0.5, "sync"), Slow(clock, 7, "sync", "a")])
    disk.create("a").close()
    failed = 0
    for _ in range(100):
        try:
            # Each time another: one whose sync has failed once does not try again.
            disk.open("a").sync()
        except DiskFailed:
            failed += 1
    assert 30 < failed < 70
    assert clock.monotonic_ns() == 700


def test_every_failure_ends_with_the_run_that_met_none() -> None:
    def run(fault: Nth) -> bytes:
        disk = SimDisk(1, toxics=[fault])
        replace(disk, b"one")
        return disk.image()["it"]

    outcomes = dict(every_failure(run))
    assert list(outcomes) == [1, 2, 3, 4, 5, 6]
    last = outcomes.pop(6)
    assert (last.fired, last.answer, last.error) == (False, b"one", None)
    struck = [outcome.fault.hit.operation for outcome in outcomes.values() if outcome.fault.hit]
    assert struck == ["create", "append", "sync", "rename", "sync_directory"]
    assert all(isinstance(outcome.error, DiskFailed) for outcome in outcomes.values())
    assert [n for n, _ in every_failure(run, SYNCS)] == [1, 2, 3]


def test_every_failure_lets_through_what_is_not_of_the_fault() -> None:
    def wrong(fault: Nth) -> None:
        disk = SimDisk(1, toxics=[fault])
        with pytest.raises(DiskFailed):
            disk.create("a")
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake") as caught:
        list(every_failure(wrong))
    assert caught.value.__notes__ == ["in the run with FailNth(1): 1 create a: EIO"]

    with pytest.raises(DiskFailed):
        list(every_failure(lambda _: SimDisk().open("missing")))

    def endless(fault: Nth) -> None:
        disk = SimDisk(1, toxics=[fault])
        while not fault.fired:
            disk.free_size()

    with pytest.raises(AssertionError, match="still failing after 5 runs"):
        list(every_failure(endless, limit=5))


@pytest.mark.parametrize("crash", [SimDisk.kill, SimDisk.power_cut])
@pytest.mark.parametrize("seed", range(20))
def test_every_crash_of_an_atomic_replacement(seed: int, crash: Callable[[SimDisk], None]) -> None:
    """A safe protocol is found safe: the old content or the new, in any crash; and both are seen."""

    def run(fault: Nth) -> bytes:
        disk = SimDisk(seed)
        replace(disk, b"old" * 400)
        disk.toxics.append(fault)
        try:
            replace(disk, b"new" * 500)
        finally:
            crash(disk)
            seen.append(disk.reopen().image()["it"])
        return seen[-1]

    seen: list[bytes] = []
    outcomes = dict(every_crash(run))
    assert len(outcomes) == 6
    assert outcomes[6].answer == b"new" * 500
    assert set(seen) == {b"old" * 400, b"new" * 500}


def test_an_unsafe_replacement_is_found_out() -> None:
    """The same without the sync before the rename."""
    torn = 0
    for seed in range(50):
        disk = SimDisk(seed)
        replace(disk, b"old")
        disk.create("new").append([b"new"])
        disk.rename("new", "it")
        disk.sync_directory("")
        disk.power_cut()
        torn += disk.reopen().image()["it"] not in (b"old", b"new")
    assert torn > 10
