"""The cold history of one log in an object store: stretch after stretch is put there, and read again.

    archive = Archive(bucket, Place("$G", "ORDERS", log_id))
    archive.add(start_seq, end_seq, columns)      the next stretch; once is enough, and twice does no harm
    archive.manifest                              what is there
    archive.read(entry) -> Arrow table
    archive.trim(start_seq)                       what ends before is forgotten, and removed

Promises
  * COLD-5: when `add` has returned, the stretch can be read from the store, and only then may the local copy go.
  * COLD-6: however often the process ends in the middle, and whoever else adds the same, in the end every stretch is in
    the manifest once, and the folder has one file of it: names follow from the stretch, and a file that nobody has
    named yet is looked into before it is believed.
  * What fails leaves the manifest as it was.

Layout, below the URL of the bucket:

    <account>/<stream>/<log id>/data/<start>-<end>.parquet       both sequences with 20 digits
    <account>/<stream>/<log id>/manifest/<version>.json

The log's id keeps a stream apart from one of the same name that was deleted. One archive belongs to one thread at a
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow.compute as pc

from tidelog.base.errors import ColdError
from tidelog.cold.bucket import Bucket
from tidelog.cold.manifest import Entry, Manifest, ManifestBook, Outrun
from tidelog.cold.table import About, read_table, write_table

if TYPE_CHECKING:
    from tidelog.log.columns import Columns

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Place:
    account: str
    stream: str
    log_id: bytes

    @property
    def folder(self) -> str:
        return f"{quote(self.account, safe='$')}/{quote(self.stream, safe='')}/{self.log_id.hex()}"

    def data_name(self, start_seq: int, end_seq: int) -> str:
        return f"{self.folder}/data/{start_seq:020d}-{end_seq:020d}.parquet"

    def about(self, start_seq: int, end_seq: int) -> About:
        return About(
            account=self.account,
            stream=self.stream,
            log_id=self.log_id.hex(),
            start_seq=start_seq,
            end_seq=end_seq,
        )


class Archive:
    def __init__(self, bucket: Bucket, place: Place) -> None:
        self.bucket = bucket
        self.place = place
        self.book = ManifestBook(bucket, f"{place.folder}/manifest")
        self.manifest = self.book.newest()

    def reaches(self, end_seq: int) -> bool:
        """Whether everything in front of `end_seq` is here, or was and is trimmed."""
        return bool(self.manifest.entries) and end_seq <= self.manifest.end_seq

    def add(self, start_seq: int, end_seq: int, rows: Columns | Any) -> Manifest:
        """Put the next stretch into the store: columns, or an Arrow table with the schema of the files."""
        while not self.reaches(end_seq):
            if self.manifest.entries and self.manifest.end_seq != start_seq:
                raise ColdError(
                    f"{self.place.folder}: [{start_seq}, {end_seq}) does not follow what ends before"
                    f" {self.manifest.end_seq}"
                )
            entry = self._put(start_seq, end_seq, rows)
            try:
                self.manifest = self.book.commit(self.manifest, (*self.manifest.entries, entry))
            except Outrun:
                self.manifest = self.book.newest()
        return self.manifest

    def _put(self, start_seq: int, end_seq: int, rows: Columns | Any) -> Entry:
        name, about = self.place.data_name(start_seq, end_seq), self.place.about(start_seq, end_seq)
        data = write_table(rows, about)
        if not self.bucket.put_new(name, data):
            there = self._left_behind(name, about)
            if there is not None:
                return there
            self.bucket.replace(name, data)
        return entry_of(name, about, data)

    def _left_behind(self, name: str, about: About) -> Entry | None:
        """The file of an attempt that did not come to its end; None: it is of no use."""
        data = self.bucket.get(name)
        try:
            said, _ = read_table(data)
        except ColdError:
            return None
        return entry_of(name, about, data) if said == about else None

    def read(self, entry: Entry) -> Any:
        """The rows of one object."""
        about, table = read_table(self.bucket.get(entry.name))
        if about != self.place.about(entry.start_seq, entry.end_seq) or table.num_rows != entry.messages:
            raise ColdError(f"{entry.name} is not what the manifest says of it")
        return table

    def trim(self, start_seq: int) -> Manifest:
        """Forget what ends before `start_seq`; the last object stays, as it says how far the history goes."""
        while True:
            *before, last = self.manifest.entries or (None,)
            kept = [entry for entry in before if entry is not None and entry.end_seq > start_seq]
            if last is None or len(kept) == len(before):
                break
            try:
                self.manifest = self.book.commit(self.manifest, (*kept, last))
            except Outrun:
                self.manifest = self.book.newest()
        self._sweep()
        return self.manifest

    def _sweep(self) -> None:
        """Remove the files of what is forgotten, also those that an earlier attempt has left."""
        for name in self.bucket.names(f"{self.place.folder}/data"):
            end = name.rpartition("-")[2].removesuffix(".parquet")
            if end.isdecimal() and int(end) <= self.manifest.start_seq:
                self.bucket.remove(name)


def entry_of(name: str, about: About, data: bytes) -> Entry:
    _, table = read_table(data)
    times = (0, 0)
    if table.num_rows:
        micros = table["ts"].cast("int64")
        found = pc.min_max(pc.add(pc.multiply(micros, NS_PER_US), table["ts_ns"].cast("int64"))).as_py()
        times = found["min"], found["max"]
    return Entry(
        name=name,
        start_seq=about.start_seq,
        end_seq=about.end_seq,
        messages=table.num_rows,
        size=len(data),
        first_ts_ns=times[0],
        last_ts_ns=times[1],
    )
