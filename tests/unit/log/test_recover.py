"""What opening makes of a bad day: each of these was found by `sim.log_life`, and is told here by itself."""

from __future__ import annotations

import errno

import pytest

from sim.disk import SimDisk
from sim.medium import EVERYTHING, NOTHING
from sim.toxic import Crashed, CrashNth, FailNth
from tidelog.base.errors import DiskFailed
from tidelog.base.limits import CEILING_STEP, COMPACT_REST_NS
from tidelog.log.header import HEADER_SIZE, segment_path
from tidelog.log.policy import THROUGHPUT
from tidelog.log.settings import LogSettings
from unit.log.house import KIB, House
from unit.log.log_model import record_size

WEAK = LogSettings(policy=THROUGHPUT, segment_size=16 * KIB, window_size=KIB)


def filled(count: int) -> House:
    """A log with messages that are on the medium."""
    house = House()
    house.fill(count)
    house.worker.run_all()
    return house


def size_of(house: House) -> int:
    return sum(map(record_size, house.messages()))


@pytest.mark.parametrize("settings", [None, WEAK])
def test_what_is_found_after_a_kill_does_not_go_with_the_power(settings: LogSettings | None) -> None:
    """COMMIT-1: from then on it is committed, so it is synced first, and so are the names of segments."""
    house = House(settings)
    house.fill(250)
    house.crash()
    assert house.log.state().synced_seq == 250
    house.crash(NOTHING)
    assert house.seqs() == list(range(1, 251))


def test_what_a_failed_sync_has_left_in_memory_is_written_again() -> None:
    house = filled(20)
    house.disk.toxics.append(FailNth(1, "sync"))
    house.fill(20)
    house.worker.run_all()
    assert house.log.failure is not None
    house.disk.toxics.clear()
    house.crash()
    there = house.seqs()
    house.crash(NOTHING)
    assert house.seqs() == there


@pytest.mark.parametrize("opening", [False, True])
def test_after_a_failed_sync_a_log_goes_on_above_its_ceiling(opening: bool) -> None:
    """COMMIT-3: what was acknowledged as written may be forgotten, though the power has stayed."""
    house = House(WEAK, SimDisk(1, survival=NOTHING))
    house.fill(20)
    house.disk.toxics.append(FailNth(1, "sync"))
    if opening:
        house.disk.kill()
        house.disk = house.disk.reopen()
        with pytest.raises(DiskFailed):
            house.open()
    else:
        house.log.committer.sync()
        house.worker.run_all()
        assert house.log.failure is not None
    house.disk.toxics.clear()
    house.crash()
    assert house.log.state().last_seq == CEILING_STEP
    # A new ceiling is trusted again.
    house.fill(1)
    house.crash()
    assert house.log.append(b"s", b"p") == CEILING_STEP + 2


def test_a_log_that_is_closed_syncs_the_names_that_a_sync_under_way_has_not_come_to() -> None:
    house = House()
    house.worker.run_all()
    house.fill(150)
    assert len(house.log.store.segments) == 2
    house.log.close()
    house.crash(NOTHING)
    assert house.seqs() == list(range(1, 151))


def test_an_empty_segment_that_comes_back_amid_others_is_removed() -> None:
    house = House()
    house.fill(300)
    house.settle()
    path = segment_path("log", 50)
    file = house.disk.create(path)
    file.append([house.disk.image()[segment_path("log", 1)][:HEADER_SIZE]])
    file.sync()
    house.disk.sync_directory("log")
    house.crash()
    assert not house.disk.exists(path)
    assert house.findings.lost == []
    assert house.seqs() == list(range(1, 301))
    assert [one.seq for one in house.messages(backward=True)] == list(range(1, 301))


def test_a_last_segment_of_which_nothing_is_left_says_nothing_of_sequences() -> None:
    house = filled(110)
    while len(house.log.store.segments) == 1:
        house.log.append(b"s", b"p" * 100)
    last_seq = house.log.state().last_seq
    house.log.append(b"s", b"p" * 100)
    house.log.commit()
    path = house.log.store.segments[1].path
    house.disk.sync_directory("log")
    house.worker.drop_all()
    # The name has survived, and of the bytes a part that is no record.
    file = house.disk.open(path)
    file.write(HEADER_SIZE, bytes(file.size - HEADER_SIZE))
    house.crash(EVERYTHING)
    assert "nothing that was written is left in it" in "".join(house.findings.notes)
    assert house.log.state().last_seq == last_seq - 1
    assert house.findings.lost == []
    assert house.log.append(b"s", b"p") == last_seq


