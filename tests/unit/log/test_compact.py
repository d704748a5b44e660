"""Compaction: sparse segments are rewritten without what is deleted, and nobody notices."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth, Nth, every_crash, every_failure
from tidelog.base.limits import COMPACT_BYTES_PER_SECOND, COMPACT_DEAD_SIZE, COMPACT_REST_NS
from tidelog.log.fsck import Severity, check_log
from tidelog.log.header import index_path, segment_path
from tidelog.log.key_ring import SECRET_SIZE, Key, KeyRing
from tidelog.log.policy import STRICT
from tidelog.log.settings import LogSettings
from tidelog.log.sidecar import decode_ranges
from tidelog.log.survey import survey
from tidelog.log.walk import walk
from unit.log.house import KIB, House

SPARSE = [seq for seq in range(2, 100) if seq % 4]


def sparse_house(disk: SimDisk | None = None) -> House:
    """Three segments, the first of which is to be compacted."""
    house = House(disk=disk)
    house.fill(300)
    house.worker.run_all()
    house.remove(SPARSE)
    house.worker.run_all()
    return house


def test_a_sparse_segment_is_rewritten_without_what_is_deleted() -> None:
    house = sparse_house()
    before, sizes = house.messages(), house.segment_sizes()
    state = house.log.state()
    house.settle()
    first = min(sizes)
    after = house.segment_sizes()
    assert after[first] < sizes[first] / 2
    assert {name: size for name, size in after.items() if name != first} == {
        name: size for name, size in sizes.items() if name != first
    }
    assert house.messages() == before
    assert house.messages(backward=True) == before
    assert house.log.state() == state
    figures = house.log.keeper.figures
    assert (figures.compactions, figures.reclaimed_size) == (1, sizes[first] - after[first])
    assert figures.rewritten_size == after[first]


@pytest.mark.parametrize("power", [False, True])
def test_a_compacted_log_is_the_same_when_it_is_opened_again(power: bool) -> None:
    """KEEP-2: what is missing is explained, and figures are those of before."""
    house = sparse_house()
    house.settle()
    before, state = house.messages(), house.log.state()
    house.crash(power)
    assert house.messages() == before
    assert house.log.state() == state
    # Index files are synced only where a segment was rewritten.
    assert house.findings.surveyed == 1 or power
    assert house.findings.lost == []
    assert check_log(house.disk, "log").severity is Severity.NOTE


def test_a_compacted_segment_is_compacted_again() -> None:
    house = House()
    house.fill(100, payload=bytes(400))
    house.worker.run_all()
    end_seq = house.log.store.segments[1].base_seq
    house.remove([seq for seq in range(2, end_seq) if seq % 3])
    house.settle()
    house.remove(list(range(3, end_seq, 3)))
    house.settle()
    assert house.log.keeper.figures.compactions == 2
    before = house.messages()
    house.crash()
    assert house.messages() == before
    assert house.findings.lost == []


def test_what_is_deleted_meanwhile_stays_deleted() -> None:
    house = sparse_house()
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    assert len(house.worker) == 1, "the segment is being rewritten"
    house.remove([4, 8, 12])
    segment = house.log.store.segments[0]
    house.worker.run_all()
    assert (segment.dead_count, house.log.keeper.figures.compactions) == (3, 1)
    assert [house.log.fact(seq) for seq in (4, 5, 16)] == ["deleted", "deleted", "present"]
    before, state = house.messages(), house.log.state()
    house.crash()
    assert house.messages() == before
    assert house.log.state() == state
    assert house.log.store.segments[0].dead_count == 3


def test_a_reader_in_the_middle_goes_on() -> None:
    house = sparse_house()
    wanted = house.seqs()
    reader = house.log.reader()
    found = reader.read(10).sequences()
    house.settle()
    while batch := reader.read(7).sequences():
        found += batch
    assert found == wanted


def test_deletes_of_other_segments_are_kept_while_they_are_needed() -> None:
    """The records that say what is deleted in the first segment stand in one that is compacted before it is."""
    house = House()
    house.fill(40, payload=bytes(400))
    house.remove([3, 5])
    house.fill(60, payload=bytes(400))
    second, end_seq = (segment.base_seq for segment in house.log.store.segments[1:3])
    house.worker.run_all()
    house.remove([seq for seq in range(second, end_seq) if seq % 3])
    house.settle()
    assert [segment.dead_count for segment in house.log.store.segments[:2]] == [2, 0]
    house.crash()
    assert [house.log.fact(seq) for seq in (3, 5)] == ["deleted", "deleted"]
    assert deletes(house, second) >= {3, 5}
    # Once the first one explains itself, the second one says nothing of it any more.
    house.remove([seq for seq in range(7, second) if seq % 3])
    house.settle()
    house.remove([seq for seq in range(second, end_seq) if seq % 3 == 0])
    before = house.messages()
    house.settle()
    assert house.log.keeper.figures.compactions == 2
    assert deletes(house, second) == set(range(second, end_seq))
    assert deletes(house, 1) >= {3, 5}
    house.crash()
    assert house.messages() == before
    assert house.findings.lost == []


def test_what_is_deleted_beside_damage_stays_deleted() -> None:
    """KEEP-1: the first of two that were deleted together was damaged, so that it looked as if both had gone."""
    house = House()
    house.fill(40, payload=bytes(400))
    house.remove([20, 21])
    house.fill(60, payload=bytes(400))
    house.worker.run_all()
    first, second, third = house.log.store.segments[:3]
    house.disk.flip_bit(first.path, house.disk.image()[first.path].index(b"%06d" % 19), 3)
    house.disk.remove(index_path("log", first.base_seq))
    house.crash()
    house.remove([seq for seq in range(second.base_seq, third.base_seq) if seq % 3])
    house.settle()
    assert house.log.keeper.figures.compactions == 1
    before = house.seqs()
    house.crash(power=True)
    assert house.seqs() == before
    assert house.log.fact(21) == "deleted"


def deletes(house: House, base_seq: int) -> set[int]:
    """The sequences that the delete records of a segment name."""
    data = house.disk.image()[segment_path("log", base_seq)]
    salt = house.log.store.log_salt
    found: set[int] = set()
    for place in walk(data, survey(data, base_seq, salt), salt):
        assert place.record is not None
        if place.record["kind"] == 2:
            for first, count, _ in decode_ranges(place.record["payload"]) or []:
                found.update(range(first, first + count))
    return found


def test_the_last_sequence_is_not_forgotten_with_its_message() -> None:
    """A segment that has become the last one, as the next was never written to, has lost its newest messages."""
    house = House()
    house.fill(105)
    house.worker.run_all()
    assert len(house.log.store.segments) == 1
    base_seq = None
    while base_seq is None:
        house.fill(1)
        if len(house.log.store.segments) > 1:
            base_seq = house.log.store.segments[1].base_seq
    house.worker.run_all()
    house.remove([seq for seq in range(2, base_seq) if seq != 50])
    house.settle()
    # What was written to the second one goes with it.
    house.disk.remove(house.log.store.segments[1].path)
    house.disk.sync_directory("log")
    house.crash()
    assert (house.log.state().last_seq, house.seqs(), house.findings.lost) == (base_seq - 1, [1, 50], [])
    assert house.log.append(b"s", b"p") == base_seq


def test_what_retention_leaves_in_the_oldest_segment_is_left_to_it() -> None:
    house = House()
    house.fill(300)
    house.log.purge(before_seq=100)
    house.settle()
    assert house.log.keeper.figures.compactions == 0
    assert house.log.store.segments[0].is_sparse()
    house.remove([seq for seq in range(102, 130) if seq % 4])
    house.fill(1)
    assert house.log.store.segments[0].base_seq == 1


def test_the_threshold_of_bytes() -> None:
    """COMPACT_DEAD_SIZE and COMPACT_DEAD_PERCENT, at their edges."""
    house = House(LogSettings(policy=STRICT, segment_size=COMPACT_DEAD_SIZE * 2 + 64, window_size=KIB))
    for _ in range(100):
        house.log.append(b"s", bytes(1024 - 33))
    house.settle()
    segment = house.log.store.segments[0]
    assert (segment.side.message_bytes, segment.side.messages) == (8 * 1024, 8)
    house.remove([2, 3, 4])
    assert not segment.is_sparse()
    house.remove([5])
    size = segment.dead_size
    assert (size, size * 2) == (COMPACT_DEAD_SIZE, segment.side.message_bytes)
    assert segment.is_sparse()


def test_a_sparse_segment_rests_and_then_others_wait_for_the_budget() -> None:
    house = House(LogSettings(policy=STRICT, segment_size=1024 * KIB, window_size=KIB))
    house.fill(400, payload=bytes(10_000))
    house.worker.run_all()
    ends = [segment.base_seq for segment in house.log.store.segments]
    assert len(ends) == 4
    house.remove([seq for seq in range(2, ends[2]) if seq % 4])
    house.worker.run_all()
    due_ns = house.log.next_due_ns()
    assert due_ns == house.clock.monotonic_ns() + COMPACT_REST_NS
    house.clock.advance(ns=COMPACT_REST_NS - 1)
    house.log.tick()
    assert len(house.worker) == 0
    house.clock.advance(ns=1)
    house.log.tick()
    sizes = house.segment_sizes()
    read_size = next(iter(sizes.values()))
    assert house.worker.run_all() == 2
    figures = house.log.keeper.figures
    assert figures.compactions == 1
    # What it cost is waited for before the next one.
    waits_ns = (read_size + figures.rewritten_size) * 1_000_000_000 // COMPACT_BYTES_PER_SECOND
    assert house.log.next_due_ns() == house.clock.monotonic_ns() + waits_ns
    house.clock.advance(ns=waits_ns - 1)
    house.log.tick()
    assert len(house.worker) == 0
    house.clock.advance(ns=1)
    house.log.tick()
    assert len(house.worker) == 1


def test_a_damaged_segment_is_left_as_it_is() -> None:
    house = sparse_house()
    house.disk.flip_bit(house.log.store.segments[0].path, 5000, 3)
    sizes = house.segment_sizes()
    house.settle()
    assert house.segment_sizes() == sizes
    assert house.log.keeper.figures.compactions == 0
    assert "is damaged, and left as it is" in house.log.keeper.troubles[-1]


def test_retention_waits_for_a_segment_that_is_being_rewritten() -> None:
    house = sparse_house()
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    path = house.log.store.segments[0].path
    house.log.purge(before_seq=250)
    house.log.commit()
    house.worker.run_all()
    assert not house.disk.exists(path)
    assert house.seqs() == list(range(250, 301))
    house.crash()
    assert house.seqs() == list(range(250, 301))


def test_a_log_that_is_closed_meanwhile_is_not_touched() -> None:
    house = sparse_house()
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    before, sizes = house.seqs(), house.segment_sizes()
    house.log.close()
    house.log, house.findings = house.open()
    house.worker.run_all()
    assert {name: size for name, size in house.segment_sizes().items() if name in sizes} == sizes
    assert house.seqs() == before
    house.log.close()
    house.log, house.findings = house.open()
    assert house.seqs() == before


def test_a_full_disk_is_a_trouble_and_tried_again() -> None:
    house = sparse_house()
    before = house.messages()
    house.disk.size_max = house.disk.machine.used_size() + 100
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    house.worker.run_all()
    assert "No space left" in house.log.keeper.troubles[-1]
    assert house.log.refusal is None
    assert not [name for name in house.disk.image() if name.endswith(".new")]
    house.disk.size_max = 1 << 62
    house.settle()
    assert house.log.keeper.figures.compactions == 1
    assert house.messages() == before


def test_every_call_that_fails() -> None:
    """Whatever the disk refuses, nothing is lost, and the log goes on or is opened again."""
    wanted = sparse_house().seqs()

    def run(fault: Nth) -> None:
        house = sparse_house()
        house.disk.toxics.append(fault)
        house.clock.advance(ns=COMPACT_REST_NS)
        house.log.tick()
        house.worker.run_all()
        house.disk.toxics.clear()
        assert house.log.failure is None
        assert house.seqs() == wanted
        house.settle()
        assert house.seqs() == wanted
        assert house.log.append(b"s", b"p") == 301
        house.settle()
        house.crash(power=True)
        assert house.seqs() == [*wanted, 301]
        assert house.findings.lost == []

    outcomes = [outcome for _, outcome in every_failure(run)]
    assert len(outcomes) > 10
    assert all(outcome.error is None for outcome in outcomes)


@pytest.mark.parametrize("crash", [SimDisk.kill, SimDisk.power_cut])
@pytest.mark.parametrize("seed", range(5))
def test_every_crash(seed: int, crash: Callable[[SimDisk], None]) -> None:
    """KEEP-1: the old segment or the new one."""
    wanted = sparse_house().seqs()
    packed = []

    def run(fault: Nth) -> None:
        disk = SimDisk(seed)
        house = sparse_house(disk)
        sizes = house.segment_sizes()
        disk.toxics.append(fault)
        try:
            house.clock.advance(ns=COMPACT_REST_NS)
            house.log.tick()
            house.worker.run_all()
        finally:
            disk.toxics.clear()
            crash(disk)
            house.worker.drop_all()
            house.disk = disk.reopen()
            house.log, house.findings = house.open()
            assert house.findings.lost == []
            assert house.seqs() == wanted
            assert check_log(house.disk, "log").severity <= Severity.REPAIRABLE
            packed.append(house.segment_sizes() != sizes)
            house.settle()
            assert house.seqs() == wanted

    outcomes = [outcome for _, outcome in every_crash(run)]
    assert len(outcomes) > 10
    assert any(packed)
    assert not all(packed)


def test_nothing_more_is_rewritten_when_names_are_uncertain() -> None:
    house = sparse_house()
    house.disk.toxics.append(FailNth(2, "sync_directory", number=errno.EIO))
    house.settle()
    assert house.log.keeper.compactor.halted
    house.remove([seq for seq in range(120, 200) if seq % 4])
    house.settle()
    assert house.log.keeper.figures.compactions == 1
    house.log.configure(replace(house.settings, window_size=2 * KIB))


@pytest.mark.parametrize("method", [{"compression": "zstd"}, {"encrypt": True}])
def test_a_packed_segment_in_which_a_bit_has_turned_is_written_anew(method: dict[str, Any]) -> None:
    """Whoever reads it gets what was written, and the file is mended in the background."""
    keys = KeyRing((Key("one", bytes(SECRET_SIZE)),))
    house = House(LogSettings(policy=STRICT, segment_size=16 * KIB, window_size=KIB, keys=keys, **method))
    house.fill(300)
    house.settle()
    before, segment = house.messages(), house.log.store.segments[0]
    packed_size = len(house.disk.image()[segment.path])
    house.reopen()
    segment = house.log.store.segments[0]
    house.disk.flip_bit(segment.path, packed_size // 2, 3)
    assert house.messages() == before
    assert house.log.next_due_ns() == house.clock.monotonic_ns()
    house.settle()
    figures = house.log.keeper.figures
    assert (figures.repaired, figures.packed, figures.troubles) == (1, 1, 1)
    assert "a bit had turned at" in house.log.keeper.troubles[0]
    house.reopen()
    assert house.messages() == before
    assert house.log.keeper.figures.repaired == 0
    assert check_log(house.disk, "log", keys).findings == []


def test_a_bit_that_was_read_wrong_once_is_no_reason_to_leave_a_segment_alone() -> None:
    house = House(LogSettings(policy=STRICT, segment_size=16 * KIB, window_size=KIB, compression="zstd"))
    house.fill(300)
    house.settle()
    house.reopen()
    segment = house.log.store.segments[0]
    middle = len(house.disk.image()[segment.path]) // 2
    house.disk.flip_bit(segment.path, middle, 3)
    house.messages()
    house.disk.flip_bit(segment.path, middle, 3)
    house.settle()
    assert (house.log.keeper.figures.repaired, house.log.keeper.figures.packed) == (1, 0)
    assert not segment.stuck
