"""The contract of `tidelog.disk`, kept by every disk there is."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.disk import SimDisk
from tidelog.base.errors import DiskFailed, DiskLocked
from tidelog.disk import real
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.disk.real import RealDisk


@pytest.fixture(params=["real", "memory", "sim"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    makers: dict[str, Callable[[], Disk]] = {
        "real": lambda: RealDisk(str(tmp_path / "store")),
        "memory": MemoryDisk,
        "sim": SimDisk,
    }
    return makers[request.param]()


def test_what_is_appended_is_read_back_where_append_said(disk: Disk) -> None:
    file = disk.create("a")
    assert file.append([b"one", b"", bytearray(b"two")]) == 0
    assert file.append([memoryview(b"three")]) == 6
    assert file.size == 11
    assert file.read(0, 100) == b"onetwothree"
    assert file.read(3, 3) == b"two"
    assert file.read(11, 5) == b""
    file.sync()
    file.close()
    again = disk.open("a")
    assert (again.size, again.read(6, 5)) == (11, b"three")
    again.close()


def test_more_parts_than_one_call_takes(disk: Disk) -> None:
    file = disk.create("a")
    parts = [b"%05d" % number for number in range(real.PARTS_PER_WRITE * 2 + 1)]
    file.append(parts)
    assert file.read(0, file.size) == b"".join(parts)
    file.close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(str(tmp_path)).create("a")
    write = os.pwritev

    def reluctant(fd: int, parts: list[memoryview], pos: int) -> int:
        return write(fd, [parts[0][:2]], pos)

    monkeypatch.setattr(os, "pwritev", reluctant)
    file.append([b"hello", b"", b"x", b"world"])
    assert file.read(0, 100) == b"helloxworld"
    file.close()


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(str(tmp_path)).create("a")
    file.append([b"hello world"])
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, pos: read(fd, min(size, 3), pos))
    assert file.read(2, 8) == b"llo worl"
    assert file.read(2, 80) == b"llo world"
    file.close()


def test_overwrite_and_truncate(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"0123456789"])
    file.write(2, b"ab")
    assert file.read(0, 10) == b"01ab456789"
    file.truncate(4)
    assert (file.size, file.read(0, 10)) == (4, b"01ab")
    file.truncate(6)
    assert file.read(0, 10) == b"01ab\0\0"
    assert file.append([b"x"]) == 6
    file.close()


def test_names(disk: Disk) -> None:
    disk.make_directory("streams/a")
    disk.make_directory("streams/a")
    disk.create("streams/a/2").close()
    disk.create("streams/a/1").close()
    assert disk.list("streams/a") == ["1", "2"]
    assert disk.list("streams") == ["a"]
    disk.rename("streams/a/1", "streams/a/2")
    assert disk.list("streams/a") == ["2"]
    disk.sync_directory("streams/a")
    assert disk.exists("streams/a/2")
    assert not disk.exists("streams/a/1")
    disk.remove("streams/a/2")
    disk.remove("streams/a")
    assert disk.list("streams") == []
    assert disk.free_size() > 0


@pytest.mark.parametrize(
    "operation",
    [
        "open",
        "open_directory",
        "create",
        "create_below_nothing",
        "make_directory",
        "make_directory_below_file",
        "remove",
        "remove_full",
        "rename",
        "rename_below_nothing",
        "rename_over_directory",
        "list",
        "sync_directory",
    ],
)
def test_a_failure_says_what_and_where(disk: Disk, operation: str) -> None:
    disk.make_directory("d")
    disk.create("d/there").close()
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open("d/missing"),
        "open_directory": lambda: disk.open("d"),
        "create": lambda: disk.create("d/there"),
        "create_below_nothing": lambda: disk.create("no/where"),
        "make_directory": lambda: disk.make_directory("d/there"),
        "make_directory_below_file": lambda: disk.make_directory("d/there/not"),
        "remove": lambda: disk.remove("d/missing"),
        "rename": lambda: disk.rename("d/missing", "d/x"),
        "rename_below_nothing": lambda: disk.rename("d/there", "no/where"),
        "rename_over_directory": lambda: disk.rename("d/there", "d"),
        "remove_full": lambda: disk.remove("d"),
        "list": lambda: disk.list("missing"),
        "sync_directory": lambda: disk.sync_directory("missing"),
    }
    with pytest.raises(DiskFailed) as caught:
        calls[operation]()
    assert caught.value.path in str(caught.value)
    assert caught.value.errno
    assert caught.value.operation
    assert (disk.list(""), disk.list("d")) == (["d"], ["there"])


def test_a_removed_file_stays_readable_while_it_is_open(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"still here"])
    disk.remove("a")
    assert file.read(0, 10) == b"still here"
    file.close()


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    pairs: list[tuple[Disk, Disk]] = [(RealDisk(str(tmp_path)), RealDisk(str(tmp_path)))]
    sim = SimDisk()
    pairs.append((sim, SimDisk(machine=sim.machine)))
    for one, other in pairs:
        one.lock()
        one.lock()
        with pytest.raises(DiskLocked, match=r"is in use by .*: one process at a time opens a store"):
            other.lock()
        other.unlock()
        with pytest.raises(DiskLocked):
            other.lock()
        one.unlock()
        other.lock()
        with pytest.raises(DiskLocked):
            one.lock()


def test_a_lock_says_whose_it_is(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    disk.lock()
    with pytest.raises(DiskLocked) as caught:
        RealDisk(str(tmp_path)).lock()
    assert (caught.value.root, caught.value.pid) == (str(tmp_path), os.getpid())
    assert str(caught.value).startswith(f"{tmp_path} is in use by process {os.getpid()}: ")
    (tmp_path / real.LOCK_NAME).write_bytes(b"")
    with pytest.raises(DiskLocked, match="by another process"):
        RealDisk(str(tmp_path)).lock()


def test_a_lock_ends_with_its_disk_or_process(tmp_path: Path) -> None:
    RealDisk(str(tmp_path)).lock()
    RealDisk(str(tmp_path)).lock()
    for end in (SimDisk.kill, SimDisk.power_cut):
        sim = SimDisk()
        sim.lock()
        end(sim)
        sim.reopen().lock()


def test_a_lock_that_the_system_cannot_give_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DiskFailed, match=r"lock tidelog\.lock: No locks available"):
        RealDisk(str(tmp_path)).lock()
    with pytest.raises(DiskFailed, match="to look only"):
        RealDisk(str(tmp_path), read_only=True).lock()


def test_the_boot_id_stays_while_the_power_does(disk: Disk) -> None:
    assert disk.boot_id() == disk.boot_id() != ""


def test_the_boot_id_is_that_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = tmp_path / "boot_id"
    noted.write_text("a-b-c\n")
    monkeypatch.setattr(real, "BOOT_ID", str(noted))
    assert RealDisk(str(tmp_path / "one")).boot_id() == RealDisk(str(tmp_path / "two")).boot_id() == "a-b-c"
    noted.unlink()
    assert RealDisk(str(tmp_path / "one")).boot_id() == ""


def test_a_real_disk_that_only_looks_changes_nothing(tmp_path: Path) -> None:
    RealDisk(str(tmp_path / "store")).create("a").append([b"x"])
    disk = RealDisk(str(tmp_path / "store"), read_only=True)
    assert disk.open("a").read(0, 9) == b"x"
    changes: list[Callable[[], object]] = [
        lambda: disk.create("b"),
        lambda: disk.remove("a"),
        lambda: disk.rename("a", "b"),
        lambda: disk.make_directory("d"),
        lambda: disk.open("a").append([b"y"]),
    ]
    for change in changes:
        with pytest.raises(DiskFailed):
            change()
    assert (tmp_path / "store" / "a").read_bytes() == b"x"
    RealDisk(str(tmp_path / "none"), read_only=True)
    assert not (tmp_path / "none").exists()