def test_damage_in_the_open_segment_costs_nothing_that_is_in_the_tail() -> None:
    house = House()
    house.fill(20)
    path = house.log.store.segments[0].path
    house.disk.flip_bit(path, len(house.disk.image()[path]) // 2, 1)
    house.crash()
    (lost,) = house.findings.lost
    for _ in range(5):
        house.log.append(b"s", b"p")
    before = house.log.state()
    assert before.messages == 20 - (lost[1] - lost[0]) + 5
    # A look-up beside the damage finds it again, at the end of what is written.
    assert house.log.get(lost[0] - 1) is not None
    assert house.log.seq_at_time(0) == 1
    assert house.log.state() == before
    house.log.commit()
    house.worker.run_all()
    assert house.seqs() == [seq for seq in range(1, 26) if not lost[0] <= seq < lost[1]]
    assert house.log.state().size == size_of(house)


def test_sizes_are_exact_where_one_of_the_deleted_is_damaged() -> None:
    house = House()
    house.fill(30)
    house.remove([10, 11, 12])
    house.worker.run_all()
    path = house.log.store.segments[0].path
    data = house.disk.image()[path]
    house.disk.flip_bit(path, data.index(b"000010"), 1)  # in message 11
    house.crash()
    assert house.log.state().size == size_of(house)
    assert house.log.state().lost == ()


def test_deletes_of_segments_that_have_gone_are_not_said_of_those_that_come_back() -> None:
    house = House()
    house.fill(400)
    house.settle()
    first = house.log.store.segments[1].base_seq
    for seq in (first - 1, first):
        house.log.remove(seq)
    house.log.purge(before_seq=first + 50)
    assert house.log.store.take_front()
    house.log.commit()
    house.crash(power=True)
    assert house.log.state().size == size_of(house)
    assert house.seqs()[0] == house.log.state().first_seq


def test_the_oldest_messages_that_are_lost_are_told_though_the_log_begins_behind_them() -> None:
    house = filled(20)
    house.disk.flip_bit(house.log.store.segments[0].path, HEADER_SIZE + 40, 1)
    house.crash()
    assert house.findings.lost == [(1, 2)]
    assert house.log.state().first_seq == 2


def test_the_name_of_a_directory_that_was_made_and_not_synced_is_synced_by_the_next() -> None:
    disk = SimDisk(1, toxics=[CrashNth(1, "sync_directory")])
    with pytest.raises(Crashed):
        House(disk=disk)
    disk.toxics.clear()
    disk.kill()
    house = House(disk=disk.reopen())
    house.fill(10)
    house.worker.run_all()
    house.crash(NOTHING)
    assert house.seqs() == list(range(1, 11))


def test_what_a_full_disk_took_and_would_not_give_back_is_cut_off_before_the_next_try() -> None:
    house = filled(10)
    house.disk.size_max = house.disk.machine.used_size() + 50
    house.disk.toxics.append(FailNth(1, "truncate", number=errno.ENOSPC))
    house.log.append(b"s", b"p" * 100)
    house.log.commit()
    assert house.log.refusal is not None
    house.disk.size_max = 1 << 62
    house.log.commit()
    assert house.log.refusal is None
    house.fill(10)
    house.settle()
    assert house.seqs() == list(range(1, 22))
    house.crash(power=True)
    assert (house.seqs(), house.findings.lost) == (list(range(1, 22)), [])


def test_names_are_certain_also_where_only_indexes_were_read() -> None:
    """KEEP-1: the process ended before a rewritten segment's name was synced, and the next rewritings rely on it."""
    house = House()
    house.fill(300)
    house.remove([seq for seq in range(2, 100) if seq % 4])
    while len(house.log.store.segments) < 4:
        house.log.append(b"s", b"p" * 100)
        house.log.commit()
    house.worker.run_all()
    for name in house.disk.list("log"):
        house.disk.open(f"log/{name}").sync()
    house.log.store.segments[-1].file_now().truncate(HEADER_SIZE)
    house.settings = WEAK
    house.crash()
    assert house.findings.surveyed == 0
    house.log.tick()
    house.clock.advance(ns=COMPACT_REST_NS)
    house.log.tick()
    house.worker.step()
    path = house.log.store.segments[0].path
    assert house.log.keeper.figures.compactions == 1
    assert any(path.endswith(name.split(" -> ")[-1]) for name in house.disk.unsynced())
    house.crash()
    assert not any(path.endswith(name.split(" -> ")[-1]) for name in house.disk.unsynced())


@pytest.mark.parametrize("bit", [*range(0, 8 * HEADER_SIZE, 5)])
def test_a_turned_bit_in_the_only_header_costs_nothing(bit: int) -> None:
    """Also where the first record, from which the log could be told, is damaged."""
    house = filled(30)
    path, log_id = house.log.store.segments[0].path, house.log.store.log_id
    for byte in (HEADER_SIZE + 40, HEADER_SIZE + 41):
        house.disk.flip_bit(path, byte, 3)
    whole = house.disk.image()[path][:HEADER_SIZE]
    house.disk.flip_bit(path, bit // 8, bit % 8)
    house.crash()
    assert house.seqs() == list(range(2, 31))
    assert house.log.store.log_id == log_id
    assert house.disk.image()[path][:HEADER_SIZE] == whole
    assert "has been written again" in house.findings.notes[0]


def test_a_log_is_known_by_its_records_where_the_first_sector_is_lost() -> None:
    house = filled(30)
    (segment,) = house.log.store.segments
    segment.file_now().write(0, bytes(512))
    house.crash()
    first_seq = house.log.state().first_seq
    assert 1 < first_seq < 6
    assert house.seqs() == list(range(first_seq, 31))
