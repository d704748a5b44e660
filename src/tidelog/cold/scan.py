"""Rows of cold files, row group by row group, as Arrow record batches: what a bulk reader wants.

    for group in groups(bucket, entry, start_seq, end_seq):
        group.start_seq, group.end_seq, group.count        a stretch of it, and how many rows the file has there
        for batch in group.batches(["seq", "payload"]): ...

Promises
  * The stretches follow each other, and what of [start_seq, end_seq) is in none of them has no rows; the rows are those
    of the stretch, in order.
  * Nothing is read that is not asked for: row groups outside of the range and columns that were not named stay where
    they are, and so do payloads of rows that a matcher does not want, if a whole row group has none.
  * A batch has about `COLD_BATCH_SIZE` bytes, or one row that is larger.
  * A file that is gone is a `ColdMissing`, one that is damaged or another a `ColdError`.

What it does not do: check more than Parquet does and that a file says of itself what the manifest says; `Archive.read`
checks all of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.base.errors import ColdError
from tidelog.base.limits import COLD_BATCH_SIZE, COLD_ROW_GROUP_MESSAGES
from tidelog.cold.bucket import StoreBucket
from tidelog.cold.manifest import Entry
from tidelog.cold.table import read_about

SEQ = 0


class Matcher(Protocol):
    def wanted(self, subjects: Any) -> Any:
        """Of an array of subjects, which: an array of booleans."""


def groups(bucket: StoreBucket, entry: Entry, start_seq: int, end_seq: int) -> "Iterator[Group]":
    """Those of one file that have something of the range, which the file's stretch is cut to."""
    start_seq, end_seq = max(start_seq, entry.start_seq), min(end_seq, entry.end_seq)
    if start_seq >= end_seq:
        return
    with _told(entry.name):
        source = bucket.source(entry.name)
        here = isinstance(source, str)
        file = pq.ParquetFile(source, memory_map=here, pre_buffer=not here, page_checksum_verification=True)
        about = read_about(file.schema_arrow.metadata or {})
        if (about.start_seq, about.end_seq, file.metadata.num_rows) != (
            entry.start_seq,
            entry.end_seq,
            entry.messages,
        ):
            raise ColdError(f"{entry.name} is not what the manifest says of it")
        bounds = [_bounds(file, number) for number in range(file.num_row_groups)]
    at = start_seq
    inside = [number for number, (first, last) in enumerate(bounds) if first < end_seq and last >= start_seq]
    for number in inside:
        end = end_seq if number == inside[-1] else bounds[number][1] + 1
        yield Group(entry.name, file, number, bounds[number], at, end)
        at = end


def _bounds(file: Any, number: int) -> tuple[int, int]:
    """First and last sequence of a row group; of an empty one, none."""
    group = file.metadata.row_group(number)
    if not group.num_rows:
        return 1, 0
    statistics = group.column(SEQ).statistics
    if statistics is None or not statistics.has_min_max:
        raise ColdError("a row group does not say which sequences it has")
    return statistics.min, statistics.max


class Group:
    """The rows of [start_seq, end_seq), which are of one row group."""

    def __init__(
        self, name: str, file: Any, number: int, bounds: tuple[int, int], start_seq: int, end_seq: int
    ) -> None:
        self.name = name
        self.start_seq = start_seq
        self.end_seq = end_seq
        self._file = file
        self._number = number
        self._whole = start_seq <= bounds[0] and bounds[1] < end_seq

    @cached_property
    def count(self) -> int:
        group = self._file.metadata.row_group(self._number)
        if self._whole:
            return int(group.num_rows)
        return sum(int(pc.sum(self._inside(batch)).as_py() or 0) for batch in self._read(["seq"]))

    def batches(self, columns: Sequence[str], matcher: Matcher | None = None) -> Iterator[Any]:
        """`columns` has `seq`, and `subject` where there is a matcher."""
        if matcher is not None and not self._has_some(matcher):
            return
        for batch in self._read(columns):
            part = batch if self._whole else self._cut(batch)
            if matcher is not None and part.num_rows:
                part = part.filter(matcher.wanted(part.column("subject")))
            if part.num_rows:
                yield part

    def _has_some(self, matcher: Matcher) -> bool:
        """Subjects are small, and payloads are not."""
        for batch in self._read(["seq", "subject"]):
            part = self._cut(batch)
            if part.num_rows and pc.any(matcher.wanted(part.column("subject"))).as_py():
                return True
        return False

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        group = self._file.metadata.row_group(self._number)
        rows = COLD_BATCH_SIZE * group.num_rows // max(1, group.total_byte_size)
        batches = self._file.iter_batches(
            batch_size=min(max(1, rows), COLD_ROW_GROUP_MESSAGES),
            row_groups=[self._number],
            columns=list(columns),
            use_threads=False,
        )
        while True:
            with _told(self.name):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _inside(self, batch: Any) -> Any:
        seq = batch.column("seq")
        return pc.and_(pc.greater_equal(seq, self.start_seq), pc.less(seq, self.end_seq))

    def _cut(self, batch: Any) -> Any:
        """Without copying: rows are in the order of their sequences."""
        seq = batch.column("seq")
        before = pc.sum(pc.less(seq, self.start_seq)).as_py() or 0
        upto = pc.sum(pc.less(seq, self.end_seq)).as_py() or 0
        return batch.slice(before, upto - before)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What goes wrong with a file, with its name."""
    try:
        yield
    except ColdError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ColdError(f"{name} cannot be read: {str(error).partition(chr(10))[0]}") from error


def first_at(bucket: StoreBucket, entries: Sequence[Entry], ts_ns: int) -> int:
    """The first sequence at or after a time; 0: there is none. Times of rows are rounded down to microseconds here."""
    time = pa.scalar(ts_ns // 1000, pa.int64())
    for entry in entries:
        if not entry.messages or entry.last_ts_ns < ts_ns:
            continue
        for group in groups(bucket, entry, entry.start_seq, entry.end_seq):
            for batch in group.batches(["seq", "ts"]):
                found = pc.index(pc.greater_equal(batch.column("ts").cast(pa.int64()), time), True).as_py()
                if found >= 0:
                    return int(batch.column("seq")[found].as_py())
    return 0
