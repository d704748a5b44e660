"""Rows of cold files in ranges: what comes is what was put there, and nothing more is read than was asked for."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidelog.base.errors import ColdError, ColdMissing, ConfigError
from tidelog.base.seqset import SequenceSet
from tidelog.cold import archive as archives
from tidelog.cold import scan, table
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import StoreBucket, open_bucket
from tidelog.cold.history import find_history, place_of, places, read_history
from tidelog.log.columns import Columns, segment_columns
from tidelog.log.record import encode_message
from unit.cold.test_archive import PLACE
from unit.log.segment import HEADER, SALT

GROUP = 16
END = 400
CHANCE = random.Random(20261119)
# Gaps within a row group, over whole row groups, and at the ends of files.
GONE = {1, 2, 99, 100, 399, *range(150, 230), *CHANCE.sample(range(1, END), 60)}


def columns(start_seq: int, end_seq: int) -> Columns:
    data = HEADER + b"".join(
        encode_message(seq, seq * 1_000_003, b"s.%d" % (seq // 40), b"", b"payload %d" % seq, 0, SALT)
        for seq in range(start_seq, end_seq)
        if seq not in GONE
    )
    return segment_columns(data, SALT, SequenceSet(), 1, 1 << 62)[0]


@pytest.fixture(params=["file", "memory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreBucket:
    monkeypatch.setattr(table, "COLD_ROW_GROUP_MESSAGES", GROUP)
    bucket = open_bucket(f"file://{tmp_path}/cold store" if request.param == "file" else "memory:///")
    made = Archive(bucket, PLACE)
    for start_seq, end_seq in ((1, 100), (100, 160), (160, 170), (170, END)):
        made.add(start_seq, end_seq, columns(start_seq, end_seq))
    return bucket


def all_groups(bucket: StoreBucket, start_seq: int, end_seq: int) -> Iterator[scan.Group]:
    for entry in read_history(bucket, PLACE).within(start_seq, end_seq):
        yield from scan.groups(bucket, entry, start_seq, end_seq)


def test_every_range_has_its_rows(bucket: StoreBucket) -> None:
    for _ in range(60):
        start_seq, end_seq = sorted(CHANCE.sample(range(1, END + 1), 2))
        at, found = start_seq, []
        for group in all_groups(bucket, start_seq, end_seq):
            assert all(seq in GONE for seq in range(at, group.start_seq))
            at = group.end_seq
            rows = [seq for batch in group.batches(["seq"]) for seq in batch.column("seq").to_pylist()]
            assert len(rows) == group.count
            assert all(group.start_seq <= seq < group.end_seq for seq in rows)
            found += rows
        assert found == [seq for seq in range(start_seq, end_seq) if seq not in GONE]
    assert list(all_groups(bucket, 300, 300)) == []


class One:
    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.asked = 0

    def wanted(self, subjects: pa.Array) -> pa.Array:
        self.asked += 1
        return pc.equal(subjects, self.subject)


def test_rows_that_match_and_payloads_only_where_some_do(
    bucket: StoreBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    inner = scan.Group._read

    def noted(group: scan.Group, columns: list[str]) -> Iterator[pa.RecordBatch]:
        read.append(list(columns))
        return inner(group, columns)

    monkeypatch.setattr(scan.Group, "_read", noted)
    found = [
        (seq, payload)
        for group in all_groups(bucket, 1, END)
        for batch in group.batches(["seq", "subject", "payload"], One("s.7"))
        for seq, payload in zip(
            batch.column("seq").to_pylist(), batch.column("payload").to_pylist(), strict=True
        )
    ]
    assert found == [(seq, b"payload %d" % seq) for seq in range(280, 320) if seq not in GONE]
    with_payload = sum("payload" in names for names in read)
    assert 0 < with_payload <= 5 < len(read) - with_payload


def test_batches_are_bounded_in_bytes(bucket: StoreBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "COLD_BATCH_SIZE", 1)
    sizes = {
        batch.num_rows for group in all_groups(bucket, 1, END) for batch in group.batches(["seq", "payload"])
    }
    assert sizes == {1}


def test_the_first_at_a_time(bucket: StoreBucket) -> None:
    entries = read_history(bucket, PLACE).manifest.entries
    kept = [seq for seq in range(1, END) if seq not in GONE]
    for seq in (1, 50, 120, 200, 390, kept[-1]):
        expected = next(each for each in kept if each >= seq)
        assert scan.first_at(bucket, entries, seq * 1_000_003 // 1000 * 1000) == expected
    assert scan.first_at(bucket, entries, kept[-1] * 1_000_003 // 1000 * 1000 + 1000) == 0
    assert scan.first_at(bucket, (), 0) == 0


def test_what_is_gone_or_another_is_told(bucket: StoreBucket) -> None:
    entry = read_history(bucket, PLACE).manifest.entries[1]
    data = bucket.get(entry.name)
    bucket.remove(entry.name)
    with pytest.raises(ColdMissing):
        list(scan.groups(bucket, entry, 1, END))
    bucket.replace(entry.name, data[:-20])
    with pytest.raises(ColdError, match="cannot be read"):
        list(scan.groups(bucket, entry, 1, END))
    bucket.replace(entry.name, bucket.get(read_history(bucket, PLACE).manifest.entries[0].name))
    with pytest.raises(ColdError, match="is not what the manifest says of it"):
        list(scan.groups(bucket, entry, 1, END))


def test_histories_are_found(bucket: StoreBucket) -> None:
    assert find_history(bucket, PLACE.stream).place == PLACE
    other = Place("ACC", PLACE.stream, bytes(16))
    archives.Archive(bucket, other).add(1, 5, columns(1, 5))
    bucket.put_new("readme/first", b"")
    bucket.put_new("a/b/c/d", b"")
    assert places(bucket) == [PLACE, other]
    with pytest.raises(ColdError, match="several histories of 'A B/1': "):
        find_history(bucket, PLACE.stream)
    assert find_history(bucket, PLACE.stream, other.folder).end_seq == 5
    with pytest.raises(ColdError, match="no history of 'B'"):
        find_history(bucket, "B")
    assert place_of("a/b") is None
    assert place_of("a/b/00") is None


def test_who_only_reads_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder here"):
        open_bucket(f"file://{tmp_path}/none", make=False)
    assert list(tmp_path.iterdir()) == []
