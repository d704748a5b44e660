"""Exports: every row once whatever is interrupted, and nothing added to what belongs to something else."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.base.errors import ColdError
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import Bucket, open_bucket
from tidelog.cold.export import ColdTarget, Export, PlainTarget, file_name, stretch_of
from tidelog.cold.table import SCHEMA, to_arrow
from unit.cold.test_archive import PLACE, columns


def block(start_seq: int, end_seq: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_table(to_arrow(columns(start_seq, end_seq)))
    return bytes(sink.getvalue())


@pytest.fixture
def bucket() -> Bucket:
    return open_bucket("memory:///")


def rows(bucket: Bucket) -> list[int]:
    found: list[int] = []
    for name in bucket.names(""):
        if name.endswith(".parquet"):
            found += pq.read_table(pa.BufferReader(bucket.get(name)))["seq"].to_pylist()
    return found


@pytest.mark.parametrize("cold", [True, False])
def test_an_export_that_was_interrupted_is_gone_on_with(bucket: Bucket, cold: bool) -> None:
    def target() -> ColdTarget | PlainTarget:
        return ColdTarget(Archive(bucket, PLACE)) if cold else PlainTarget(bucket, PLACE)

    assert (target().start_seq, target().next_seq) == (0, 0)
    begun = Export(target(), 1, file_size=1)
    begun.take(block(1, 10), 9)
    # Behind a gap of deleted messages.
    begun.take(block(15, 20), 19)
    assert (begun.messages, begun.files) == (14, 2)
    assert (target().start_seq, target().next_seq) == (1, 20)
    again = Export(target(), 20, file_size=1 << 30)
    again.take(block(20, 22), 21)
    again.take(block(22, 25), 24)
    assert again.files == 0
    again.finish(31)
    assert (again.messages, again.files, target().next_seq) == (5, 1, 31)
    assert again.size > 0
    assert rows(bucket) == [*range(1, 10), *range(15, 25)]
    Export(target(), 31).finish(31)
    assert target().next_seq == 31


def test_a_range_without_messages_is_a_file_too(bucket: Bucket) -> None:
    """Otherwise nobody could tell that it was looked at."""
    Export(ColdTarget(Archive(bucket, PLACE)), 5).finish(9)
    assert Archive(bucket, PLACE).manifest.end_seq == 9
    assert rows(bucket) == []


def test_files_of_another_export_are_not_added_to(bucket: Bucket) -> None:
    export = Export(PlainTarget(bucket, PLACE, ["a.>", "b"]), 1)
    export.take(block(1, 10), 9)
    export.finish(10)
    assert PlainTarget(bucket, PLACE, ["a.>", "b"]).next_seq == 10
    with pytest.raises(ColdError, match=r"exported with the filters 'a.>,b', not ''"):
        PlainTarget(bucket, PLACE)
    with pytest.raises(ColdError, match="is of the stream 'A B/1'"):
        PlainTarget(bucket, Place("$G", "OTHER", bytes(16)), ["a.>", "b"])


@pytest.mark.parametrize("name", ["x.parquet", "1-2.parquet", f"{1:020d}-{2:020d}.json", "a/b", f"{1:020d}"])
def test_other_files_are_left_alone(bucket: Bucket, name: str) -> None:
    bucket.put_new(name, b"")
    assert PlainTarget(bucket, PLACE).next_seq == 0


def test_names_say_from_where_to_where() -> None:
    assert stretch_of(file_name(5, 1 << 60)) == (5, 1 << 60)
    assert file_name(5, 10) < file_name(10, 11)
