"""Changes that the disk must hear of: beside the loop, in order for each name, sharing syncs of directories."""

import pytest

from sim.worker import SimWorker
from tidelog.base.errors import DiskFailed
from tidelog.disk.memory import MemoryDisk
from tidelog.stream.change import Changes, Names


class Counting(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.broken = False

    def sync_directory(self, path: str) -> None:
        if self.broken:
            raise DiskFailed("fsync", path, OSError(5, "no"))
        self.synced.append(path)


@pytest.fixture
def disk() -> Counting:
    return Counting()


@pytest.fixture
def worker() -> SimWorker:
    return SimWorker()


@pytest.fixture
def changes(disk: Counting, worker: SimWorker) -> Changes:
    return Changes(worker, Names(disk, worker))


def test_one_sync_serves_all_who_came_before_it_began(disk: Counting, worker: SimWorker) -> None:
    names = Names(disk, worker)
    told: list[str] = []
    names.sync("d", lambda _: told.append("first"))
    # That one may have begun: whoever comes now waits for another.
    for name in ("second", "third"):
        names.sync("d", lambda _, name=name: told.append(name))
    names.sync("other", lambda _: told.append("other"))
    worker.run_all()
    assert disk.synced == ["d", "other", "d"]
    assert sorted(told) == ["first", "other", "second", "third"]


def test_a_change_is_over_when_both_its_parts_are(
    changes: Changes, worker: SimWorker, disk: Counting
) -> None:
    told: list[BaseException | None] = []
    changes.carry_out("S", lambda: disk.synced.append("job"), told.append, above="d")
    assert changes.is_busy("S")
    assert worker.step()
    assert (told, changes.is_busy("S")) == ([], True)
    worker.run_all()
    assert (told, changes.is_busy("S")) == ([None], False)
    assert disk.synced == ["job", "d"]


def test_whichever_part_fails_it_is_told_once(changes: Changes, worker: SimWorker, disk: Counting) -> None:
    disk.broken = True
    told: list[BaseException | None] = []
    ended: list[int] = []
    changes.on_end = lambda: ended.append(len(told))
    changes.carry_out("S", lambda: None, told.append, above="d")
    changes.carry_out("T", lambda: disk.sync_directory("e"), told.append, alters=True, beside=False)
    assert changes.altering == 0
    worker.run_all()
    assert [type(error) for error in told] == [DiskFailed, DiskFailed]
    assert ended == [1, 2]
    assert not changes.busy


def test_what_alters_is_counted_while_it_is_under_way(changes: Changes, worker: SimWorker) -> None:
    changes.carry_out("S", lambda: None, lambda _: None, alters=True)
    changes.carry_out("T", lambda: None, lambda _: None)
    assert (changes.altering, changes.busy) == (1, {"S", "T"})
    with pytest.raises(AssertionError, match="two changes"):
        changes.carry_out("S", lambda: None, lambda _: None)
    worker.run_all()
    assert (changes.altering, changes.busy) == (0, set())


def test_what_one_does_with_the_news_costs_the_others_nothing(
    changes: Changes, worker: SimWorker, disk: Counting
) -> None:
    def fall(_: BaseException | None) -> None:
        raise ZeroDivisionError

    told: list[BaseException | None] = []
    ended: list[int] = []
    changes.on_end = lambda: ended.append(1)
    names = Names(disk, worker)
    names.sync("d", lambda _: None)
    names.sync("d", fall)
    names.sync("d", told.append)
    changes.carry_out("S", lambda: None, fall)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            worker.run_all()
    worker.run_all()
    assert told == [None]
    assert ended == [1]
    assert not changes.busy
