"""The histories that are in an object store: which there are, and where that of a stream is.

    history = find_history(bucket, "ORDERS")                 raises ColdError if there is none, or more than one
    history = History(bucket.url, place, manifest)           what a manifest said at one moment: pinned

A history is small and can be sent to whoever reads its files.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from tidelog.base.errors import ColdError
from tidelog.cold.archive import Place
from tidelog.cold.bucket import StoreBucket
from tidelog.cold.manifest import Entry, Manifest, ManifestBook

ID_SIZE = 16


@dataclass(frozen=True, slots=True)
class History:
    url: str
    place: Place
    manifest: Manifest

    @property
    def start_seq(self) -> int:
        return self.manifest.start_seq

    @property
    def end_seq(self) -> int:
        return self.manifest.end_seq

    def within(self, start_seq: int, end_seq: int) -> tuple[Entry, ...]:
        """The objects that have something of [start_seq, end_seq)."""
        return tuple(
            entry
            for entry in self.manifest.entries
            if entry.start_seq < end_seq and start_seq < entry.end_seq
        )


def read_history(bucket: StoreBucket, place: Place) -> History:
    """As it is now; without entries if there is none."""
    return History(bucket.url, place, ManifestBook(bucket, f"{place.folder}/manifest").newest())


def places(bucket: StoreBucket, stream: str = "") -> list[Place]:
    """All histories, or those of one stream."""
    found = []
    for account in bucket.folders(""):
        for name in bucket.folders(account):
            said = unquote(name.rpartition("/")[2])
            if not stream or said == stream:
                found += [place for log in bucket.folders(name) if (place := place_of(log))]
    return found


def place_of(folder: str) -> Place | None:
    """`<account>/<stream>/<log id>`; None: it is no such folder."""
    account, _, rest = folder.partition("/")
    stream, _, log_id = rest.partition("/")
    try:
        place = Place(unquote(account), unquote(stream), bytes.fromhex(log_id))
    except ValueError:
        return None
    return place if len(place.log_id) == ID_SIZE and place.folder == folder else None


def find_history(bucket: StoreBucket, stream: str, folder: str = "") -> History:
    """That of a stream; `folder` tells which, where there are several of its name."""
    found = places(bucket, stream)
    chosen = [place for place in found if not folder or place.folder == folder]
    if not chosen:
        raise ColdError(f"{bucket.url} has no history of {folder or stream!r}")
    if len(chosen) > 1:
        folders = ", ".join(place.folder for place in chosen)
        raise ColdError(f"{bucket.url} has several histories of {stream!r}: {folders}")
    return read_history(bucket, chosen[0])
