"""The cold tier as logs know it (`tidelog.log.depot`): archives in one bucket, and threads that may wait for it.

    warehouse = Warehouse(url, sender, fetcher, bytes_per_second)
    depot = warehouse.depot("$G", "ORDERS")
    history = depot.history(log_id)              asks nobody yet

Promises
  * COLD-10: what is told as kept has been put there by this process, or is the same as what is there, byte for byte.
  * Whoever merges files of an archive meanwhile does no harm: what is wanted is looked up by its sequences, in the
    newest manifest if that which is known does not lead to it.

The bucket is opened by the first call that needs it, in its thread: pyarrow and obstore take their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.base.errors import ColdError, ColdForeign, ColdMissing, ConfigError
from tidelog.base.work import Worker
from tidelog.log.columns import Columns
from tidelog.log.depot import Throttle

if TYPE_CHECKING:
    from tidelog.cold.archive import Archive
    from tidelog.cold.bucket import Bucket
    from tidelog.cold.manifest import Entry


class Noting:
    """A bucket that remembers what was put into it."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.mine: dict[str, int] = {}  # names, and sizes

    def put_new(self, name: str, data: bytes) -> bool:
        new = self.bucket.put_new(name, data)
        if new:
            self.mine[name] = len(data)
        return new

    def replace(self, name: str, data: bytes) -> None:
        self.bucket.replace(name, data)
        self.mine[name] = len(data)

    def get(self, name: str) -> bytes:
        return self.bucket.get(name)

    def names(self, prefix: str) -> list[str]:
        return self.bucket.names(prefix)

    def remove(self, name: str) -> None:
        self.bucket.remove(name)


class Warehouse:
    def __init__(self, url: str, sender: Worker, fetcher: Worker, bytes_per_second: int = 0) -> None:
        self.url = url
        self.sender = sender
        self.fetcher = fetcher
        self.throttle = Throttle(bytes_per_second)
        self._bucket: Bucket | None = None

    def bucket(self) -> Bucket:
        """Raises ColdError while it cannot be opened."""
        if self._bucket is None:
            try:
                from tidelog.cold.bucket import open_bucket

                self._bucket = open_bucket(self.url)
            except (ConfigError, ImportError) as error:
                raise ColdError(str(error)) from error
        return self._bucket

    def set_bucket(self, bucket: Bucket) -> None:
        """Use this one instead of the URL's."""
        self._bucket = bucket

    def depot(self, account: str, stream: str) -> StreamDepot:
        return StreamDepot(self, account, stream)


class StreamDepot:
    def __init__(self, warehouse: Warehouse, account: str, stream: str) -> None:
        self.warehouse = warehouse
        self.url = warehouse.url
        self.account = account
        self.stream = stream
        self.sender = warehouse.sender
        self.fetcher = warehouse.fetcher
        self.throttle = warehouse.throttle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamDepot) and (
            (self.warehouse, self.account, self.stream) == (other.warehouse, other.account, other.stream)
        )

    def __hash__(self) -> int:
        return hash((self.account, self.stream))

    def history(self, log_id: bytes) -> ArchiveHistory:
        return ArchiveHistory(self, log_id)


