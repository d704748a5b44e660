"""Cursors against a dictionary, through crashes at any byte and damage at any other."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.clock import ManualClock
from tidelog.base.errors import StorageError
from tidelog.disk.memory import MemoryDisk
from tidelog.log.cursor import Cursor, CursorStore
from tidelog.log.cursor_file import FILE_HEADER_SIZE, record_size

NAMES = st.sampled_from(["a", "b", "ü", "longer name"])
STEP = st.one_of(
    st.tuples(st.just("set"), NAMES, st.integers(0, 2**64 - 1)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.sampled_from(["commit", "sync", "open", "start", "end"]), st.just(""), st.just(0)),
)
Step = tuple[str, str, int]
Values = dict[str, int]
PATH = "cursors"


def opened(disk: MemoryDisk) -> CursorStore:
    return CursorStore.open(disk, "", ManualClock())


def values(store: CursorStore) -> Values:
    return {cursor.name: cursor.seq for cursor in store.list()}


def change(store: CursorStore, model: Values, step: Step) -> None:
    action, name, seq = step
    if action == "set":
        expected = store.fetch(name)
        store.set(name, seq, expected.revision if expected else 0, rewind=True)
        model[name] = seq
    else:
        assert bool(store.delete(name)) is (model.pop(name, None) is not None)


@given(st.lists(STEP, max_size=40))
def test_a_store_answers_as_a_dictionary(steps: list[Step]) -> None:
    disk = MemoryDisk()
    store = opened(disk)
    model: Values = {}
    job = None
    for step in steps:
        if step[1]:
            change(store, model, step)
        elif step[0] == "commit":
            store.commit()
        elif step[0] == "start":
            job = job or store.sync_job()
        elif job is not None:
            # Whatever else comes next: a job ends first.
            job()
            store.synced(None)
            job = None
        elif step[0] == "sync":
            store.sync()
            assert not store.dirty
        elif step[0] == "open":
            revision = store.revision
            store.close()
            store = opened(disk)
            assert (store.revision, store.damaged, store.cut_size) == (revision, 0, 0)
        assert values(store) == model
        assert store.fetch("never") is None


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.integers(0, 2**64 - 1)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
    ),
    min_size=1,
    max_size=30,
)


def written(steps: list[Step]) -> tuple[bytes, list[tuple[int, Values]]]:
    """A file of these changes, and the sizes that it had with what was true then."""
    disk = MemoryDisk()
    store = opened(disk)
    model = {"first": 0}
    store.set("first", 0)
    store.sync()
    history = [(len(disk.files[PATH]), dict(model))]
    for step in steps:
        change(store, model, step)
        store.sync()
        history.append((len(disk.files[PATH]), dict(model)))
    return bytes(disk.files[PATH]), history


@given(CHANGES, st.data(), st.binary(max_size=60))
def test_a_torn_tail_costs_what_it_held_and_no_more(
    steps: list[Step], data: st.DataObject, torn: bytes
) -> None:
    """Cut at any byte, with or without stray bytes behind."""
    whole, history = written(steps)
    size = data.draw(st.integers(FILE_HEADER_SIZE + record_size("first"), len(whole)))
    disk = MemoryDisk()
    disk.create(PATH).append([whole[:size] + torn])
    kept, expected = next((kept, then) for kept, then in reversed(history) if kept <= size)
    store = opened(disk)
    if whole[kept : size + len(torn)] != whole[kept:size] + torn:
        assert values(store) == expected
        assert (store.damaged, store.cut_size) == (0, size + len(torn) - kept)
    change(store, expected, ("set", "after", 1))
    store.close()
    again = opened(disk)
    assert (values(again), again.damaged, again.cut_size) == (expected, 0, 0)


@given(CHANGES, st.data())
def test_damage_is_never_silent(steps: list[Step], data: st.DataObject) -> None:
    """Bytes overwritten, taken out or put in: what comes out is true or doubtful, or damage was reported."""
    whole, history = written(steps)
    start = data.draw(st.integers(0, len(whole) - 1))
    stop = data.draw(st.integers(start, len(whole)))
    instead = data.draw(st.binary(max_size=80) | st.just(bytes(stop - start)))
    spoilt = whole[:start] + instead + whole[stop:]
    if len(spoilt) < FILE_HEADER_SIZE or spoilt == whole:
        return
    disk = MemoryDisk()
    disk.create(PATH).append([spoilt])
    try:
        store = opened(disk)
    except StorageError:
        # Refused, which is not silent either.
        return
    truth = history[-1][1]
    at_a_record = any(spoilt == whole[:size] for size, _ in history) or len(spoilt) == FILE_HEADER_SIZE
    if values(store) != truth and not at_a_record:
        assert store.damaged or store.cut_size
    once = {(name, seq) for _, then in history for name, seq in then.items()}
    assert {(cursor.name, cursor.seq) for cursor in store.list()} <= once
    if store.damaged and not store.cut_size and spoilt.endswith(whole[-record_size("a") :]):
        for cursor in store.list():
            assert cursor.doubtful or truth.get(cursor.name) == cursor.seq
    survives_a_rewrite(store, disk)


def survives_a_rewrite(store: CursorStore, disk: MemoryDisk) -> None:
    doubtful = {cursor.name for cursor in store.list() if cursor.doubtful}
    store.rewrite_due = True
    store.set("new", 1)
    before: list[Cursor] = store.list()
    store.close()
    again = opened(disk)
    assert (again.list(), again.damaged, again.cut_size) == (before, 0, 0)
    assert {cursor.name for cursor in again.list() if cursor.doubtful} == doubtful
