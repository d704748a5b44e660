"""What a simulated crash does to bytes and names. That `SimDisk` keeps the contract of disks is in tests/unit/disk."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from sim.disk import SimDisk, SimFile
from sim.medium import EVERYTHING, NOTHING, SECTOR, Survival
from sim.toxic import Crashed, FailNth, Nth, ShortReads, every_failure
from tidelog.base.chance import Chance
from tidelog.base.errors import DiskFailed

SEEDS = range(1000)


def row(*letters: str) -> bytes:
    """A sector of each letter."""
    return b"".join(letter.encode() * SECTOR for letter in letters)


def letters(content: bytes) -> str:
    """The inverse of `row`, with `.` for zeros; the test fails if a sector is not of one letter."""
    sectors = [content[pos : pos + SECTOR] for pos in range(0, len(content), SECTOR)]
    assert all(len(set(sector)) == 1 for sector in sectors)
    return "".join(chr(sector[0] or ord(".")) for sector in sectors)


def synced_file(disk: SimDisk, path: str, content: bytes) -> SimFile:
    file = disk.create(path)
    file.append([content])
    file.sync()
    disk.sync_directory("")
    return file


def after_cuts(work: Callable[[SimDisk], object], survival: Survival | None = None) -> list[SimDisk]:
    """What the next process finds, for many seeds."""
    found = []
    for seed in SEEDS:
        disk = SimDisk(seed, survival=survival)
        work(disk)
        disk.power_cut()
        found.append(disk.reopen())
    return found


# The end of a process, and of a machine.


def test_what_was_written_survives_the_process() -> None:
    disk = SimDisk(1)
    boot = disk.boot_id()
    disk.create("a").append([b"one"])
    disk.rename("a", "b")
    disk.kill()
    again = disk.reopen()
    assert again.image() == {"b": b"one"}
    assert again.boot_id() == boot
    again.power_cut(NOTHING)
    assert again.reopen().image() == {}
    assert again.reopen().boot_id() != boot


def test_what_was_synced_survives_the_machine_and_all_else_may_not() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", b"synced")
        file.append([b" not synced"])
        disk.create("b")

    assert {str(disk.image()) for disk in after_cuts(work, NOTHING)} == {str({"a": b"synced"})}
    everything = {"a": b"synced not synced", "b": b""}
    assert {str(disk.image()) for disk in after_cuts(work, EVERYTHING)} == {str(everything)}
    assert len({str(disk.image()) for disk in after_cuts(work)}) > 3


@pytest.mark.parametrize("crash", [SimDisk.kill, SimDisk.power_cut])
def test_what_belonged_to_the_dead_process_is_dead(crash: Callable[[SimDisk], None]) -> None:
    disk = SimDisk(1)
    file = disk.create("a")
    with pytest.raises(AssertionError, match="comes first"):
        disk.reopen()
    crash(disk)
    calls: list[Callable[[], object]] = [
        lambda: file.append([b"x"]),
        lambda: file.read(0, 1),
        lambda: file.size,
        file.sync,
        file.close,
        lambda: disk.open("a"),
        lambda: disk.exists("a"),
        disk.boot_id,
    ]
    for call in calls:
        with pytest.raises(Crashed):
            call()
    with pytest.raises(AssertionError, match="already"):
        crash(disk)
    assert disk.reopen().list("") in (["a"], [])


def test_a_closed_file_is_not_used() -> None:
    disk = SimDisk()
    file = disk.create("a")
    assert disk.open_files == [file]
    file.close()
    assert disk.open_files == []
    for call in (file.close, file.sync, lambda: file.append([b"x"])):
        with pytest.raises(AssertionError, match="closed"):
            call()


# Bytes.


def test_sectors_are_lost_torn_and_reordered() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", row("a", "a"))
        file.write(0, row("b"))
        file.write(SECTOR, row("c"))
        file.append([row("d", "e")])
        file.write(0, row("f"))

    seen = {letters(disk.image()["a"]) for disk in after_cuts(work)}
    assert {content[0] for content in seen} == set("abf")
    assert {content[1] for content in seen} == set("ac")
    assert {"aa", "fcde"} <= seen, "all lost, all kept"
    assert {content for content in seen if content[:2] in ("ac", "ba")}, (
        "a later write without an earlier one"
    )
    assert {content[2:] for content in seen} == {"", ".", "d", "..", "d.", ".e", "de"}


def test_a_sector_is_never_torn_within() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", b"")
        file.append([b"one"])
        file.append([b"two"])

    kept = {disk.image()["a"] for disk in after_cuts(work)}
    assert kept == {b"", b"\0\0\0", b"one", b"one\0\0\0", b"onetwo", b"\0\0\0\0\0\0"}


def test_a_truncation_that_was_kept_brings_nothing_back() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", row("a", "a", "a"))
        file.truncate(SECTOR)

    assert {letters(disk.image()["a"]) for disk in after_cuts(work)} == {"aaa", "a"}

    def regrow(disk: SimDisk) -> None:
        work(disk)
        disk.open("a").append([row("b", "b")])

    seen = {letters(disk.image()["a"]) for disk in after_cuts(regrow)}
    # The last two: the cut was lost, and what was appended over it was not.
    assert {"aaa", "a", "a.", "ab", "a..", "ab.", "a.b", "abb", "aba", "aab"} == seen


def test_a_truncation_within_a_sector() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", b"aaaa")
        file.truncate(2)
        file.append([b"bb"])

    assert {disk.image()["a"] for disk in after_cuts(work)} == {b"aaaa", b"aa", b"aa\0\0", b"aabb"}


def test_what_was_written_and_cut_off_does_not_come_back_with_a_later_growth() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, "a", b"")
        file.append([row("b")])
        file.truncate(3)
        file.truncate(SECTOR)

    found = {disk.image()["a"] for disk in after_cuts(work, Survival(0.5, 1.0, 1.0))}
    assert found == {bytes(SECTOR), b"bbb" + bytes(SECTOR - 3)}


def test_growth_by_truncation_reads_as_zeros() -> None:
    disk = SimDisk()
    file = synced_file(disk, "a", b"x")
    file.truncate(3)
    assert file.read(0, 9) == b"x\0\0"
    file.sync()
    disk.power_cut(NOTHING)
    assert disk.reopen().image() == {"a": b"x\0\0"}


# Names.


def test_a_name_is_safe_when_its_directory_is() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_directory("d/e")
        disk.create("d/e/a")
        disk.sync_directory("d/e")

    trees = {"/".join(disk.list("")) + str(list(disk.image())) for disk in after_cuts(work)}
    assert trees == {"[]", "d[]", "d['d/e/a']"}, "lost with a directory above it, and only so"

    def all_synced(disk: SimDisk) -> None:
        work(disk)
        disk.sync_directory("d")
        disk.sync_directory("")

    assert {str(disk.image()) for disk in after_cuts(all_synced)} == {str({"d/e/a": b""})}


def test_a_rename_is_whole_and_knows_nothing_of_the_content() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"old").close()
        disk.create("b").append([b"new"])
        disk.rename("b", "a")

    seen = {str(disk.image()) for disk in after_cuts(work)}
    new = (b"", b"\0\0\0", b"new")
    old_and_new = [{"a": b"old", "b": content} for content in new]
    assert seen == {
        str(image) for image in [{"a": b"old"}, *old_and_new, *({"a": content} for content in new)]
    }


def test_changes_of_one_directory_are_kept_and_lost_each_on_its_own() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"")
        synced_file(disk, "b", b"")
        disk.remove("a")
        disk.create("c")
        disk.rename("b", "d")

    assert len({tuple(disk.image()) for disk in after_cuts(work)}) == 8


def test_no_file_is_left_under_two_names() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"")
        disk.rename("a", "b")
        disk.rename("b", "c")

    assert {tuple(disk.image()) for disk in after_cuts(work)} == {("a",), ("b",), ("c",)}

    def over_another(disk: SimDisk) -> None:
        synced_file(disk, "b", b"y")
        work(disk)

    images = [{"a": b"", "b": b"y"}, {"b": b""}, {"b": b"y", "c": b""}, {"c": b""}]
    assert {str(disk.image()) for disk in after_cuts(over_another)} == {str(image) for image in images}


def test_a_rename_between_directories_waits_for_both() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.make_directory("d")
        synced_file(disk, "a", b"")
        disk.rename("a", "d/a")

    def one(disk: SimDisk) -> None:
        prepare(disk)
        disk.sync_directory("d")

    def both(disk: SimDisk) -> None:
        one(disk)
        disk.sync_directory("")

    assert {tuple(disk.image()) for disk in after_cuts(prepare)} == {("a",), ("d/a",)}
    assert {tuple(disk.image()) for disk in after_cuts(one)} == {("a",), ("d/a",)}
    assert {tuple(disk.image()) for disk in after_cuts(both)} == {("d/a",)}

    def beside(disk: SimDisk) -> None:
        prepare(disk)
        disk.create("d/b")
        disk.sync_directory("d")

    assert {tuple(disk.image()) for disk in after_cuts(beside)} == {("a", "d/b"), ("d/a", "d/b")}

    def removed(disk: SimDisk) -> None:
        prepare(disk)
        disk.remove("d/a")
        disk.sync_directory("d")
        disk.sync_directory("")

    assert {tuple(disk.image()) for disk in after_cuts(removed)} == {()}


def test_removals_are_undone_until_they_are_synced() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_directory("d")
        synced_file(disk, "d/a", b"x")
        disk.sync_directory("d")
        disk.remove("d/a")
        disk.remove("d")

    assert {str((disk.list(""), disk.image())) for disk in after_cuts(work)} == {
        str(([], {})),
        str((["d"], {})),
        str((["d"], {"d/a": b"x"})),
    }


# Failures of the disk.


def test_a_failed_sync_is_not_repaired_by_a_later_one() -> None:
    kept = set()
    for seed in SEEDS:
        disk = SimDisk(seed, toxics=[FailNth(2, "sync")])
        file = synced_file(disk, "a", row("a"))
        file.write(0, row("b"))
        with pytest.raises(DiskFailed, match="fdatasync a: Input/output error"):
            file.sync()
        assert letters(file.read(0, SECTOR)) == "b", "nothing looks wrong"
        file.append([row("c")])
        with pytest.raises(DiskFailed):
            file.sync()
        # Who opens it again is not told.
        disk.open("a").sync()
        disk.power_cut()
        kept.add(letters(disk.reopen().image()["a"]))
    assert kept == {"ac", "bc"}


def test_what_is_written_again_after_a_failed_sync_is_synced() -> None:
    for seed in SEEDS:
        disk = SimDisk(seed, toxics=[FailNth(2, "sync")])
        file = synced_file(disk, "a", row("a"))
        file.append([b"bcd"])
        with pytest.raises(DiskFailed):
            file.sync()
        assert disk.unsynced() in (["a"], []), "it may all have been on the medium by then"
        file = disk.open("a")
        file.write(SECTOR + 1, b"x")
        file.sync()
        assert disk.unsynced() == []
        disk.power_cut(NOTHING)
        assert disk.reopen().image()["a"] == row("a") + b"bxd"


def test_after_a_failed_sync_the_next_process_may_read_the_old_bytes() -> None:
    seen = set()
    for seed in SEEDS:
        disk = SimDisk(seed, toxics=[FailNth(2, "sync")], survival=NOTHING)
        file = synced_file(disk, "a", b"old")
        file.write(0, b"new")
        with pytest.raises(DiskFailed):
            file.sync()
        disk.kill()
        seen.add(disk.reopen().image()["a"])
    assert seen == {b"old", b"new"}


def test_a_failed_sync_of_a_directory_is_not_repaired_by_a_later_one() -> None:
    kept = set()
    for seed in SEEDS:
        disk = SimDisk(seed, toxics=[FailNth(1, "sync_directory")])
        disk.create("a")
        with pytest.raises(DiskFailed, match="fsync"):
            disk.sync_directory("")
        disk.create("b")
        with pytest.raises(DiskFailed):
            disk.sync_directory("")
        # The next process is not told.
        disk.kill()
        disk = disk.reopen()
        disk.sync_directory("")
        assert disk.list("") == ["a", "b"]
        disk.power_cut(NOTHING)
        kept.add(tuple(disk.reopen().image()))
    assert kept == {("b",), ("a", "b")}


def test_a_full_disk_takes_a_beginning_and_more_when_there_is_room() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = SimDisk(seed, size_max=10)
        file = disk.create("a")
        file.append([b"12345"])
        assert disk.free_size() == 5
        with pytest.raises(DiskFailed, match="write a: No space left on device") as caught:
            file.append([b"678", b"90A"])
        assert caught.value.errno == errno.ENOSPC
        assert b"1234567890A".startswith(file.read(0, 99))
        sizes.add(file.size)
        file.write(0, b"xxxxx")
        file.truncate(5)
        disk.size_max = 11
        file.append([b"67890A"])
        assert disk.free_size() == 0
        disk.remove("a")
        assert disk.free_size() == 11
    assert sizes == set(range(5, 11))


def test_a_failed_write_may_have_written_a_beginning() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = SimDisk(seed, toxics=[FailNth(1, "append")], size_max=2)
        file = disk.create("a")
        with pytest.raises(DiskFailed):
            file.append([b"abc"])
        sizes.add(file.size)
        assert b"abc".startswith(file.read(0, 9))
    assert sizes == {0, 1, 2}


def test_a_flipped_bit_stays() -> None:
    disk = SimDisk(1)
    file = synced_file(disk, "a", b"\0\0")
    file.append([b"\0"])
    disk.flip_bit("a", 1, 3)
    disk.flip_bit("a", 2, 0)
    assert file.read(0, 9) == b"\0\x08\x01"
    disk.power_cut(EVERYTHING)
    disk = disk.reopen()
    assert disk.image()["a"] == b"\0\x08\x01"


def test_a_random_bit_is_somewhere_in_a_file() -> None:
    disk = SimDisk(1)
    assert disk.flip_random_bit() is None
    disk.create("a").append([b"\0"])
    disk.create("b").append([b"\0" * 9])
    hits = [disk.flip_random_bit("b") for _ in range(300)]
    assert all(hit and hit[0] == "b" for hit in hits)
    assert len(set(hits)) > 60
    assert disk.image()["a"] == b"\0"
    assert {hit[0] for _ in range(99) if (hit := disk.flip_random_bit())} == {"a", "b"}


def test_what_is_not_synced_is_listed() -> None:
    disk = SimDisk(1)
    file = synced_file(disk, "a", b"")
    assert disk.unsynced() == []
    file.append([b"x"])
    disk.create("b")
    disk.rename("b", "c")
    disk.remove("c")
    assert disk.unsynced() == ["a", "-> b", "b -> c", "c ->"]
    file.sync()
    disk.sync_directory("")
    assert disk.unsynced() == []


def test_a_read_in_parts_is_whole_and_may_fail_amid() -> None:
    short_reads = ShortReads(Chance(1), 0.9)
    disk = SimDisk(1, short_reads=short_reads)
    data = bytes(range(256)) * 4
    file = disk.create("a")
    file.append([data])
    before = disk.calls
    for _ in range(10):
        assert file.read(10, 900) == data[10:910]
    assert disk.calls - before == short_reads.count + 10 > 20
    assert file.read(1000, 900) == data[1000:]
    assert file.read(1024, 900) == b""


def test_a_read_may_fail_amid() -> None:
    def run(fault: Nth) -> None:
        disk = SimDisk(1, short_reads=ShortReads(Chance(2), 0.9))
        file = disk.create("a")
        file.append([bytes(1024)])
        disk.toxics.append(fault)
        assert len(file.read(0, 1024)) == 1024

    outcomes = [outcome for _, outcome in every_failure(run)]
    assert len(outcomes) > 4
    assert all(isinstance(outcome.error, DiskFailed) for outcome in outcomes[:-1])


def test_short_reads_are_the_same_for_the_same_seed() -> None:
    traces = []
    for seed in (1, 1, 2):
        disk = SimDisk(1, short_reads=ShortReads(Chance(seed), 0.5))
        file = disk.create("a")
        file.append([bytes(1000)])
        for _ in range(5):
            file.read(0, 1000)
        traces.append(disk.trace())
    assert traces[0] == traces[1] != traces[2]
