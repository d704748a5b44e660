"""Cursors: what a set asks for and gets, and the way to the medium."""

from pathlib import Path

import pytest

from tidelog.base import limits
from tidelog.base.clock import ManualClock
from tidelog.base.errors import CursorBehind, CursorConflict, CursorError, DiskFailed, StorageError
from tidelog.base.limits import CURSOR_CHANGES_UNSYNCED, CURSOR_GARBAGE_SIZE, CURSOR_NAME_SIZE
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.disk.real import RealDisk
from tidelog.log import cursor as cursor_module
from tidelog.log.cursor import Cursor, CursorStore
from tidelog.log.cursor_file import record_size
from unit.log.failing_disk import FailingDisk

CLOCK = ManualClock()


def store_on(disk: Disk) -> CursorStore:
    return CursorStore.open(disk, "log", CLOCK)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("log")
    return disk


def test_what_is_set_is_fetched(disk: MemoryDisk) -> None:
    store = store_on(disk)
    assert store.fetch("a") is None
    first = store.set("a", 10)
    assert first == Cursor("a", 10, 1, CLOCK.now_ns())
    assert store.set("b", 5).revision == 2
    assert store.set("a", 10).revision == 3
    assert store.fetch("a") == Cursor("a", 10, 3, CLOCK.now_ns())
    assert [cursor.name for cursor in store.list()] == ["a", "b"]


@pytest.mark.parametrize("where", ["memory", "real"])
def test_what_was_closed_is_opened(where: str, tmp_path: Path) -> None:
    disk: Disk = MemoryDisk() if where == "memory" else RealDisk(str(tmp_path))
    disk.make_directory("log")
    store = store_on(disk)
    for seq in range(5):
        store.set("a", seq)
        store.set("ü" * 10, 2**64 - 1 - seq, rewind=True)
        store.sync()
    store.delete("a")
    before = store.list()
    store.close()
    again = store_on(disk)
    assert (again.list(), again.revision) == (before, 11)
    assert (again.damaged, again.cut_size, again.dirty) == (0, 0, False)
    assert again.set("b", 1).revision == 12
    again.close()
    assert disk.list("log") == ["cursors"]


def test_a_log_without_cursors_has_no_file(disk: MemoryDisk) -> None:
    store = store_on(disk)
    assert store.delete("a") == 0
    assert (store.commit(), store.sync_job()) == (0, None)
    store.close()
    assert disk.list("log") == []


