"""The cold history of one log: every stretch once, whoever puts it there and however often they die over it."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tidelog.base.errors import ColdError
from tidelog.base.limits import COLD_MANIFESTS_KEPT
from tidelog.base.seqset import SequenceSet
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import Bucket, open_bucket
from tidelog.cold.manifest import Entry, Manifest, ManifestBook, Outrun
from tidelog.log.columns import Columns, segment_columns
from tidelog.log.record import encode_message
from unit.log.segment import HEADER, SALT

PLACE = Place("$G", "A B/1", bytes(range(16)))
FOLDER = "$G/A%20B%2F1/000102030405060708090a0b0c0d0e0f"
STEP = 10


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A bucket that ends its user before or after the n-th call that changes something."""

    def __init__(self, bucket: Bucket, at: int, after: bool, error: Callable[[], BaseException]) -> None:
        self.bucket = bucket
        self.left = at
        self.after = after
        self.error = error

    def _strike(self, after: bool) -> None:
        if after == self.after:
            self.left -= 1
            if self.left == 0:
                raise self.error()

    def put_new(self, name: str, data: bytes) -> bool:
        self._strike(False)
        done = self.bucket.put_new(name, data)
        self._strike(True)
        return done

    def replace(self, name: str, data: bytes) -> None:
        self._strike(False)
        self.bucket.replace(name, data)
        self._strike(True)

    def remove(self, name: str) -> None:
        self._strike(False)
        self.bucket.remove(name)
        self._strike(True)

    def get(self, name: str) -> bytes:
        return self.bucket.get(name)

    def names(self, prefix: str) -> list[str]:
        return self.bucket.names(prefix)


@pytest.fixture
def bucket() -> Bucket:
    return open_bucket("memory:///")


def columns(start_seq: int, end_seq: int) -> Columns:
    data = HEADER + b"".join(
        encode_message(seq, seq * 1_000_003, b"s.%d" % (seq % 3), b"", b"payload %d" % seq, 0, SALT)
        for seq in range(start_seq, end_seq)
    )
    return segment_columns(data, SALT, SequenceSet(), 1, 1 << 62)[0]


def add(archive: Archive, number: int) -> None:
    start_seq = 1 + number * STEP
    archive.add(start_seq, start_seq + STEP, columns(start_seq, start_seq + STEP))


def payloads(archive: Archive) -> list[bytes]:
    tables = [archive.read(entry) for entry in archive.manifest.entries]
    return [payload for table in tables for payload in table["payload"].to_pylist()]


def test_stretches_follow_each_other(bucket: Bucket) -> None:
    archive = Archive(bucket, PLACE)
    for number in range(3):
        add(archive, number)
    assert payloads(archive) == [b"payload %d" % seq for seq in range(1, 31)]
    entry = archive.manifest.entries[1]
    assert entry == Entry(
        name=f"{FOLDER}/data/{11:020d}-{21:020d}.parquet",
        start_seq=11,
        end_seq=21,
        messages=10,
        size=entry.size,
        first_ts_ns=11 * 1_000_003,
        last_ts_ns=20 * 1_000_003,
    )
    again = Archive(bucket, PLACE)
    assert again.manifest == archive.manifest
    assert [again.manifest.find(seq) for seq in (0, 1, 10, 11, 30, 31)] == [
        None,
        *(again.manifest.entries[at] for at in (0, 0, 1, 2)),
        None,
    ]


def test_a_stretch_that_is_there_is_not_put_there_again(bucket: Bucket) -> None:
    archive = Archive(bucket, PLACE)
    add(archive, 0)
    add(archive, 1)
    before = archive.manifest
    add(archive, 0)
    assert archive.manifest is before


def test_no_gap_and_no_overlap(bucket: Bucket) -> None:
    """COLD-4"""
    archive = Archive(bucket, PLACE)
    add(archive, 0)
    with pytest.raises(ColdError, match=r"\[21, 31\) does not follow what ends before 11"):
        add(archive, 2)
    with pytest.raises(ColdError, match=r"\[5, 15\) does not follow"):
        archive.add(5, 15, columns(5, 15))
    one = archive.manifest.entries[0]
    apart = Entry(name="b", start_seq=12, end_seq=13, messages=1, size=1, first_ts_ns=0, last_ts_ns=0)
    with pytest.raises(ColdError, match=r"b begins with 12, and .*\.parquet ends before 11"):
        archive.book.commit(archive.manifest, [one, apart])
    assert Archive(bucket, PLACE).manifest.entries == (one,)


