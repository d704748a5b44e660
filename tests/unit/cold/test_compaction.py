"""Many small files become few large ones, whatever else happens; the rows stay what they are."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pytest

from tidelog.base.errors import ColdError
from tidelog.cold import compaction
from tidelog.cold.archive import Archive
from tidelog.cold.bucket import StoreBucket, open_bucket
from tidelog.cold.compaction import Compaction, Done, names_in_use, runs
from tidelog.cold.manifest import Entry, Manifest
from unit.cold.test_archive import PLACE, STEP, Killed, Mortal, add, payloads

FILES = 12
START = datetime(2026, 11, 19, tzinfo=UTC)


class Timed(Mortal):
    """A mortal bucket in a store whose clock is ours."""

    def __init__(self, bucket: StoreBucket, at: int = 0, after: bool = False, error: Any = Killed) -> None:
        super().__init__(bucket, at, after, error)
        self.time = START
        self.written: dict[str, datetime] = {}

    def put_new(self, name: str, data: bytes) -> bool:
        done = super().put_new(name, data)
        if done:
            self.written[name] = self.time
        return done

    def replace(self, name: str, data: bytes) -> None:
        super().replace(name, data)
        self.written[name] = self.time

    def now(self, _: str) -> datetime:
        return self.time

    def times(self, prefix: str) -> dict[str, datetime]:
        return {name: self.written.get(name, START) for name in self.names(prefix)}


def filled(bucket: Any, count: int = FILES) -> list[bytes]:
    archive = Archive(bucket, PLACE)
    for number in range(count):
        add(archive, number)
    return payloads(archive)


def compact(bucket: Any, **more: Any) -> Done:
    return Compaction(bucket, PLACE, **{"grace_s": 3600.0} | more).run()


def data_names(bucket: Any) -> list[str]:
    return bucket.names(f"{PLACE.folder}/data")


@pytest.fixture
def bucket() -> Timed:
    return Timed(open_bucket("memory:///"))


def test_neighbours_are_merged_and_replaced_files_stay_for_a_while(bucket: Timed) -> None:
    """COLD-11"""
    before = filled(bucket)
    assert compact(bucket) == Done(merged=FILES, written=1, size=len(bucket.get(PLACE.data_name(1, 121))))
    archive = Archive(bucket, PLACE)
    assert [entry.name for entry in archive.manifest.entries] == [PLACE.data_name(1, 121)]
    assert payloads(archive) == before
    assert len(data_names(bucket)) == FILES + 1
    bucket.time += timedelta(minutes=59)
    assert compact(bucket) == Done()
    bucket.time += timedelta(minutes=2)
    assert compact(bucket) == Done(removed=FILES)
    assert data_names(bucket) == [PLACE.data_name(1, 121)]
    # And what comes later is added behind it.
    add(archive, FILES)
    assert len(payloads(Archive(bucket, PLACE))) == len(before) + STEP
    assert compact(bucket).merged == 2


def test_large_files_stay_as_they_are(bucket: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(bucket)
    entries = Archive(bucket, PLACE).manifest.entries
    size = entries[0].size
    assert [len(run) for run in runs(entries, size * 4 + 100)] == [4, 4, 4]
    assert runs(entries, size) == []
    monkeypatch.setattr(compaction, "COLD_FILE_MESSAGES", 2 * STEP)
    assert [len(run) for run in runs(entries, 1 << 30)] == [2] * 6
    assert runs((), 1) == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Killed, lambda: ColdError("the store is down")])
def test_every_end_in_the_middle(error: Callable[[], BaseException], after: bool) -> None:
    """COLD-11"""
    for at in range(1, 100):
        store = open_bucket("memory:///")
        before = filled(store)
        size = 4 * Archive(store, PLACE).manifest.entries[0].size + 100
        mortal = Timed(store, at, after, error)
        mortal.time += timedelta(days=1)
        try:
            compact(mortal, file_size=size, grace_s=0)
        except (Killed, ColdError):
            assert payloads(Archive(store, PLACE)) == before
        again = Timed(store)
        again.time += timedelta(days=2)
        compact(again, file_size=size, grace_s=0)
        archive = Archive(store, PLACE)
        assert payloads(archive) == before
        assert [entry.name for entry in archive.manifest.entries] == data_names(store)
        assert all(one.end_seq == other.start_seq for one, other in pairwise(archive.manifest.entries))
        if mortal.left > 0:
            assert at > 10
            return
    raise AssertionError("there is no end to the calls")


@pytest.mark.parametrize("seed", range(5))
def test_others_who_add_trim_and_compact_meanwhile(bucket: Timed, seed: int) -> None:
    """COLD-6, COLD-11"""
    chance = random.Random(seed)
    filled(bucket)
    writer = Archive(bucket, PLACE)
    writer.trim(1)
    number, first = FILES, 1
    for _ in range(40):
        size = chance.choice([3_000, 8_000, 50_000])
        one, two = (Compaction(bucket, PLACE, file_size=size, grace_s=60) for _ in range(2))
        steps = [one.steps(Done()), two.steps(Done())]
        for _ in range(chance.randrange(1, 8)):
            kind = chance.randrange(4)
            if kind < 2:
                next(steps[kind], None)
            elif kind == 2:
                add(writer, number)
                number += 1
            elif chance.random() < 0.3:
                first = chance.randrange(first, number * STEP)
                first = writer.trim(first).start_seq
        bucket.time += timedelta(seconds=chance.choice([1, 30, 100]))
        found = Archive(bucket, PLACE)
        assert payloads(found) == [
            b"payload %d" % seq for seq in range(found.manifest.start_seq, number * STEP + 1)
        ]
        assert found.manifest.start_seq <= max(first, 1)


@pytest.mark.parametrize("left", [b"nonsense", None])
def test_a_file_of_that_name_is_looked_into(bucket: Timed, left: bytes | None) -> None:
    """COLD-11: what an earlier attempt has left may be anything."""
    before = filled(bucket)
    name = Archive(bucket, PLACE).manifest.entries[0].name
    bucket.put_new(PLACE.data_name(1, 121), bucket.get(name) if left is None else left)
    assert compact(bucket).written == 1
    assert payloads(Archive(bucket, PLACE)) == before


def test_rows_out_of_order_are_not_merged(bucket: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled(bucket)
    read = Archive.read

    def turned(archive: Archive, entry: Entry) -> Any:
        table = read(archive, entry)
        return table.take(list(range(table.num_rows))[::-1])

    monkeypatch.setattr(Archive, "read", turned)
    with pytest.raises(ColdError, match="are not in order"):
        compact(bucket)
    monkeypatch.setattr(Archive, "read", read)
    assert payloads(Archive(bucket, PLACE)) == before


def test_what_a_reader_may_still_hold() -> None:
    def manifest(*names: str) -> Manifest:
        return Manifest(
            entries=tuple(
                Entry(name=name, start_seq=1, end_seq=2, messages=0, size=0, first_ts_ns=0, last_ts_ns=0)
                for name in names
            )
        )

    kept = {"1": manifest("a"), "2": manifest("b"), "3": manifest("c")}
    written = {"1": START, "2": START + timedelta(hours=1), "3": START + timedelta(hours=2)}
    assert names_in_use(kept, written, START + timedelta(minutes=90)) == {"b", "c"}
    assert names_in_use(kept, written, START) == {"a", "b", "c"}
    assert names_in_use(kept, written, START + timedelta(hours=9)) == {"c"}
    assert names_in_use({}, {}, START) == set()


def test_a_file_that_is_about_to_be_named_stays(bucket: Timed) -> None:
    """COLD-11"""
    filled(bucket)
    coming = PLACE.data_name(FILES * STEP + 1, FILES * STEP + 11)
    merged = PLACE.data_name(11, 31)
    odd = f"{PLACE.folder}/data/readme"
    for name in (coming, merged, odd):
        bucket.put_new(name, b"being written")
    assert compact(bucket, file_size=1, grace_s=0) == Done()
    bucket.time += timedelta(minutes=11)
    assert compact(bucket, file_size=1, grace_s=0) == Done(removed=1)
    assert merged not in data_names(bucket)
    assert {coming, odd} <= set(data_names(bucket))


def test_in_a_folder(tmp_path: Any) -> None:
    """By the times that the store itself has."""
    bucket = open_bucket(f"file://{tmp_path}")
    before = filled(bucket)
    assert Compaction(bucket, PLACE).run().removed == 0
    # As docs/how-to/read-history.md reads what is in force, while replaced files are there.
    newest = max((tmp_path / PLACE.folder / "manifest").iterdir())
    names = [entry["name"] for entry in json.loads(newest.read_bytes())["entries"]]
    rows = duckdb.read_parquet([f"{tmp_path}/{name}" for name in names]).order("seq").fetchall()
    assert len(data_names(bucket)) == FILES + 1
    assert [row[4] for row in rows] == before
    assert Compaction(bucket, PLACE, grace_s=0).run().removed == FILES
    assert payloads(Archive(bucket, PLACE)) == before
