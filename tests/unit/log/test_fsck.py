"""A check of a log finds what is wrong with it, says nothing where nothing is, and mends what opening would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.errors import DiskFailed
from tidelog.base.work import Inline
from tidelog.disk.disk import File
from tidelog.disk.memory import MemoryDisk
from tidelog.log.cursor import CursorStore
from tidelog.log.fsck import Finding, LogReport, Severity, check_log, find_logs, repair_log
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.log import Log
from tidelog.log.packed import pack
from tidelog.log.policy import STRICT
from tidelog.log.record import checksum, decode, encode_message
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings
from unit.log.log_files import FIRST, LAST, SECOND, SETTINGS, fill


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    fill(disk)
    return disk


def worst(report: LogReport) -> list[str]:
    return [finding.text for finding in report.findings if finding.severity is report.severity]


def opened(disk: MemoryDisk) -> Log:
    return open_log(disk, "log", SETTINGS, ManualClock(), Inline())[0]


def test_a_log_that_was_closed_is_clean(disk: MemoryDisk) -> None:
    report = check_log(disk, "log")
    assert report.findings == []
    assert [one.index for one in report.segments] == ["right"] * len(report.segments)
    assert (report.snapshot, report.ceiling, report.in_use) == ("usable", None, False)
    assert (report.messages, report.first_seq, report.last_seq, report.deleted) == (114, 3, 120, 4)


def test_a_process_that_was_killed_has_left_a_clean_log() -> None:
    disk = MemoryDisk()
    fill(disk, close=False)
    report = check_log(disk, "log")
    assert report.findings == []
    assert report.segments[-1].index == "none"
    assert report.ceiling is not None
    assert report.messages == 114


def test_segments_that_were_begun_and_not_written_to_make_nothing_lost() -> None:
    disk = MemoryDisk()
    log = fill(disk, close=False)
    last_seq = log.store.last_seq
    for _ in range(100):
        log.append(b"orders.1", b"never committed")
    report = check_log(disk, "log")
    assert (report.severity, report.last_seq, report.lost) == (Severity.NOTE, last_seq, [])
    assert {finding.text for finding in report.findings} == {"was begun, and nothing was written to it"}


def test_a_directory_without_a_segment_is_no_surprise() -> None:
    disk = MemoryDisk()
    disk.make_directory("log")
    assert (check_log(disk, "log").findings, check_log(disk, "log").messages) == ([], None)


def test_the_figures_are_those_of_the_opened_log(disk: MemoryDisk) -> None:
    log = opened(disk)
    log.purge(before_seq=60)
    log.skip_to(10_000)
    log.append(b"a", b"")
    log.commit()
    report, state = check_log(disk, "log"), log.state()
    assert (report.messages, report.first_seq, report.last_seq, report.deleted, report.lost) == (
        state.messages,
        state.first_seq,
        state.last_seq,
        state.deleted,
        [],
    )
    log.purge()
    log.commit()
    report, state = check_log(disk, "log"), log.state()
    assert (report.messages, report.first_seq, report.last_seq) == (0, state.first_seq, state.last_seq)


def test_nothing_is_changed_by_a_check(disk: MemoryDisk) -> None:
    del disk.files[f"{FIRST}.idx"]
    disk.files[f"{LAST}.seg"] += b"torn"
    disk.files["log/cursors.new"] = bytearray(b"x")
    before = {name: bytes(data) for name, data in disk.files.items()}
    assert check_log(disk, "log").severity is Severity.REPAIRABLE
    assert disk.files == before


def break_ceiling(disk: MemoryDisk) -> None:
    disk.files["log/ceiling"] = bytearray(b"TIDECEIL" + bytes(12))


def leave_unfinished(disk: MemoryDisk) -> None:
    disk.files["log/snapshot.new"] = bytearray(b"x")


def flip_header(disk: MemoryDisk) -> None:
    disk.files[f"{SECOND}.seg"][20] ^= 1


def change_index(disk: MemoryDisk) -> None:
    disk.files[f"{SECOND}.idx"][120] ^= 1


def swap_index(disk: MemoryDisk) -> None:
    disk.files[f"{SECOND}.idx"] = bytearray(disk.files[f"{FIRST}.idx"])


def shorten_index(disk: MemoryDisk) -> None:
    del disk.files[f"{FIRST}.idx"][-7:]


def lose_index(disk: MemoryDisk) -> None:
    del disk.files[f"{FIRST}.idx"]


def tear_tail(disk: MemoryDisk) -> None:
    disk.files[f"{LAST}.seg"] += encode_message(121, 0, b"a", b"", b"b")[:-1]


def break_snapshot(disk: MemoryDisk) -> None:
    disk.files["log/snapshot"][-1] ^= 1


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (
            break_ceiling,
            "damaged: the log goes on above what it may have given out",
        ),
        (leave_unfinished, "was being written when the process ended"),
        (flip_header, "the header is damaged"),
        (change_index, "checksum of the body"),
        (swap_index, "base 1, not 39"),
        (shorten_index, "checksum of the body"),
        (lose_index, "missing"),
        (tear_tail, "a torn tail of 33 bytes at "),
        (break_snapshot, "cannot be used: checksum"),
    ],
)
def test_what_opening_mends_is_repairable_and_then_clean(
    disk: MemoryDisk, harm: Callable[[MemoryDisk], None], said: str
) -> None:
    harm(disk)
    report = check_log(disk, "log")
    assert report.severity is Severity.REPAIRABLE
    assert said in " | ".join(worst(report))
    assert not any(finding.repaired for finding in report.findings)
    assert (report.messages, report.lost) == (114, [])
    mended = repair_log(disk, "log", ManualClock())
    assert [finding.repaired for finding in mended.findings] == [True] * len(report.findings)
    again = check_log(disk, "log")
    assert again.findings == []
    assert opened(disk).state().messages == 114


def test_cut_at_every_byte_the_last_segment_is_torn_and_the_rest_as_before(disk: MemoryDisk) -> None:
    path = f"{LAST}.seg"
    whole = bytes(disk.files[path])
    ends = record_ends(whole)
    del disk.files[f"{LAST}.idx"]
    del disk.files["log/snapshot"]
    for size in range(64, len(whole), 3):
        disk.files[path] = bytearray(whole[:size])
        report = check_log(disk, "log")
        end = max(end for end in ends if end <= size)
        assert report.segments[-1].torn_size == size - end
        assert report.severity is (Severity.REPAIRABLE if size > end else Severity.NOTE)
        assert report.lost == []


def record_ends(data: bytes) -> list[int]:
    salt, ends = int.from_bytes(data[16:20], "little"), [64]
    while ends[-1] < len(data):
        ends.append(ends[-1] + decode(data, ends[-1], salt)["size"])
    return ends


def test_every_flipped_bit_of_a_segment_is_found_and_costs_one_record(disk: MemoryDisk) -> None:
    path = f"{SECOND}.seg"
    whole = bytes(disk.files[path])
    ends = record_ends(whole)
    for pos in range(64, len(whole), 5):
        disk.files[path][pos] ^= 1 << pos % 8
        report = check_log(disk, "log")
        disk.files[path][pos] = whole[pos]
        assert report.severity is Severity.LOSS
        [(at, size, why)] = report.segments[1].damaged
        start = max(end for end in ends if end <= pos)
        assert (at, size) == (start, min(end for end in ends if end > pos) - start), why
        assert sum(end_seq - start_seq for start_seq, end_seq in report.lost) <= 1
        assert report.segments[1].index == "made before its segment was damaged"


def test_what_is_lost_stays_lost_and_is_known_after_a_repair(disk: MemoryDisk) -> None:
    disk.files[f"{SECOND}.seg"][400] ^= 1
    report = repair_log(disk, "log", ManualClock())
    assert report.severity is Severity.LOSS
    assert {finding.name for finding in report.findings if finding.repaired} == {
        f"{SECOND}.idx".removeprefix("log/"),
        "snapshot",
    }
    again = check_log(disk, "log")
    assert (again.severity, again.lost) == (Severity.LOSS, report.lost)
    assert not [finding for finding in again.findings if finding.severity is Severity.REPAIRABLE]
    assert list(opened(disk).state().lost) == report.lost


def test_a_segment_that_is_gone_or_cut_short_is_a_loss(disk: MemoryDisk) -> None:
    whole = bytes(disk.files[f"{LAST}.seg"])
    del disk.files[f"{LAST}.seg"][-100:]
    report = check_log(disk, "log")
    assert report.severity is Severity.LOSS
    assert worst(report) == ["cut short: its index was made when it had 100 bytes more"]
    disk.files[f"{LAST}.seg"] = bytearray(whole)
    del disk.files[f"{SECOND}.seg"]
    report = check_log(disk, "log")
    assert report.severity is Severity.LOSS
    # With the deletes that were said in it: nobody knows of them now.
    assert report.lost == [(39, 76)]
    assert "an index without its segment" in [finding.text for finding in report.findings]


def test_segments_of_two_logs_and_of_tomorrow_are_not_touched(disk: MemoryDisk) -> None:
    other = MemoryDisk()
    fill(other)
    disk.files[f"{SECOND}.seg"] = other.files[f"{SECOND}.seg"]
    before = {name: bytes(data) for name, data in disk.files.items()}
    report = repair_log(disk, "log", ManualClock())
    assert (report.severity, worst(report)) == (Severity.UNREADABLE, ["holds segments of 2 logs"])
    assert disk.files == before


def test_an_index_from_before_an_erasure_is_right(disk: MemoryDisk) -> None:
    data = disk.files[f"{SECOND}.seg"]
    salt = int.from_bytes(data[16:20], "little")
    pos = next(end for end in record_ends(bytes(data)) if decode(bytes(data), end, salt)["seq"] == 40)
    size = decode(bytes(data), pos, salt)["size"]
    erased = bytearray(
        encode_message(40, decode(bytes(data), pos, salt)["ts_ns"], b"x" * (size - 32), b"", b"")
    )
    erased[25] = 2
    erased[26:28] = bytes(2)
    erased[32:] = bytes(size - 32)
    erased[:4] = (checksum(bytes(erased[4:])) ^ salt).to_bytes(4, "little")
    data[pos : pos + size] = erased
    report = check_log(disk, "log")
    assert (report.findings, report.segments[1].index) == ([], "right")


def test_cursors_that_are_torn_or_damaged(disk: MemoryDisk) -> None:
    store = CursorStore.open(disk, "log", ManualClock())
    for seq in range(1, 20):
        store.set("reader", seq)
        store.sync()
    store.close()
    assert check_log(disk, "log").cursors == 1
    whole = bytes(disk.files["log/cursors"])
    disk.files["log/cursors"] += b"torn"
    assert check_log(disk, "log").severity is Severity.REPAIRABLE
    assert repair_log(disk, "log", ManualClock()).severity is Severity.REPAIRABLE
    assert check_log(disk, "log").findings == []
    disk.files["log/cursors"] = bytearray(whole)
    disk.files["log/cursors"][200] ^= 1
    assert worst(check_log(disk, "log")) == ["1 records are lost"]
    disk.files["log/cursors"] = bytearray(b"something else entirely, and longer than a header")
    assert check_log(disk, "log").severity is Severity.UNREADABLE


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_packed_segments_are_checked_and_a_missing_key_is_said(disk: MemoryDisk, compression: str) -> None:
    key = Key("k1", bytes(range(32)))
    plain = bytes(disk.files[f"{SECOND}.seg"])
    disk.files[f"{SECOND}.seg"] = bytearray(pack(plain, compression, key, bytes(32)))  # type: ignore[arg-type]
    report = check_log(disk, "log", KeyRing((key,)))
    assert (report.findings, report.messages, report.snapshot) == ([], 114, "usable")
    assert report.segments[1].packed.endswith("aes")
    report = check_log(disk, "log")
    assert report.severity is Severity.NOTE
    assert not report.segments[1].checked
    assert "'k1'" in worst(report)[0]
    assert (report.messages, report.snapshot) == (None, "not checked")
    disk.files[f"{SECOND}.seg"][600] ^= 3
    assert check_log(disk, "log", KeyRing((key,))).severity is Severity.LOSS


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("pos", [64 + 256 + 2, 64 + 256 + 7, 600])
def test_a_turned_bit_of_a_packed_segment_is_mended(disk: MemoryDisk, compression: str, pos: int) -> None:
    whole = pack(bytes(disk.files[f"{SECOND}.seg"]), compression, None)  # type: ignore[arg-type]
    disk.files[f"{SECOND}.seg"] = bytearray(whole)
    disk.files[f"{SECOND}.seg"][pos] ^= 1
    report = check_log(disk, "log")
    assert (report.severity, report.messages) == (Severity.REPAIRABLE, 114)
    assert "a bit had turned at" in worst(report)[0]
    assert repair_log(disk, "log", ManualClock()).findings[0].repaired
    assert disk.files[f"{SECOND}.seg"] == whole
    assert check_log(disk, "log").findings == []


class Busy(MemoryDisk):
    """Somebody writes whenever this segment is opened."""

    def open(self, path: str) -> File:  # type: ignore[override]
        if path == f"{LAST}.seg":
            self.files[path] += b"half a record"
        return super().open(path)


def test_what_is_being_written_is_not_damage(disk: MemoryDisk) -> None:
    busy = Busy()
    busy.files, busy.directories = disk.files, disk.directories
    del busy.files[f"{FIRST}.idx"]
    report = check_log(busy, "log")
    assert report.in_use
    assert report.severity is Severity.NOTE
    assert all("in use" in finding.text for finding in report.findings)


def test_a_log_without_its_id_is_read_by_its_records() -> None:
    disk = MemoryDisk()
    log, _ = open_log(disk, "log", LogSettings(policy=STRICT), ManualClock(), Inline())
    for _ in range(3):
        log.append(b"a", b"b")
    log.close()
    disk.files[f"{FIRST}.seg"][:64] = bytes(64)
    report = check_log(disk, "log")
    assert report.severity is Severity.REPAIRABLE
    assert report.messages == 3
    repair_log(disk, "log", ManualClock())
    assert check_log(disk, "log").severity is Severity.NOTE


def test_the_logs_of_a_store_are_found_and_strays_are_named(disk: MemoryDisk) -> None:
    disk.make_directory("store/a/b")
    for name in list(disk.files):
        disk.files[name.replace("log/", "store/a/")] = bytearray(disk.files[name])
        disk.files[name.replace("log/", "store/a/b/")] = bytearray(disk.files[name])
    disk.files["store/a/notes.txt"] = bytearray()
    disk.files["store/a/00000000000000000001-1.warm"] = bytearray()  # goes when the log is opened
    assert find_logs(disk, "store") == ["store/a", "store/a/b"]
    assert check_log(disk, "store/a").findings == [Finding(Severity.NOTE, "notes.txt", "no file of a log")]
    with pytest.raises(DiskFailed):
        find_logs(disk, "nothing")


def test_golden_files_are_clean() -> None:
    disk = MemoryDisk()
    disk.make_directory("log")
    golden = Path(__file__).parent / "golden"
    for name in ("00000000000000000010.seg", "00000000000000000010.idx"):
        disk.files[f"log/{name}"] = bytearray((golden / name).read_bytes())
    report = check_log(disk, "log")
    # The records begin at 12, and nothing says why.
    assert [finding.text for finding in report.findings] == ["messages 10 to 11 are lost"]
    assert report.segments[0].index == "right"
    assert report.segments[0].messages == 5
