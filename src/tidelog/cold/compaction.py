"""Small neighbouring files of a history become large ones.

    done = Compaction(bucket, place).run()
    done.merged, done.written, done.removed

Promises
  * COLD-11: whatever ends in the middle, and whoever adds, trims or compacts meanwhile, a manifest names files that
    follow each other and have the same rows as before; a file that is named is there.
  * What is replaced stays for `grace_s`, counted from when the manifest that named it was superseded, by the store's
    own clock. Readers who come later than that find the newest manifest by themselves.
  * A merged file is read back, and compared with what it replaces, before a manifest names it.

How it works: runs of neighbours that fit into one file are found in the newest manifest. Each is read, written under
the name of its stretch, and put into the next version in place of its parts, if they still are what they were; a
writer that was quicker only means to look again. Files that no protected version names are removed at the end.

What it does not do: split large files, or leave out what was deleted since.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.base.errors import ColdError, ColdMissing
from tidelog.base.limits import COLD_ATTEMPT_S, COLD_FILE_MESSAGES, COLD_FILE_SIZE, COLD_GRACE_S
from tidelog.cold.archive import Archive, Place, entry_of
from tidelog.cold.bucket import StoreBucket
from tidelog.cold.manifest import Entry, Manifest, Outrun
from tidelog.cold.table import read_table, write_table

Run = tuple[Entry, ...]
EVER = datetime.min.replace(tzinfo=UTC)
ATTEMPT = timedelta(seconds=COLD_ATTEMPT_S)


@dataclass(slots=True)
class Done:
    """Files that were merged, those made of them, their bytes, and files removed."""

    merged: int = 0
    written: int = 0
    size: int = 0
    removed: int = 0


class Compaction:
    def __init__(
        self,
        bucket: StoreBucket,
        place: Place,
        *,
        file_size: int = COLD_FILE_SIZE,
        grace_s: float = COLD_GRACE_S,
    ) -> None:
        self.archive = Archive(bucket, place)
        self._bucket = bucket
        self._place = place
        self._file_size = file_size
        self._grace = timedelta(seconds=grace_s)

    def run(self) -> Done:
        done = Done()
        for _ in self.steps(done):
            pass
        return done

    def steps(self, done: Done) -> Iterator[Done]:
        """The same file by file, for whoever shows how far it is."""
        for run in runs(self.archive.manifest.entries, self._file_size):
            entry = self._merge(run)
            if entry is not None:
                done.merged += len(run)
                done.written += 1
                done.size += entry.size
            yield done
        done.removed += self._sweep()

    def _merge(self, run: Run) -> Entry | None:
        """None: somebody else has taken the run apart meanwhile."""
        try:
            table = pa.concat_tables([self.archive.read(entry) for entry in run])
        except ColdMissing:
            return None  # if it is a hole, whoever reads there says so
        assert_in_order(run, table)
        name = self._place.data_name(run[0].start_seq, run[-1].end_seq)
        about = self._place.about(run[0].start_seq, run[-1].end_seq)
        data = write_table(table, about)
        if not self._bucket.put_new(name, data) and not self._is(name, table):
            # Left behind by somebody who did not come to the end, or being written by somebody who does the same.
            self._bucket.replace(name, data)
        if not self._is(name, table):
            raise ColdError(f"{name} does not have what was written there")
        entry = entry_of(name, about, data)
        return entry if self._swap(run, entry) else None

    def _is(self, name: str, table: Any) -> bool:
        try:
            _, there = read_table(self._bucket.get(name))
        except ColdError:
            return False
        return bool(there.equals(table))

    def _swap(self, run: Run, entry: Entry) -> bool:
        book = self.archive.book
        while True:
            entries = swapped(self.archive.manifest, run, entry)
            if entries is None:
                return False
            try:
                self.archive.manifest = book.commit(self.archive.manifest, entries)
            except Outrun:
                self.archive.manifest = book.newest()
            else:
                return True

    def _sweep(self) -> int:
        """Remove what no reader can hold any more. How many files that were."""
        now = self._bucket.now(f"{self._place.folder}/clock")
        kept = self.archive.book.kept()
        written = self._bucket.times(f"{self._place.folder}/manifest")
        there = self._bucket.times(f"{self._place.folder}/data")
        newest = self.archive.book.newest()
        in_use = names_in_use(kept, written, now - self._grace) | {entry.name for entry in newest.entries}
        once = names_in_use(kept, written, EVER)
        removed = 0
        for name, at in there.items():
            start = name.rpartition("/")[2].partition("-")[0]
            # What was never named may be about to be: it is behind the end, or young.
            waits = name not in once and at > now - max(self._grace, ATTEMPT)
            if name not in in_use and not waits and start.isdecimal() and int(start) < newest.end_seq:
                self._bucket.remove(name)
                removed += 1
        return removed


def runs(entries: Sequence[Entry], file_size: int) -> list[Run]:
    """Neighbours that become one file, at least two each."""
    found: list[list[Entry]] = [[]]
    for entry in entries:
        run = [*found[-1], entry]
        size, messages = sum(each.size for each in run), sum(each.messages for each in run)
        if size > file_size or messages > COLD_FILE_MESSAGES:
            found.append([])
        found[-1].append(entry)
    return [tuple(run) for run in found if len(run) > 1]


def assert_in_order(run: Run, table: Any) -> None:
    """COLD-4, and that the rows are what the stretches say."""
    for before, after in pairwise(run):
        if before.end_seq != after.start_seq:
            raise ColdError(f"{after.name} does not follow {before.name}")
    seq = table["seq"].combine_chunks()
    if not len(seq):
        return
    ascending = pc.all(pc.greater(seq[1:], seq[:-1])).as_py() if len(seq) > 1 else True
    if not ascending or seq[0].as_py() < run[0].start_seq or seq[-1].as_py() >= run[-1].end_seq:
        raise ColdError(f"the rows of {run[0].name} and those behind it are not in order")


def swapped(manifest: Manifest, run: Run, entry: Entry) -> tuple[Entry, ...] | None:
    """The entries with one in place of a run; None: the run is not there as it was."""
    entries = manifest.entries
    for at in range(len(entries) - len(run) + 1):
        if entries[at : at + len(run)] == run:
            return (*entries[:at], entry, *entries[at + len(run) :])
    return None


def names_in_use(kept: dict[str, Manifest], written: dict[str, datetime], since: datetime) -> set[str]:
    """What the newest manifest names, and what those name that were the newest later than `since`."""
    found: set[str] = set()
    names = list(kept)
    for name, successor in zip(names, [*names[1:], ""], strict=False):
        if not successor or written.get(successor, since) > since:
            found.update(entry.name for entry in kept[name].entries)
    return found
