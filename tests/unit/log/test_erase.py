"""Messages that are deleted for good: their bytes go from the files, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.disk import SimDisk
from sim.medium import NOTHING
from sim.toxic import FailNth, Nth, every_crash
from tidelog.base.limits import ERASE_PER_JOB, KEEPER_RETRY_NS
from tidelog.log.erase import blank
from tidelog.log.fsck import Severity, check_log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.record import decode, encode_message
from tidelog.log.settings import LogSettings
from unit.log.house import KIB, House

WEAK = LogSettings(policy=THROUGHPUT, segment_size=16 * KIB, window_size=KIB)


def holds(house: House, text: bytes) -> bool:
    return any(text in data for data in house.disk.image().values())


def secret(house: House, text: bytes = b"a secret") -> int:
    seq: int = house.log.append(b"s.secret", text, b"header of " + text)
    return seq


def erase(house: House, *seqs: int) -> None:
    for seq in seqs:
        assert house.log.remove(seq, erase=True)
    house.log.commit()


@pytest.mark.parametrize("expiry_ns", [0, 5])
def test_an_erased_record_is_one_of_the_same_size(expiry_ns: int) -> None:
    record = encode_message(7, 9, b"subject", b"header", b"payload", expiry_ns, 3)
    erased = blank(record, 3)
    fields = decode(erased, 0, 3)
    assert len(erased) == len(record)
    assert (fields["seq"], fields["ts_ns"], fields["expiry_ns"]) == (7, 9, expiry_ns)
    assert (fields["subject"], fields["header"]) == (b"", b"")
    assert not any(fields["payload"])
    assert blank(erased, 3) == erased


@pytest.mark.parametrize("settings", [None, WEAK])
@pytest.mark.parametrize("place", ["open", "sealed", "oldest"])
def test_the_bytes_of_an_erased_message_go_from_the_files(settings: LogSettings | None, place: str) -> None:
    house = House(settings)
    if place != "oldest":
        house.fill(20)
    seq = secret(house)
    house.fill(300 if place == "sealed" else 20)
    house.worker.run_all()
    assert holds(house, b"a secret")
    others = [one for one in house.messages() if one.seq != seq]
    erase(house, seq)
    house.worker.run_all()
    assert not holds(house, b"a secret")
    assert house.log.keeper.figures.erased == 1
    assert house.messages() == others
    assert check_log(house.disk, "log").severity is Severity.NOTE
    for power in (False, True):
        house.crash(power)
        assert house.messages() == others
        assert house.findings.lost == []
    assert house.log.fact(seq) == ("trimmed" if place == "oldest" else "deleted")


def test_a_message_is_deleted_for_certain_before_its_bytes_change() -> None:
    """ERASE-1: a synced delete record stands before it, whatever the policy."""
    house = House(WEAK)
    house.fill(5)
    seq = secret(house)
    house.fill(5)
    assert house.log.remove(seq, erase=True)
    house.worker.run_all()
    assert holds(house, b"a secret")
    house.log.commit()
    assert holds(house, b"a secret")
    assert house.log.committer.under_way
    house.worker.step()
    assert house.disk.unsynced() == []
    assert holds(house, b"a secret")
    house.worker.step()
    assert not holds(house, b"a secret")


@pytest.mark.parametrize("seed", range(3))
def test_every_crash_while_a_message_is_erased(seed: int) -> None:
    """ERASE-1, ERASE-2"""

    def run(fault: Nth) -> None:
        disk = SimDisk(seed, survival=NOTHING if seed == 1 else None)
        house = House(disk=disk)
        house.fill(20)
        first, second = secret(house), secret(house)
        house.fill(110)
        house.worker.run_all()
        disk.toxics.append(fault)
        said = False
        try:
            house.log.remove(first, erase=True)
            house.log.commit()
            house.worker.step()
            said = house.log.committer.synced_seq == house.log.committer.written_seq and not len(
                house.disk.unsynced()
            )
            house.worker.run_all()
        finally:
            disk.toxics.clear()
            house.crash(power=True)
            assert house.findings.lost == []
            seqs = set(house.seqs())
            assert seqs >= set(range(1, 133)) - {first}
            if said:
                assert first not in seqs
            if first not in seqs:
                house.settle()
                assert not holds(house, b"%06d" % 0 + b"never")
                data = b"".join(house.disk.image().values())
                assert data.count(b"a secret") == 2, "of the other one, in header and payload"
            assert second in seqs

    assert len([outcome for _, outcome in every_crash(run)]) > 5


def test_what_was_not_erased_when_the_process_ended_is_erased_by_the_next() -> None:
    """ERASE-2"""
    house = House()
    house.fill(20)
    seq = secret(house)
    house.fill(20)
    house.worker.run_all()
    erase(house, seq)
    house.crash()
    assert holds(house, b"a secret")
    assert house.log.next_due_ns() is not None
    house.settle()
    assert not holds(house, b"a secret")


def test_a_log_that_is_closed_erases_first() -> None:
    house = House()
    house.fill(20)
    seq = secret(house)
    house.fill(20)
    house.worker.run_all()
    erase(house, seq)
    house.log.close()
    assert not holds(house, b"a secret")
    house.worker.run_all()
    house.log, findings = house.open()
    assert findings.clean


@pytest.mark.parametrize("encrypt", [False, True])
def test_in_a_packed_segment_it_goes_by_rewriting(encrypt: bool) -> None:
    from unit.log.test_keeper import BOTH, ZSTD

    house = House(BOTH if encrypt else ZSTD)
    house.fill(20)
    seq, kept = secret(house), secret(house, b"kept")
    house.fill(300)
    house.settle()
    segment = house.log.store.segments[0]
    assert segment.packed
    before = house.disk.image()[segment.path]
    erase(house, seq)
    house.settle()
    assert house.log.keeper.figures.erased == 1
    assert house.disk.image()[segment.path] != before
    assert segment.side.messages == before_messages(house, kept)
    assert (segment.side.holes, house.log.fact(seq)) == ([(seq, 1)], "deleted")
    house.crash(power=True)
    assert kept in house.seqs()
    assert not house.log.keeper.eraser.pending


def before_messages(house: House, seq: int) -> int:
    """How many messages the segment of `seq` has, counted by reading."""
    first_seq, end_seq = house.log.store.stretch_of(house.log.store.segment_at(seq))
    return sum(first_seq <= one < end_seq for one in house.seqs())


def test_what_the_disk_refuses_is_tried_again() -> None:
    house = House()
    seq = secret(house)
    house.fill(20)
    house.worker.run_all()
    house.disk.toxics.append(FailNth(1, "write"))
    erase(house, seq)
    house.worker.run_all()
    assert holds(house, b"a secret")
    assert "Input/output error" in house.log.keeper.troubles[0]
    assert house.log.next_due_ns() == house.clock.monotonic_ns() + KEEPER_RETRY_NS
    house.settle()
    assert not holds(house, b"a secret")


def test_many_go_in_jobs_of_a_bounded_size_and_compaction_waits() -> None:
    house = House(replace(WEAK, segment_size=64 * KIB))
    seqs = [secret(house, b"secret %d." % number) for number in range(ERASE_PER_JOB * 2)]
    house.fill(400)
    house.settle()
    for seq in seqs:
        house.log.remove(seq, erase=True)
    house.log.append(b"s", b"p")
    house.log.commit()
    house.worker.step()
    house.log.tick()
    assert house.log.keeper.compactor.held
    house.worker.step()
    assert house.log.keeper.figures.erased in (0, ERASE_PER_JOB)
    house.settle()
    assert not holds(house, b"secret 1.")
    assert not holds(house, b"secret %d." % (len(seqs) - 1))
    assert not house.log.keeper.compactor.held
