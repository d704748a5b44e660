"""The room of messages that are gone, while all of them are in the open segment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth, Nth, every_crash, every_failure
from tidelog.base.errors import StorageError
from tidelog.base.limits import COMPACT_REST_NS, FULL_DISK_RETRY_NS, OPEN_DEAD_SIZE
from tidelog.log.fsck import Severity, check_log
from tidelog.log.header import HEADER_SIZE
from tidelog.log.log import LogRefused
from tidelog.log.policy import STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.room import is_mostly_dead
from tidelog.log.settings import Limits, LogSettings
from unit.log.house import KIB, House

SETTINGS = LogSettings(policy=STRICT, segment_size=16 * KIB, window_size=KIB)


def size_of(house: House) -> int:
    return sum(house.segment_sizes().values())


@pytest.mark.parametrize("keep", [0, 3])
def test_what_a_purge_leaves_in_the_open_segment_is_given_back(keep: int) -> None:
    house = House()
    house.fill(80)
    house.worker.run_all()
    assert len(house.log.store.segments) == 1
    before = size_of(house)
    house.log.purge(keep=keep)
    house.settle()
    assert size_of(house) < before / 10
    assert house.seqs() == list(range(81 - keep, 81))
    state = house.log.state()
    house.crash(power=True)
    assert house.log.state() == state
    assert house.log.append(b"s", b"p") == 81
    assert house.findings.lost == []


def test_what_limits_leave_in_the_open_segment_is_given_back() -> None:
    house = House(replace(SETTINGS, limits=Limits(max_messages=5)))
    house.fill(80)
    house.settle()
    assert size_of(house) < 8 * KIB
    assert house.seqs() == list(range(76, 81))


def test_another_segment_is_begun_when_that_has_lasted() -> None:
    house = House()
    house.fill(80)
    house.worker.run_all()
    house.remove(list(range(1, 30)))
    assert not is_mostly_dead(house.log.store)
    house.log.tick()
    house.remove(list(range(30, 50)))
    assert is_mostly_dead(house.log.store)
    house.worker.run_all()
    assert house.log.next_due_ns() == house.clock.monotonic_ns() + COMPACT_REST_NS
    house.clock.advance(ns=COMPACT_REST_NS - 1)
    house.log.tick()
    assert len(house.log.store.segments) == 1
    house.clock.advance(ns=1)
    house.log.tick()
    assert len(house.log.store.segments) == 2


@pytest.mark.parametrize("lacking", [0, 1])
def test_the_threshold_of_large_segments(lacking: int) -> None:
    house = House(replace(SETTINGS, segment_size=KIB * KIB))
    record_size = 32 + 1 + 8 * KIB
    for _ in range(OPEN_DEAD_SIZE // record_size + 1):
        house.log.append(b"s", bytes(8 * KIB))
    house.log.commit()
    house.remove(list(range(1, house.log.store.last_seq + 1 - lacking)))
    assert is_mostly_dead(house.log.store) is (not lacking)


def test_a_segment_that_could_not_be_begun_is_tried_later() -> None:
    house = House()
    house.fill(80)
    house.worker.run_all()
    house.log.purge()
    house.log.commit()
    house.worker.run_all()
    house.disk.toxics.append(FailNth(1, "create"))
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    assert len(house.log.store.segments) == 1
    assert house.log.keeper.figures.troubles == 1
    house.settle()
    assert size_of(house) < KIB


# ---- the disk is full ----


def full_house(disk: SimDisk | None = None, policy: SyncPolicy = STRICT, begun: bool = False) -> House:
    """Not a byte of room: a message is accepted and not written, the next one is refused.

    `begun`: with another segment that was begun, and has nothing.
    """
    house = House(replace(SETTINGS, policy=policy), disk)
    house.fill(50)
    house.log.committer.when_synced(lambda: None)
    house.worker.run_all()
    house.disk.size_max = house.disk.machine.used_size() + begun * HEADER_SIZE
    house.log.append(b"s", b"p" * 100)
    while begun and len(house.log.store.segments) == 1:
        house.log.append(b"s", b"p" * 100)
    house.log.commit()
    house.worker.run_all()
    with pytest.raises(LogRefused, match="full"):
        house.log.append(b"s", b"p")
    return house


def test_a_purge_makes_room_on_a_full_disk_without_a_restart() -> None:
    """APPEND-2: what was accepted is acknowledged in the end, though nobody gets it any more."""
    house = full_house()
    before, told = size_of(house), list[StorageError | None]()
    house.log.wait(51, told.append)
    assert house.log.purge() == 51
    house.log.wait_deleted(told.append)
    house.log.commit()
    assert size_of(house) < before / 10
    assert house.log.refusal is None
    assert told == []
    house.worker.run_all()
    assert told == [None, None]
    assert house.log.append(b"s", b"p" * 100) == 52
    house.log.commit()
    house.worker.run_all()
    assert house.seqs() == [52]
    assert check_log(house.disk, "log").severity is Severity.NOTE
    state = house.log.state()
    house.crash(power=True)
    assert house.log.state() == state
    assert house.findings.lost == []
    assert house.log.keeper.figures.emptied == 0


@pytest.mark.parametrize("policy", [STRICT, THROUGHPUT])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_end_of_the_process_or_the_power_amid_that(
    policy: SyncPolicy, power: bool, begun: bool, seed: int
) -> None:
    """No sequence comes again. What was deleted is there or not; a write that is cut short may cost its first."""

    def run(fault: Nth) -> None:
        house = full_house(SimDisk(seed), policy, begun)
        house.disk.toxics.append(fault)
        try:
            house.log.purge()
            house.log.commit()
            house.worker.run_all()
        finally:
            house.disk.toxics.clear()
            house.disk.size_max = 1 << 62
            house.crash(power)
            assert house.findings.lost in ([], [(1, 2)])
            first_seq = 2 if house.findings.lost else 1
            assert house.seqs() in ([], list(range(first_seq, 51)))
            assert house.log.append(b"s", b"p") > 50

    assert len(list(every_crash(run))) > 3


@pytest.mark.parametrize("begun", [False, True])
def test_every_call_that_fails_amid_that(begun: bool) -> None:
    """A sync that fails is final, COMMIT-3; else it is tried again."""

    def run(fault: Nth) -> None:
        house = full_house(begun=begun)
        last_seq = house.log.store.last_seq
        house.log.purge()
        house.disk.toxics.append(fault)
        house.log.commit()
        house.worker.run_all()
        house.disk.toxics.clear()
        if house.log.failure is None:
            house.clock.advance(ns=FULL_DISK_RETRY_NS)
            house.log.tick()
            house.worker.run_all()
            assert house.log.append(b"s", b"p") == last_seq + 1
        else:
            assert fault.hit is not None
            house.disk.size_max = 1 << 62
            house.crash(power=True)
            assert house.log.append(b"s", b"p") > 50

    outcomes = [outcome for _, outcome in every_failure(run)]
    assert len(outcomes) > 3
    assert all(outcome.error is None for outcome in outcomes)


@pytest.mark.parametrize("segments", [2, 3])
def test_where_the_open_segment_was_only_begun_the_one_before_is_emptied(segments: int) -> None:
    """As it could not be completed, it cannot be removed either."""
    house = House()
    house.fill(90)
    house.worker.run_all()
    house.disk.size_max = house.disk.machine.used_size() + (segments - 1) * HEADER_SIZE
    while len(house.log.store.segments) < segments:
        house.log.append(b"s", b"p" * 100)
    last_seq = house.log.store.last_seq
    house.log.commit()
    assert house.log.refusal is not None
    house.log.purge()
    house.log.commit()
    assert (house.log.refusal, house.log.keeper.figures.emptied) == (None, 1)
    house.worker.run_all()
    assert len(house.log.store.segments) == 1
    assert size_of(house) < KIB
    assert house.log.append(b"s", b"p") == last_seq + 1
    house.log.commit()
    house.worker.run_all()
    state = house.log.state()
    house.crash(power=True)
    assert house.log.state() == state
    assert house.findings.lost == []


def test_nothing_is_cut_off_while_anything_is_left() -> None:
    house = full_house()
    house.log.purge(keep=1)
    house.log.commit()
    assert house.log.refusal is not None
    assert house.log.state().messages == 1
    house.disk.size_max = 1 << 62
    house.log.tick()
    house.worker.run_all()
    assert house.seqs() == [51]


def test_nothing_is_cut_off_while_a_worker_has_places_in_it() -> None:
    """ERASE-1"""
    house = House()
    house.fill(50)
    house.worker.run_all()
    house.log.remove(7, erase=True)
    house.log.commit()
    house.worker.step()
    assert house.log.keeper.eraser.under_way == [7]
    house.disk.size_max = house.disk.machine.used_size()
    house.log.purge()
    house.log.commit()
    assert house.log.refusal is not None
    house.worker.run_all()
    house.clock.advance(ns=FULL_DISK_RETRY_NS)
    house.log.tick()
    assert house.log.refusal is None
    assert house.log.keeper.figures.emptied == 1


def test_a_segment_without_anything_has_nothing_to_give() -> None:
    house = House()
    house.disk.size_max = house.disk.machine.used_size()
    assert house.log.append(b"s", b"p") == 1
    house.log.commit()
    house.log.purge()
    house.log.commit()
    assert house.log.refusal is not None
    assert house.log.keeper.figures.emptied == 0
    house.disk.size_max = 1 << 62
    house.log.tick()
    assert house.log.append(b"s", b"p") == 2
