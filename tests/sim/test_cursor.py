"""Cursors on a bad day: the process ends in any call, or any call fails, and then perhaps the power goes."""

from collections.abc import Callable

import pytest

from sim.disk import SimDisk
from sim.toxic import CHANGES, Crashed, CrashNth, FailNth, Nth
from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.errors import StorageError
from tidelog.log import cursor as cursor_module
from tidelog.log.cursor import CursorStore

NAMES = "abcde"


class Model:
    """What was asked for, by name, and what of it was promised last. A sequence of None is a delete."""

    def __init__(self) -> None:
        self.asked: dict[str, set[tuple[int, int | None]]] = {name: set() for name in NAMES}
        self.promised: dict[str, tuple[int, int | None]] = dict.fromkeys(NAMES, (0, None))

    def ask(self, store: CursorStore, name: str, revision: int, seq: int | None) -> None:
        self.asked[name].add((revision, seq))
        store.wait(revision, lambda error: self.promise(name, revision, seq) if error is None else None)

    def promise(self, name: str, revision: int, seq: int | None) -> None:
        self.promised[name] = (revision, seq)

    def check(self, store: CursorStore) -> None:
        """Everybody is where they were promised, or where something later that was asked for put them."""
        assert store.damaged == 0
        for name in NAMES:
            revision, seq = self.promised[name]
            found = store.fetch(name)
            if found is None:
                assert seq is None or any(then > revision and to is None for then, to in self.asked[name])
            else:
                assert not found.doubtful
                assert (found.revision, found.seq) == (revision, seq) or found.revision > revision
                assert (found.revision, found.seq) in self.asked[name]
        assert store.revision >= max(revision for revision, _ in self.promised.values())


def work(store: CursorStore, model: Model, chance: Chance) -> None:
    """Sets, deletes, commits and jobs as they come, for a while."""
    job = None
    for _ in range(60):
        what = chance.integer(10)
        name = NAMES[chance.integer(len(NAMES))]
        if what < 5:
            cursor = store.set(name, chance.integer(1000), rewind=True)
            model.ask(store, name, cursor.revision, cursor.seq)
        elif what == 5:
            revision = store.delete(name)
            if revision:
                model.ask(store, name, revision, None)
        elif what < 8:
            store.commit()
        elif job is None:
            job = store.sync_job()
        else:
            finish(store, job)
            job = None
    if job is not None:
        finish(store, job)
    store.close()


def finish(store: CursorStore, job: Callable[[], None]) -> None:
    try:
        job()
    except StorageError as error:
        store.synced(error)
        raise
    store.synced(None)


def live(disk: SimDisk, model: Model, chance: Chance) -> None:
    try:
        store = CursorStore.open(disk, "log", ManualClock())
        model.check(store)
        # What is found is promised from now on.
        for cursor in store.list():
            model.ask(store, cursor.name, cursor.revision, cursor.seq)
        work(store, model, chance)
    except (StorageError, Crashed):
        return


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ending", ["crash", "failure"])
def test_nothing_promised_is_lost(ending: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lives of a store, each ended by the same call of its own, for every such call."""
    monkeypatch.setattr(cursor_module, "CURSOR_GARBAGE_SIZE", 200)
    for n in range(1, 40):
        chance = Chance(seed * 1000 + n)
        model = Model()
        disk = SimDisk(seed * 1000 + n)
        disk.make_directory("log")
        disk.sync_directory("")
        for _ in range(3):
            toxic: Nth = CrashNth(n, CHANGES) if ending == "crash" else FailNth(n, CHANGES)
            disk.toxics[:] = [toxic]
            live(disk, model, chance)
            if chance.integer(3):
                disk.power_cut()
            else:
                disk.kill()
            disk = disk.reopen()
        disk.toxics.clear()
        model.check(CursorStore.open(disk, "log", ManualClock()))
