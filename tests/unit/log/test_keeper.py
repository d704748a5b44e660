"""What happens to complete segments: sealed, packed, removed; and a disk that is full."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth, Nth, every_crash, every_failure
from tidelog.base.errors import ConfigError, KeyUnavailable
from tidelog.base.limits import COMPACT_REST_NS, FULL_DISK_RETRY_NS, KEEPER_RETRY_NS
from tidelog.log.fsck import Severity, check_log
from tidelog.log.header import segment_path
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.log import LogRefused
from tidelog.log.packed_block import DESCRIPTION_SIZE, SEGMENT_HEADER_SIZE, decode_description, is_packed
from tidelog.log.policy import STRICT
from tidelog.log.settings import Limits, LogSettings
from unit.log.house import KIB, House

OLD, NEW = Key("old", bytes(range(32))), Key("new", bytes(range(100, 132)))
PLAIN = LogSettings(policy=STRICT, segment_size=16 * KIB, window_size=KIB)
ZSTD = replace(PLAIN, compression="zstd")
SEALED = replace(PLAIN, encrypt=True, keys=KeyRing((OLD,)))
BOTH = replace(PLAIN, compression="zstd", encrypt=True, keys=KeyRing((OLD,)))
ROTATED = replace(BOTH, keys=KeyRing((NEW, OLD)))


def key_ids(house: House) -> list[str | None]:
    """Of each segment; "": packed without a key; None: plain."""
    found: list[str | None] = []
    for data in (data for name, data in sorted(house.disk.image().items()) if name.endswith(".seg")):
        described = decode_description(data[SEGMENT_HEADER_SIZE : SEGMENT_HEADER_SIZE + DESCRIPTION_SIZE])
        assert (described is not None) is is_packed(data)
        found.append(described.key_id if described else None)
    return found


@pytest.mark.parametrize(("settings", "key_id"), [(ZSTD, ""), (SEALED, "old"), (BOTH, "old")])
@pytest.mark.parametrize("clean", [False, True])
def test_complete_segments_are_packed_as_the_settings_say(
    settings: LogSettings, key_id: str, clean: bool
) -> None:
    house, plain = House(settings), House()
    for one in (house, plain):
        one.fill(300)
        one.settle()
    assert key_ids(house) == [key_id, key_id, None]
    assert house.messages() == plain.messages()
    assert house.messages(backward=True) == plain.messages()
    assert house.log.keeper.figures.packed == 2
    if settings.compression == "zstd":
        sizes, plain_sizes = house.segment_sizes(), plain.segment_sizes()
        assert sum(sizes.values()) < sum(plain_sizes.values()) / 2
    assert check_log(house.disk, "log", settings.keys).severity is Severity.NOTE
    if clean:
        house.reopen()
    else:
        house.crash()
    assert house.messages() == plain.messages()
    assert (house.findings.surveyed, house.findings.lost) == (0 if clean else 1, [])
    house.settle()
    assert house.log.keeper.figures.packed == 0


def test_what_is_plain_is_packed_when_the_settings_have_changed() -> None:
    house = House()
    house.fill(300)
    house.settle()
    before = house.messages()
    house.log.configure(BOTH)
    house.settle()
    assert key_ids(house) == ["old", "old", None]
    assert house.messages() == before
    # And what is packed stays so; new segments are as the settings say.
    house.log.configure(replace(PLAIN, keys=BOTH.keys))
    house.fill(120)
    house.settle()
    assert key_ids(house) == ["old", "old", None, None]
    house.reopen(replace(PLAIN, keys=BOTH.keys))
    assert house.messages()[:300] == before


def test_a_key_that_was_rotated_opens_and_compaction_takes_the_new_one() -> None:
    house = House(BOTH)
    house.fill(300)
    house.settle()
    house.reopen(ROTATED)
    assert len(house.seqs()) == 300
    house.remove([seq for seq in range(2, 100) if seq % 4])
    house.settle()
    assert key_ids(house) == ["new", "old", None]
    before = house.messages()
    house.crash()
    assert house.messages() == before


def test_a_missing_key_is_said_and_is_no_damage() -> None:
    house = House(BOTH)
    house.fill(300)
    house.settle()
    house.log.close()
    image = house.disk.image()
    for settings in (PLAIN, replace(BOTH, keys=KeyRing((NEW,)))):
        house.settings = settings
        with pytest.raises(KeyUnavailable, match="'old'"):
            house.open()
        assert {name: data for name, data in house.disk.image().items() if name.endswith(".seg")} == {
            name: data for name, data in image.items() if name.endswith(".seg")
        }
    house.settings = BOTH
    house.log, house.findings = house.open()
    assert house.findings.lost == []
    assert len(house.seqs()) == 300


def test_keys_that_do_not_open_what_is_there_are_refused() -> None:
    house = House(BOTH)
    house.fill(300)
    house.settle()
    with pytest.raises(KeyUnavailable, match="'old'"):
        house.log.configure(replace(BOTH, keys=KeyRing((NEW,))))
    assert len(house.seqs()) == 300
    with pytest.raises(ConfigError, match="no keys are given"):
        house.log.configure(replace(PLAIN, encrypt=True))
    with pytest.raises(ConfigError, match="use none or zstd"):
        house.log.configure(replace(PLAIN, compression="gzip"))  # type: ignore[arg-type]
    assert house.log.settings == BOTH


def test_a_damaged_block_costs_what_is_in_it() -> None:
    house = House(replace(BOTH, segment_size=256 * KIB))
    house.fill(3000)
    house.settle()
    path = house.log.store.segments[0].path
    for bit in (1, 2):
        house.disk.flip_bit(path, len(house.disk.image()[path]) // 2, bit)
    first = house.log.store.segments[1].base_seq
    seqs = house.seqs()
    assert 0 < 3000 - len(seqs) < 600
    assert set(range(first, 3001)) <= set(seqs)
    lost = house.log.state().lost
    assert sum(end_seq - start_seq for start_seq, end_seq in lost) == 3000 - len(seqs)
    house.disk.remove(path.replace(".seg", ".idx"))
    house.crash()
    assert house.seqs() == seqs
    assert house.log.state().lost == lost


def test_a_damaged_header_of_a_packed_segment_is_written_again() -> None:
    house = House(BOTH)
    house.fill(300)
    house.settle()
    path = house.log.store.segments[0].path
    before, messages = house.disk.image()[path], house.messages()
    house.disk.flip_bit(path, 20, 1)
    house.crash()
    assert house.disk.image()[path] == before
    assert house.messages() == messages


def test_a_packed_segment_that_has_become_the_last_one_stays_complete() -> None:
    house = House(BOTH)
    house.fill(300)
    house.settle()
    last = house.log.store.segments[2].base_seq
    house.disk.remove(segment_path("log", last))
    house.disk.sync_directory("log")
    house.crash()
    assert house.seqs() == list(range(1, last))
    assert house.log.append(b"s", b"p") == last
    house.settle()
    house.crash(power=True)
    assert house.seqs() == list(range(1, last + 1))


@pytest.mark.parametrize("crash", [SimDisk.kill, SimDisk.power_cut])
@pytest.mark.parametrize("seed", range(3))
def test_every_crash_while_segments_are_sealed_and_packed(
    seed: int, crash: Callable[[SimDisk], None]
) -> None:
    def run(fault: Nth) -> None:
        disk = SimDisk(seed)
        house = House(BOTH, disk)
        house.fill(110)
        house.settle()
        disk.toxics.append(fault)
        acked: list[int] = []
        try:
            for _ in range(10):
                seq = house.log.append(b"s", bytes(100))
                house.log.commit()
                house.log.wait(seq, lambda error, seq=seq: acked.append(seq) if error is None else None)
                house.worker.run_all()
            house.log.tick()
            house.worker.run_all()
        finally:
            disk.toxics.clear()
            crash(disk)
            house.worker.drop_all()
            house.disk = disk.reopen()
            house.log, house.findings = house.open()
            assert house.findings.lost == []
            assert house.seqs()[: 110 + len(acked)] == list(range(1, 111 + len(acked)))
            house.settle()
            assert len(house.seqs()) >= 110 + len(acked)

    assert len([outcome for _, outcome in every_crash(run)]) > 30


def test_every_call_that_fails_while_segments_are_packed() -> None:
    def run(fault: Nth) -> None:
        house = House()
        house.fill(300)
        house.settle()
        house.settings = BOTH
        house.log.configure(BOTH)
        house.disk.toxics.append(fault)
        house.log.tick()
        house.worker.run_all()
        house.disk.toxics.clear()
        assert house.log.failure is None
        assert len(house.seqs()) == 300
        house.settle()
        house.crash(power=True)
        assert house.seqs() == list(range(1, 301))
        house.settle()
        assert key_ids(house) == ["old", "old", None]

    outcomes = [outcome for _, outcome in every_failure(run)]
    assert len(outcomes) > 10
    assert all(outcome.error is None for outcome in outcomes)


def test_files_go_one_after_the_other_and_each_for_certain() -> None:
    """KEEP-3"""
    house = House()
    house.fill(600)
    house.settle()
    house.disk.toxics.append(FailNth(4, "remove", number=errno.EIO))
    house.log.purge(before_seq=550)
    house.log.commit()
    house.worker.run_all()
    assert len(house.log.keeper.troubles) == 1
    assert house.log.keeper.figures.removed == 1
    due_ns = house.log.next_due_ns()
    assert due_ns == house.clock.monotonic_ns() + KEEPER_RETRY_NS
    house.settle()
    assert house.log.keeper.figures.removed == 4
    assert min(house.segment_sizes()) == house.log.store.segments[0].path
    assert house.seqs() == list(range(550, 601))


@pytest.mark.parametrize("seed", range(10))
def test_a_power_cut_while_files_go_leaves_the_end_of_the_log(seed: int) -> None:
    """KEEP-3: also when the trim record was lost, as nobody waited for it."""

    def run(fault: Nth) -> None:
        disk = SimDisk(seed)
        house = House(disk=disk)
        house.fill(600)
        house.settle()
        disk.toxics.append(fault)
        try:
            house.log.purge(before_seq=550)
            house.log.commit()
            house.worker.run_all()
        finally:
            disk.toxics.clear()
            house.crash(power=True)
            assert house.findings.lost == []
            assert house.seqs()[-51:] == list(range(550, 601))

    assert len([outcome for _, outcome in every_crash(run)]) > 10


def test_a_full_disk_is_freed_by_retention_without_a_word() -> None:
    """What says that messages went does not fit on the disk before they have gone."""
    house = House()
    house.fill(605)
    house.settle()
    house.log.configure(replace(PLAIN, limits=Limits(max_age_ns=10**9)))
    house.disk.size_max = house.disk.machine.used_size()
    assert house.log.append(b"s", b"p") == 606
    house.log.commit()
    with pytest.raises(LogRefused, match="the disk is full"):
        house.log.append(b"s", b"p")
    assert len(house.seqs()) == 605
    house.clock.advance(seconds=0.9)
    house.log.tick()
    assert 300 < house.log.state().first_seq < 601
    assert house.log.refusal is not None
    house.worker.run_all()
    house.log.tick()
    house.worker.run_all()
    assert house.log.refusal is None
    assert house.log.append(b"s", b"p") == 607
    house.crash()
    assert house.seqs()[-1] == 606


def test_a_segment_that_cannot_be_begun_is_a_full_disk_and_no_failure() -> None:
    house = House()
    house.fill(100)
    house.worker.run_all()
    house.disk.size_max = house.disk.machine.used_size() + 4 * KIB
    with pytest.raises(LogRefused, match="the disk is full"):
        house.fill(100)
    last_seq = house.log.state().last_seq
    assert 110 < last_seq < 140
    house.disk.size_max = 1 << 62
    house.clock.advance(ns=FULL_DISK_RETRY_NS)
    assert house.log.next_due_ns() is not None
    house.log.tick()
    house.fill(100)
    house.settle()
    assert house.seqs() == list(range(1, last_seq + 101))
    house.crash(power=True)
    assert house.seqs() == list(range(1, last_seq + 101))


def test_a_segment_that_cannot_be_begun_for_another_reason_is_told() -> None:
    house = House()
    house.disk.toxics.append(FailNth(1, "create", number=errno.EMFILE))
    with pytest.raises(LogRefused, match=r"another segment could not be begun: .*Too many open files"):
        house.fill(130)
    assert house.log.refusal is None
    house.fill(10)
    house.worker.run_all()
    assert house.seqs() == list(range(1, house.log.state().last_seq + 1))


def test_an_index_that_did_not_fit_is_a_trouble_only() -> None:
    house = House()
    house.fill(110)
    house.disk.toxics.append(FailNth(1, "create", "log/", number=errno.ENOSPC))
    house.disk.toxics[0].aim.path = "log/00000000000000000001.idx"  # type: ignore[attr-defined]
    house.fill(30)
    house.settle()
    assert "No space left" in house.log.keeper.troubles[0]
    assert house.log.refusal is None
    assert house.log.store.segments[0].sealed
    house.crash()
    assert (house.findings.surveyed, house.seqs()) == (2, list(range(1, 141)))


def test_a_rest_is_not_needed_for_packing() -> None:
    house = House(BOTH)
    house.fill(300)
    start_ns = house.clock.monotonic_ns()
    house.settle()
    assert house.clock.monotonic_ns() - start_ns < COMPACT_REST_NS
