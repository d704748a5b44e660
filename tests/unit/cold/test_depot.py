"""Archives as logs know them: what is kept is what was given, and whoever else writes there is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.base.errors import ColdError, ColdForeign, ColdMissing
from tidelog.base.seqset import SequenceSet
from tidelog.base.work import Inline
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import open_bucket
from tidelog.cold.depot import ArchiveHistory, Warehouse
from tidelog.cold.manifest import Entry
from tidelog.log.columns import Columns, segment_columns
from tidelog.log.husk import refill
from tidelog.log.record import encode_message
from unit.log.segment import HEADER, SALT
from unit.log.shed import rows_of

LOG_ID = bytes(range(16))


def records(seqs: range, word: bytes = b"payload") -> bytes:
    return HEADER + b"".join(
        encode_message(
            seq,
            1_700_000_000_000_000_000 + seq,
            b"a.%d" % (seq % 3) if seq % 7 else b"\xff.b",
            b"NATS/1.0\r\nA: b\r\n\r\n" if seq % 2 else b"",
            word * (seq % 5),
            5_000 if seq % 4 == 0 else 0,
            SALT,
        )
        for seq in seqs
    )


def columns_of(data: bytes) -> Columns:
    columns, damaged = segment_columns(data, SALT, SequenceSet(), 1, 1 << 62)
    assert damaged == 0
    return columns


def columns(seqs: range, word: bytes = b"payload") -> Columns:
    return columns_of(records(seqs, word))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "bucket").as_uri()


def history(url: str) -> ArchiveHistory:
    return Warehouse(url, Inline(), Inline()).depot("$G", "S").history(LOG_ID)


def archive(url: str) -> Archive:
    return Archive(open_bucket(url), Place("$G", "S", LOG_ID))


def test_a_segment_comes_back_as_it_was(url: str) -> None:
    """COLD-2, COLD-9"""
    one = history(url)
    assert one.end_seq() == 0
    assert one.add(1, 51, columns(range(1, 51))) > 0
    assert one.add(51, 101, columns(range(51, 101))) > 0
    assert one.end_seq() == 101
    assert refill(one.rows(1, 101), HEADER, SALT, 1, 101) == records(range(1, 101))
    assert refill(one.rows(40, 60), HEADER, SALT, 40, 60) == records(range(40, 60))
    one.check(20, 70, columns(range(20, 70)))


def test_twice_is_once(url: str) -> None:
    """COLD-6"""
    history(url).add(1, 51, columns(range(1, 51)))
    history(url).add(1, 51, columns(range(1, 51)))
    assert [(entry.start_seq, entry.end_seq) for entry in archive(url).manifest.entries] == [(1, 51)]


def test_others_messages_are_not_taken_for_ours(url: str) -> None:
    """COLD-10"""
    history(url).add(1, 51, columns(range(1, 51), b"theirs"))
    one = history(url)
    with pytest.raises(ColdForeign, match="other messages from 1 to 50"):
        one.add(1, 51, columns(range(1, 51)))
    with pytest.raises(ColdForeign):
        one.check(10, 20, columns(range(10, 20)))
    with pytest.raises(ColdForeign):
        one.check(40, 60, columns(range(40, 60), b"theirs"))


def test_what_an_attempt_left_is_compared_as_well(url: str) -> None:
    place = Place("$G", "S", LOG_ID)
    Archive(open_bucket(url), place).add(1, 51, columns(range(1, 51), b"theirs"))
    bucket = open_bucket(url)
    for name in bucket.names(f"{place.folder}/manifest"):
        bucket.remove(name)
    with pytest.raises(ColdForeign):
        history(url).add(1, 51, columns(range(1, 51)))


def test_what_was_deleted_here_may_be_there(url: str) -> None:
    history(url).add(1, 51, columns(range(1, 51)))
    fewer, _ = segment_columns(records(range(1, 51)), SALT, deleted(range(10, 20)), 1, 51)
    history(url).check(1, 51, fewer)
    history(url).check(1, 51, columns(range(0)))


def deleted(seqs: range) -> SequenceSet:
    found = SequenceSet()
    for seq in seqs:
        found.add(seq)
    return found


def test_files_may_be_merged_while_they_are_known(url: str) -> None:
    one = history(url)
    for start in (1, 51, 101):
        one.add(start, start + 50, columns(range(start, start + 50)))
    assert sum(part.count for part in one.rows(1, 101)) == 100
    merge(url, 1, 101)
    assert sorted(row[0] for part in one.rows(30, 70) for row in rows_of(part)) == list(range(30, 70))
    one.add(151, 201, columns(range(151, 201)))
    assert sum(part.count for part in one.rows(151, 201)) == 50


def merge(url: str, start_seq: int, end_seq: int) -> None:
    """As the `compact` job does: one file for two, and those removed."""
    from tidelog.cold.archive import entry_of
    from tidelog.cold.table import write_table

    there = archive(url)
    old = [entry for entry in there.manifest.entries if start_seq <= entry.start_seq < end_seq]
    name, about = there.place.data_name(start_seq, end_seq), there.place.about(start_seq, end_seq)
    data = write_table(columns(range(start_seq, end_seq)), about)
    there.bucket.put_new(name, data)
    merged: Entry = entry_of(name, about, data)
    there.book.commit(there.manifest, (merged, *there.manifest.entries[len(old) :]))
    for entry in old:
        there.bucket.remove(entry.name)


def test_what_is_not_there_is_missing(url: str) -> None:
    one = history(url)
    one.add(1, 51, columns(range(1, 51)))
    with pytest.raises(ColdMissing, match="does not go up to 99"):
        one.rows(1, 100)
    archive(url).bucket.remove(archive(url).manifest.entries[0].name)
    with pytest.raises(ColdMissing):
        one.rows(1, 51)


def test_trimming_by_sequence_and_by_time(url: str) -> None:
    one = history(url)
    for start in (1, 51, 101):
        one.add(start, start + 50, columns(range(start, start + 50)))
    one.trim(101, 1_700_000_000_000_000_000 + 60, 151)
    assert archive(url).manifest.start_seq == 51
    one.trim(1, None, 151)
    assert archive(url).manifest.start_seq == 51
    with pytest.raises(ColdError, match="nothing is removed"):
        one.trim(101, None, 101)
    one.trim(101, None, 151)
    assert archive(url).manifest.start_seq == 101
    with pytest.raises(ColdError, match="nothing is removed"):
        one.remove(101)
    one.remove(151)
    assert open_bucket(url).names("$G") == []
    assert one.end_seq() == 0


def test_a_store_that_cannot_be_opened_is_told_of() -> None:
    with pytest.raises(ColdError, match="no object store"):
        history("ftp://nowhere").end_seq()