def test_a_cursor_moves_back_only_when_told_to(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("a", 10)
    with pytest.raises(CursorBehind, match="rewind") as caught:
        store.set("a", 9)
    assert (caught.value.seq, caught.value.current) == (9, 10)
    assert store.revision == 1
    assert store.set("a", 9, rewind=True).seq == 9


def test_expected_revisions(disk: MemoryDisk) -> None:
    store = store_on(disk)
    with pytest.raises(CursorConflict) as caught:
        store.set("a", 10, expected_revision=3)
    assert caught.value.actual == 0
    store.set("a", 10, expected_revision=0)
    for call in (
        lambda: store.set("a", 11, expected_revision=0),
        lambda: store.set("a", 11, expected_revision=2, rewind=True),
        lambda: store.delete("a", expected_revision=2),
    ):
        with pytest.raises(CursorConflict, match="revision 1") as caught:
            call()
        assert caught.value.actual == 1
    assert store.set("a", 11, expected_revision=1).revision == 2
    assert store.delete("a", expected_revision=2) == 3
    assert store.delete("a", expected_revision=0) == 0
    assert store.set("a", 1, expected_revision=0).revision == 4, (
        "a deleted one is not there, and starts anywhere"
    )


@pytest.mark.parametrize("name", ["", "x" * 256, "ü" * 128, "a\nb", "a\0", "\x7f", "\x85", "\ud800"])
def test_names_that_are_refused(disk: MemoryDisk, name: str) -> None:
    with pytest.raises(CursorError):
        store_on(disk).set(name, 1)


@pytest.mark.parametrize("name", ["x" * CURSOR_NAME_SIZE, "ü" * 127 + "x", " ", "a.b/*>", "漢字 🌊"])
def test_names_that_are_taken(disk: MemoryDisk, name: str) -> None:
    store = store_on(disk)
    store.set(name, 1)
    store.close()
    assert [cursor.name for cursor in store_on(disk).list()] == [name]


@pytest.mark.parametrize("seq", [-1, 2**64])
def test_sequences_that_are_refused(disk: MemoryDisk, seq: int) -> None:
    with pytest.raises(CursorError):
        store_on(disk).set("a", seq)


def test_there_are_so_many_cursors_at_most(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.CURSORS_PER_LOG == cursor_module.CURSORS_PER_LOG
    monkeypatch.setattr(cursor_module, "CURSORS_PER_LOG", 2)
    store = store_on(disk)
    store.set("a", 1)
    store.set("b", 1)
    with pytest.raises(CursorError, match="delete"):
        store.set("c", 1)
    store.set("a", 2)
    store.delete("b")
    store.set("c", 1)


def test_so_many_changes_may_wait(disk: MemoryDisk) -> None:
    store = store_on(disk)
    for seq in range(CURSOR_CHANGES_UNSYNCED):
        store.set("a", seq)
    with pytest.raises(CursorError, match="waiting"):
        store.set("b", 1)
    store.sync()
    store.set("b", 1)


def test_a_batch_is_one_append_and_one_sync(disk: MemoryDisk) -> None:
    counting = FailingDisk(disk)
    store = store_on(counting)
    store.set("a", 1)
    store.sync()
    counting.calls = 0
    for seq in range(100):
        store.set("a", seq, rewind=True)
    assert store.commit() == 100 * record_size("a")
    assert counting.calls == 1
    job = store.sync_job()
    assert job is not None
    job()
    store.synced(None)
    assert counting.calls == 2
    assert store.commit() == 0


def test_a_torn_batch_is_written_away(disk: MemoryDisk) -> None:
    """Left in the file, what is missing would look like damage once something behind it says it was synced."""
    store = store_on(disk)
    store.set("a", 1)
    store.sync()
    for name in "bcd":
        store.set(name, 1)
    store.commit()
    data = disk.files["log/cursors"]
    size = record_size("b")
    data[-2 * size : -size] = bytes(size)
    store = store_on(disk)
    assert (store.damaged, store.cut_size) == (0, size)
    assert [cursor.name for cursor in store.list()] == ["a", "b", "d"]
    store.set("a", 2)
    store.close()
    again = store_on(disk)
    assert (again.damaged, again.cut_size) == (0, 0)
    assert [cursor.name for cursor in again.list()] == ["a", "b", "d"]


def test_what_is_found_is_synced_before_it_is_promised(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("a", 1)
    store.sync()
    store = store_on(FailingDisk(disk, fail_at=1, for_good=True))
    assert isinstance(store.failure, DiskFailed)
    assert [cursor.name for cursor in store.list()] == ["a"]
    with pytest.raises(StorageError, match="opened anew"):
        store.set("a", 2)
    answers: list[StorageError | None] = []
    store.wait(1, answers.append)
    assert answers == [store.failure]
    store.close()
    assert [cursor.name for cursor in store_on(disk).list()] == ["a"]


def test_the_closed_record_itself_may_be_lost(disk: MemoryDisk) -> None:
    """It is not synced when it is written, so it is no damage if the power takes it and leaves what came next."""
    store = store_on(disk)
    store.set("a", 1)
    store.close()
    store = store_on(disk)
    store.set("a", 2)
    store.commit()
    data = disk.files["log/cursors"]
    size, mark_size = record_size("a"), record_size("")
    data[-size - mark_size : -size] = bytes(mark_size)
    again = store_on(disk)
    assert (again.damaged, again.cut_size) == (0, mark_size)
    assert [(cursor.seq, cursor.doubtful) for cursor in again.list()] == [(2, False)]


def test_a_file_that_was_closed_is_not_written_again(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("a", 1)
    store.close()
    data = bytes(disk.files["log/cursors"])
    for _ in range(3):
        counting = FailingDisk(disk)
        store_on(counting).close()
        assert counting.calls == 0
    assert disk.files["log/cursors"] == data


def test_waits_are_released_in_order_and_when_synced(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("start", 1)
    store.sync()
    released: list[tuple[str, StorageError | None]] = []
    for name in "abc":
        store.set(name, 1)
    store.wait(4, lambda error: released.append(("c", error)))
    store.wait(2, lambda error: released.append(("a", error)))
    store.wait(3, lambda error: released.append(("b", error)))
    store.wait(2, lambda error: released.append(("a again", error)))
    store.commit()
    job = store.sync_job()
    assert job is not None
    assert store.sync_job() is None, "one at a time"
    late = store.set("d", 1).revision
    store.wait(late, lambda error: released.append(("d", error)))
    store.commit()
    job()
    assert released == []
    store.synced(None)
    assert released == [("a", None), ("a again", None), ("b", None), ("c", None)]
    assert store.dirty
    store.sync()
    assert released[4:] == [("d", None)]
    store.wait(late, lambda error: released.append(("now", error)))
    assert released[5:] == [("now", None)]


def test_a_failed_sync_is_final(disk: MemoryDisk) -> None:
    failing = FailingDisk(disk)
    store = store_on(failing)
    store.set("a", 1)
    store.sync()
    released: list[StorageError | None] = []
    store.wait(store.set("a", 2).revision, released.append)
    failing.only, failing.calls, failing.fail_at = "sync", 0, 1
    with pytest.raises(DiskFailed):
        store.sync()
    assert isinstance(released[0], DiskFailed)
    for call in (lambda: store.set("a", 3), lambda: store.delete("a")):
        with pytest.raises(StorageError, match="opened anew"):
            call()
    store.wait(2, released.append)
    store.wait(1, released.append)
    assert released[1:] == [store.failure, None]
    assert (store.commit(), store.sync_job(), store.dirty) == (0, None, False)
    found = store.fetch("a")
    assert found is not None
    store.close()


def test_a_refused_append_loses_nothing(disk: MemoryDisk) -> None:
    failing = FailingDisk(disk)
    store = store_on(failing)
    store.set("a", 1)
    store.sync()
    size = len(disk.files["log/cursors"])
    store.set("a", 2)
    failing.only, failing.calls, failing.fail_at = "append", 0, 1
    with pytest.raises(DiskFailed):
        store.commit()
    assert len(disk.files["log/cursors"]) == size
    store.set("b", 1)
    assert store.commit() == 2 * record_size("a")
    store.close()
    assert [(cursor.name, cursor.seq) for cursor in store_on(disk).list()] == [("a", 2), ("b", 1)]


def test_an_append_that_cannot_be_undone_is_final(disk: MemoryDisk) -> None:
    failing = FailingDisk(disk)
    store = store_on(failing)
    store.set("a", 1)
    store.sync()
    store.set("a", 2)
    failing.calls, failing.fail_at, failing.for_good = 0, 1, True
    with pytest.raises(DiskFailed):
        store.commit()
    assert store.failure is not None
    again = store_on(disk)
    assert [(cursor.name, cursor.seq) for cursor in again.list()] == [("a", 1)]
    assert again.cut_size == record_size("a") // 2


def fill_with_garbage(store: CursorStore) -> None:
    """One byte of garbage short of a new file, or as near as records come to it."""
    room = CURSOR_GARBAGE_SIZE + record_size("a")
    for _ in range(room // record_size("a")):
        store.set("a", 7, rewind=True)


def test_garbage_is_written_away_beyond_its_bound(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("a", 7)
    store.sync()
    fill_with_garbage(store)
    store.sync()
    size = len(disk.files["log/cursors"])
    store.set("a", 8)
    store.sync()
    assert len(disk.files["log/cursors"]) < size < CURSOR_GARBAGE_SIZE + 200
    assert disk.list("log") == ["cursors"]
    revision = store.revision
    store.set("a", 9)
    store.delete("a")
    store.close()
    again = store_on(disk)
    assert (again.list(), again.revision, again.damaged) == ([], revision + 2, 0)


def test_changes_wait_while_the_file_is_written_anew(disk: MemoryDisk) -> None:
    store = store_on(disk)
    store.set("a", 7)
    store.sync()
    fill_with_garbage(store)
    store.set("a", 8)
    store.commit()
    store.set("a", 9)  # not committed, and in the new file all the same
    job = store.sync_job()
    assert job is not None
    store.set("b", 1)
    assert store.commit() == 0
    job()
    store.synced(None)
    assert store.dirty
    assert store.commit() == record_size("b")
    store.close()
    again = store_on(disk)
    assert [(cursor.name, cursor.seq) for cursor in again.list()] == [("a", 9), ("b", 1)]
    assert again.damaged == 0


def test_where_there_is_no_room_for_a_new_file_the_old_one_goes_on(disk: MemoryDisk) -> None:
    failing = FailingDisk(disk)
    store = store_on(failing)
    store.set("a", 7)
    store.sync()
    fill_with_garbage(store)
    store.set("a", 8)
    store.commit()
    store.set("b", 9)
    size = len(disk.files["log/cursors"])
    failing.only, failing.calls, failing.fail_at = "create", 0, 1
    store.sync()
    assert store.failure is None
    assert len(disk.files["log/cursors"]) == size + record_size("b")
    assert disk.list("log") == ["cursors"]
    assert [(cursor.name, cursor.seq) for cursor in store_on(disk).list()] == [("a", 8), ("b", 9)]


def test_a_file_that_was_being_written_is_removed(disk: MemoryDisk) -> None:
    disk.create("log/cursors.new").append([b"half"])
    store = store_on(disk)
    assert disk.list("log") == []
    store.set("a", 1)
    store.close()
    assert disk.list("log") == ["cursors"]


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("fail_at", range(1, 25))
def test_whatever_call_fails_nothing_synced_is_lost(disk: MemoryDisk, fail_at: int, for_good: bool) -> None:
    failing = FailingDisk(disk, fail_at, for_good)
    store = store_on(failing)
    synced: list[Cursor] = []

    def remember(cursor: Cursor) -> None:
        store.wait(cursor.revision, lambda error: synced.append(cursor) if error is None else None)

    for seq in range(8):
        try:
            if seq == 4:
                fill_with_garbage(store)
            for name in "abc":
                remember(store.set(name, 10 + seq))
            store.sync()
        except StorageError:
            continue
    again = store_on(disk)
    for cursor in synced:
        found = again.fetch(cursor.name)
        assert found is not None
        assert found.revision >= cursor.revision
        assert not found.doubtful
    assert again.damaged == 0
    again.set("z", 1)
    again.close()
