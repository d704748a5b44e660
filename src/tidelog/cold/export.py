"""A range of a stream into files: as an archive of the cold tier, or as plain files in a folder.

    export = Export(ColdTarget(archive), start_seq)       or PlainTarget(bucket, place, filters)
    export.take(block, last_seq)                          blocks of a bulk read, one after the other
    export.finish(end_seq)

Promises
  * Files have every row that was taken, once and in order, and nothing else; they follow each other without a gap.
  * An export that ended in the middle is gone on with: `next_seq` of a target says from where. Blocks need not come as
    they came before.
  * Plain files of other filters or of another stream are not added to.

How it works: blocks are collected until there are enough for a file. A file's name says from where to where it has
all messages, so that what is there already says where to go on.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from tidelog.base.errors import ColdError
from tidelog.base.limits import COLD_EXPORT_SIZE
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import Bucket
from tidelog.cold.table import SCHEMA, read_about, read_metadata, write_table

FILTERS = "filters"


class Target(Protocol):
    @property
    def start_seq(self) -> int:
        """Where it begins; 0: nothing is there."""

    @property
    def next_seq(self) -> int:
        """The first sequence that is not there yet; 0: nothing is."""

    def put(self, start_seq: int, end_seq: int, rows: Any) -> int:
        """Write a file with all of [start_seq, end_seq). Its size."""


class ColdTarget:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    @property
    def start_seq(self) -> int:
        return self.archive.manifest.start_seq

    @property
    def next_seq(self) -> int:
        return self.archive.manifest.end_seq

    def put(self, start_seq: int, end_seq: int, rows: Any) -> int:
        found = self.archive.add(start_seq, end_seq, rows).find(start_seq)
        return found.size if found is not None else 0


class PlainTarget:
    """`<start>-<end>.parquet` straight in the folder; raises ColdError where another export has written."""

    def __init__(self, bucket: Bucket, place: Place, filters: Sequence[str] = ()) -> None:
        self.bucket = bucket
        self.place = place
        self.filters = ",".join(filters)
        stretches = sorted(filter(None, map(stretch_of, bucket.names(""))))
        self.start_seq = stretches[0][0] if stretches else 0
        self.next_seq = stretches[-1][1] if stretches else 0
        if stretches:
            self._recognise(file_name(*stretches[-1]))

    def _recognise(self, name: str) -> None:
        metadata = read_metadata(self.bucket.get(name))
        about = read_about(metadata)
        filters = metadata.get(f"tidelog.{FILTERS}".encode(), b"").decode()
        ours = self.place.about(about.start_seq, about.end_seq)
        if about != ours:
            raise ColdError(
                f"{name} is of the stream {about.stream!r} (log {about.log_id}), not of {ours.stream!r}"
                f" (log {ours.log_id}): name another folder"
            )
        if filters != self.filters:
            raise ColdError(
                f"{name} was exported with the filters {filters!r}, not {self.filters!r}: name another folder"
            )

    def put(self, start_seq: int, end_seq: int, rows: Any) -> int:
        data = write_table(rows, self.place.about(start_seq, end_seq), {FILTERS: self.filters})
        self.bucket.replace(file_name(start_seq, end_seq), data)
        self.start_seq = self.start_seq or start_seq
        self.next_seq = end_seq
        return len(data)


def file_name(start_seq: int, end_seq: int) -> str:
    return f"{start_seq:020d}-{end_seq:020d}.parquet"


def stretch_of(name: str) -> tuple[int, int] | None:
    """From where to where a file has everything, by its name."""
    start, _, end = name.removesuffix(".parquet").partition("-")
    if not (start.isdecimal() and end.isdecimal()):
        return None
    found = int(start), int(end)
    return found if file_name(*found) == name else None


class Export:
    """`messages`, `size` and `files` are of what this one has written."""

    def __init__(self, target: Target, start_seq: int, file_size: int = COLD_EXPORT_SIZE) -> None:
        self.messages = 0
        self.size = 0
        self.files = 0
        self._target = target
        self._start_seq = start_seq
        self._file_size = file_size
        self._tables: list[Any] = []
        self._waiting = 0

    def take(self, block: bytes, last_seq: int) -> None:
        """An Arrow IPC stream, which has all messages that there are up to `last_seq`."""
        table = pa.ipc.open_stream(block).read_all()
        self._tables.append(table)
        self._waiting += table.nbytes
        if self._waiting >= self._file_size:
            self._write(last_seq + 1)

    def finish(self, end_seq: int) -> None:
        """All has come; `end_seq` is where the range ends."""
        if self._start_seq < end_seq:
            self._write(end_seq)

    def _write(self, end_seq: int) -> None:
        table = pa.concat_tables(self._tables) if self._tables else SCHEMA.empty_table()
        self.size += self._target.put(self._start_seq, end_seq, table)
        self.messages += table.num_rows
        self.files += 1
        self._start_seq = end_seq
        self._tables, self._waiting = [], 0