class ArchiveHistory:
    """One archive. Reading has a view of its own, as it goes on beside sending."""

    def __init__(self, depot: StreamDepot, log_id: bytes) -> None:
        self.depot = depot
        self.log_id = log_id
        self._noting: Noting | None = None
        self._archive: Archive | None = None
        self._view: Archive | None = None  # for reading, as it was seen last

    def _open(self, bucket: Bucket) -> Archive:
        from tidelog.cold.archive import Archive, Place

        place = Place(self.depot.account, self.depot.stream, self.log_id)
        return Archive(bucket, place)

    def _sent(self) -> Archive:
        """As this process knows it, which writes to it."""
        if self._archive is None:
            self._noting = Noting(self.depot.warehouse.bucket())
            self._archive = self._open(self._noting)
        return self._archive

    def end_seq(self) -> int:
        self._archive = None
        return self._sent().manifest.end_seq

    def add(self, start_seq: int, end_seq: int, columns: Columns) -> int:
        archive = self._sent()
        assert self._noting is not None
        self._noting.mine.clear()
        manifest = archive.add(start_seq, end_seq, columns)
        names = [entry.name for entry in overlapping(manifest.entries, start_seq, end_seq)]
        if any(name not in self._noting.mine for name in names):
            self.check(start_seq, end_seq, columns)
        return sum(self._noting.mine.values())

    def check(self, start_seq: int, end_seq: int, columns: Columns) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        from tidelog.cold.table import to_arrow

        archive = self._sent()
        archive.manifest = archive.book.newest()
        entries = overlapping(archive.manifest.entries, start_seq, end_seq)
        wanted = to_arrow(columns)
        bucket = self.depot.warehouse.bucket()
        parts = [part_of(bucket, archive, entry, start_seq, end_seq) for entry in entries]
        there = pa.concat_tables(parts) if parts else wanted.slice(0, 0)
        # It may have more: what was deleted here since.
        there = there.filter(pc.is_in(there["seq"], value_set=wanted["seq"].combine_chunks()))
        if not there.combine_chunks().equals(wanted.combine_chunks()):
            raise ColdForeign(
                f"{archive.place.folder} has other messages from {start_seq} to {end_seq - 1} than this log:"
                " somebody with a copy of it has written there; nothing of this log goes there any more"
            )

    def _ours(self, end_seq: int) -> Archive:
        """As it is now, if nobody else has gone on with it."""
        archive = self._sent()
        archive.manifest = archive.book.newest()
        if archive.manifest.end_seq != end_seq:
            raise ColdError(
                f"{archive.place.folder} ends before {archive.manifest.end_seq}, and this log has left it at {end_seq}:"
                " somebody else has written there, and nothing is removed before that is looked into"
            )
        return archive

    def rows(self, start_seq: int, end_seq: int) -> list[Columns]:
        known = self._view
        if known is not None and known.manifest.end_seq >= end_seq:
            try:
                return read_rows(known, start_seq, end_seq)
            except ColdMissing:
                # Somebody has merged some files, and removed them.
                self._view = None
        archive = self._view = self._open(self.depot.warehouse.bucket())
        if archive.manifest.end_seq < end_seq:
            raise ColdMissing(f"{archive.place.folder} does not go up to {end_seq - 1}")
        return read_rows(archive, start_seq, end_seq)

    def trim(self, start_seq: int, before_ns: int | None, end_seq: int) -> None:
        archive = self._ours(end_seq)
        if before_ns is not None:
            kept = [entry for entry in archive.manifest.entries if entry.last_ts_ns >= before_ns]
            start_seq = min(start_seq, kept[0].start_seq) if kept else start_seq
        archive.trim(start_seq)

    def remove(self, end_seq: int) -> None:
        archive = self._ours(end_seq)
        for name in archive.bucket.names(archive.place.folder):
            archive.bucket.remove(name)
        self._archive = None


def overlapping(entries: tuple[Entry, ...], start_seq: int, end_seq: int) -> list[Entry]:
    return [entry for entry in entries if entry.start_seq < end_seq and entry.end_seq > start_seq]


def read_rows(archive: Archive, start_seq: int, end_seq: int) -> list[Columns]:
    from tidelog.cold.table import to_columns

    entries = overlapping(archive.manifest.entries, start_seq, end_seq)
    return [to_columns(part_of(archive.bucket, archive, entry, start_seq, end_seq)) for entry in entries]


def part_of(bucket: Bucket, archive: Archive, entry: Entry, start_seq: int, end_seq: int) -> Any:
    """What a file has of a stretch, and perhaps more; of one that was merged from many, not all of it is read."""
    import pyarrow as pa

    from tidelog.cold.bucket import StoreBucket
    from tidelog.cold.scan import groups
    from tidelog.cold.table import SCHEMA

    if not isinstance(bucket, StoreBucket) or (start_seq <= entry.start_seq and entry.end_seq <= end_seq):
        return archive.read(entry)
    found = [
        batch for group in groups(bucket, entry, start_seq, end_seq) for batch in group.batches(SCHEMA.names)
    ]
    return pa.Table.from_batches(found).cast(SCHEMA) if found else SCHEMA.empty_table()