def test_of_two_writers_of_a_version_one_is_refused(bucket: Bucket) -> None:
    """COLD-3"""
    add(Archive(bucket, PLACE), 0)
    book = ManifestBook(bucket, f"{FOLDER}/manifest")
    seen = book.newest()
    other = book.newest()
    book.commit(seen, seen.entries)
    with pytest.raises(Outrun):
        book.commit(other, ())
    assert book.newest().entries == seen.entries


def test_a_writer_that_has_slept_for_long_is_refused(bucket: Bucket) -> None:
    """COLD-3"""
    book = ManifestBook(bucket, "m")
    sleeper = book.commit(Manifest(), ())
    manifest = sleeper
    for _ in range(COLD_MANIFESTS_KEPT + 5):
        manifest = book.commit(manifest, ())
    assert len(bucket.names("m")) == COLD_MANIFESTS_KEPT
    with pytest.raises(Outrun):
        book.commit(sleeper, ())
    assert book.newest() == manifest
    assert len(bucket.names("m")) == COLD_MANIFESTS_KEPT


def test_two_who_add_the_same(bucket: Bucket) -> None:
    """COLD-6"""
    one, two = Archive(bucket, PLACE), Archive(bucket, PLACE)
    for number in range(4):
        for archive in (one, two) if number % 2 else (two, one):
            add(archive, number)
    assert one.manifest == two.manifest
    assert payloads(one) == [b"payload %d" % seq for seq in range(1, 41)]
    assert len(bucket.names(f"{FOLDER}/data")) == 4


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Killed, lambda: ColdError("the store is down")])
def test_every_end_in_the_middle(error: Callable[[], BaseException], after: bool) -> None:
    """COLD-5, COLD-6: whatever call is the last one, the next process brings it to an end."""
    for at in range(1, 100):
        bucket = open_bucket("memory:///")
        mortal = Mortal(bucket, at, after, error)
        try:
            archive = Archive(mortal, PLACE)
            for number in range(5):
                add(archive, number)
            archive.trim(25)
        except (Killed, ColdError):
            there = Archive(bucket, PLACE)
            assert all(before.end_seq == one.start_seq for before, one in pairwise(there.manifest.entries))
            payloads(there)
        again = Archive(bucket, PLACE)
        for number in range(5):
            add(again, number)
        again.trim(25)
        assert payloads(again) == [b"payload %d" % seq for seq in range(21, 51)]
        if mortal.left > 0:
            assert at > 10
            return
        assert [entry.name for entry in again.manifest.entries] == bucket.names(f"{FOLDER}/data")
    raise AssertionError("there is no end to the calls")


@pytest.mark.parametrize("left", [b"", b"nonsense", None])
def test_what_an_earlier_attempt_has_left_is_looked_into(bucket: Bucket, left: bytes | None) -> None:
    """COLD-6"""
    if left is None:
        add(Archive(other := open_bucket("memory:///"), Place("$G", "OTHER", bytes(16))), 0)
        left = other.get(other.names("$G/OTHER/" + bytes(16).hex() + "/data")[0])
    bucket.put_new(PLACE.data_name(1, 11), left)
    archive = Archive(bucket, PLACE)
    add(archive, 0)
    assert payloads(archive) == [b"payload %d" % seq for seq in range(1, 11)]


def test_an_object_that_was_exchanged_is_told(bucket: Bucket) -> None:
    archive = Archive(bucket, PLACE)
    add(archive, 0)
    add(archive, 1)
    first, second = archive.manifest.entries
    bucket.replace(first.name, bucket.get(second.name))
    with pytest.raises(ColdError, match="is not what the manifest says of it"):
        archive.read(first)


def test_a_manifest_that_is_none_is_told(bucket: Bucket) -> None:
    bucket.put_new(f"{FOLDER}/manifest/{1:012d}.json", b"{}")
    with pytest.raises(ColdError, match="no manifest of the cold tier"):
        Archive(bucket, PLACE)
