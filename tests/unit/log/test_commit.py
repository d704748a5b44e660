"""When what was written is synced, and when those hear of it who wait for something that has no sequence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.disk import SimDisk
from sim.medium import NOTHING
from sim.toxic import FailNth
from tidelog.base.errors import StorageError
from tidelog.base.limits import FULL_DISK_RETRY_NS
from tidelog.log.filter import Filter
from tidelog.log.policy import BALANCED, DURABLE, STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.settings import LogSettings
from unit.log.house import KIB, House

Told = list[StorageError | None]


def house_with(policy: SyncPolicy, count: int = 20) -> House:
    """Everything is synced; a power cut leaves nothing else."""
    house = House(
        LogSettings(policy=policy, segment_size=16 * KIB, window_size=KIB), SimDisk(1, survival=NOTHING)
    )
    house.fill(count)
    house.log.committer.when_synced(lambda: None)
    house.worker.run_all()
    return house


def deleted(house: House) -> Told:
    """Two messages go, in both ways in which they may; what is told of it."""
    told: Told = []
    assert house.log.remove(5, erase=False)
    assert house.log.purge(Filter(b"s.6"), before_seq=8) == 1
    house.log.wait_deleted(told.append)
    assert told == []
    return told


@pytest.mark.parametrize(("policy", "due_ns"), [(BALANCED, 1_000_000_000), (DURABLE, 500_000_000)])
def test_an_idle_tail_is_synced(policy: SyncPolicy, due_ns: int) -> None:
    """COMMIT-4"""
    house = house_with(policy)
    house.log.append(b"s", b"p")
    house.log.commit()
    assert house.log.next_due_ns() == house.clock.monotonic_ns() + due_ns
    house.clock.advance(ns=due_ns - 1)
    house.log.tick()
    assert len(house.worker) == 0
    house.clock.advance(ns=1)
    house.log.tick()
    house.worker.run_all()
    assert house.log.state().synced_seq == 21
    assert house.log.next_due_ns() is None


def test_under_strict_a_delete_is_told_when_it_is_synced() -> None:
    """COMMIT-5: what was told then is deleted for ever."""
    house = house_with(STRICT)
    told = deleted(house)
    house.log.commit()
    assert told == []
    house.worker.step()
    assert told == [None]
    house.crash(power=True)
    assert house.seqs() == [seq for seq in range(1, 21) if seq not in (5, 7)]


def test_what_a_sync_under_way_does_not_cover_waits_for_the_next() -> None:
    """COMMIT-5"""
    house = house_with(STRICT)
    house.log.append(b"s", b"p")
    house.log.commit()
    told = deleted(house)
    house.log.commit()
    house.worker.step()
    assert (told, house.log.state().synced_seq) == ([], 21)
    house.worker.step()
    assert told == [None]


@pytest.mark.parametrize("policy", [DURABLE, BALANCED, THROUGHPUT])
def test_under_others_it_is_told_when_it_is_written(policy: SyncPolicy) -> None:
    """COMMIT-5: the end of the process does not bring it back."""
    house = house_with(policy)
    told = deleted(house)
    house.log.commit()
    assert told == [None]
    house.crash()
    assert house.seqs() == [seq for seq in range(1, 21) if seq not in (5, 7)]


def test_who_waits_for_nothing_is_told_with_the_commit() -> None:
    house, told = house_with(STRICT), Told()
    house.log.wait_deleted(told.append)
    house.log.commit()
    assert told == [None]


def test_a_weaker_policy_tells_at_once() -> None:
    house = house_with(STRICT)
    told = deleted(house)
    house.log.commit()
    house.log.configure(replace(house.settings, policy=BALANCED))
    assert told == [None]


def test_a_full_disk_does_not_take_it_and_it_is_told_later() -> None:
    """APPEND-2"""
    house = house_with(STRICT)
    house.disk.size_max = house.disk.machine.used_size()
    told = deleted(house)
    house.log.commit()
    house.worker.run_all()
    assert told == []
    house.disk.size_max = 1 << 62
    house.clock.advance(ns=FULL_DISK_RETRY_NS)
    house.log.tick()
    house.worker.run_all()
    assert told == [None]


@pytest.mark.parametrize("late", [False, True])
def test_a_failed_sync_is_told_and_no_success(late: bool) -> None:
    """COMMIT-3, COMMIT-5"""
    house = house_with(STRICT)
    told = deleted(house)
    house.disk.toxics.append(FailNth(1, "sync"))
    house.log.commit()
    house.worker.run_all()
    if late:
        told.clear()
        house.log.wait_deleted(told.append)
    assert [str(error) for error in told] == [str(house.log.failure)]


@pytest.mark.parametrize("full", [False, True])
def test_nobody_who_waits_is_forgotten_when_the_log_is_closed(full: bool) -> None:
    house = house_with(STRICT)
    told = deleted(house)
    if full:
        house.disk.size_max = house.disk.machine.used_size()
    house.log.close()
    assert len(told) == 1
    assert (told[0] is None) is not full
