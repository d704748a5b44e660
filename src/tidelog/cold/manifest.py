"""Which objects are the cold history of one log: a document of numbered versions, each of which is written once.

    book = ManifestBook(bucket, "cold/$G/ORDERS/5e1f.../manifest")
    manifest = book.newest()
    manifest = book.commit(manifest, entries)       raises Outrun if somebody else was quicker

Promises
  * COLD-3: a version is the one before it with a change that its writer has seen: of two writers who start from the
    same version, one is refused. This asks of a store no more than `put_new` does.
  * COLD-4: the entries of a manifest follow each other without a gap and without an overlap; nothing else is written.
  * An object that no manifest names is no part of the history.

Old versions are removed, but for the last few. A writer that slept through that many could find its number free again;
so what it wrote counts only if no higher number is there afterwards.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tidelog.base.errors import ColdError, ColdMissing
from tidelog.base.limits import COLD_MANIFESTS_KEPT
from tidelog.cold.bucket import Bucket

FORMAT = 1


class Outrun(ColdError):
    """Somebody else has written the next version; read it before you go on."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One object, which has every message of [start_seq, end_seq) that was not deleted when it was made."""

    name: str
    start_seq: int
    end_seq: int
    messages: int
    size: int
    first_ts_ns: int
    last_ts_ns: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 0
    entries: tuple[Entry, ...] = ()
    format: int = FORMAT

    @property
    def start_seq(self) -> int:
        return self.entries[0].start_seq if self.entries else 0

    @property
    def end_seq(self) -> int:
        """One behind the last sequence; 0: nothing is here."""
        return self.entries[-1].end_seq if self.entries else 0

    def find(self, seq: int) -> Entry | None:
        """The object in whose stretch `seq` is."""
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].end_seq <= seq:
                low = middle + 1
            else:
                high = middle
        found = self.entries[low] if low < len(self.entries) else None
        return found if found is not None and found.start_seq <= seq else None


class ManifestBook:
    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix

    def newest(self) -> Manifest:
        """The one in force; an empty one of version 0 before the first."""
        versions = self._versions()
        return self._read(versions[-1]) if versions else Manifest()

    def kept(self) -> dict[str, Manifest]:
        """All versions that are still there, by the names of their objects, the oldest first."""
        found = {}
        for version in self._versions():
            try:
                found[self._name(version)] = self._read(version)
            except ColdMissing:
                continue  # removed meanwhile, as the oldest are
        return found

    def commit(self, seen: Manifest, entries: Sequence[Entry]) -> Manifest:
        """Make `entries` the history, if `seen` still is what is in force."""
        check(entries)
        wanted = Manifest(version=seen.version + 1, entries=tuple(entries))
        name = self._name(wanted.version)
        if not self.bucket.put_new(name, msgspec.json.format(msgspec.json.encode(wanted), indent=1)):
            raise Outrun(f"{name} is there already")
        versions = self._versions()
        if versions[-1] > wanted.version:
            self.bucket.remove(name)
            raise Outrun(f"{name} is older than what is in force")
        for version in versions[:-COLD_MANIFESTS_KEPT]:
            self.bucket.remove(self._name(version))
        return wanted

    def _name(self, version: int) -> str:
        return f"{self.prefix}/{version:012d}.json"

    def _versions(self) -> list[int]:
        names = self.bucket.names(self.prefix)
        found = [name.rpartition("/")[2].removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(number) for number in found if number.isdecimal())

    def _read(self, version: int) -> Manifest:
        name = self._name(version)
        try:
            manifest = msgspec.json.decode(self.bucket.get(name), type=Manifest)
        except msgspec.MsgspecError as error:
            raise ColdError(f"{name} is no manifest of the cold tier: {error}") from None
        if manifest.format != FORMAT or manifest.version != version:
            raise ColdError(f"{name} is no manifest of the cold tier, or of another format than {FORMAT}")
        check(manifest.entries)
        return manifest


def check(entries: Sequence[Entry]) -> None:
    """COLD-4"""
    for entry in entries:
        if not 0 < entry.start_seq < entry.end_seq:
            raise ColdError(f"{entry.name} has no stretch: [{entry.start_seq}, {entry.end_seq})")
    for before, after in pairwise(entries):
        if before.end_seq != after.start_seq:
            raise ColdError(
                f"{after.name} begins with {after.start_seq}, and {before.name} ends before {before.end_seq}"
            )
