"""What is on the disk beside the logs: which streams there are, and as what.

    <account>/streams/<stream>/meta.json            the configuration and when it was made
    <account>/streams/<stream>/log/                 its log (tidelog.log)
    <account>/streams/<stream>/consumers/<name>/    what consumers keep

Promises
  * A document is there as a whole or not at all, and durably when `write_document` returns, if that is asked.
  * A stream exists while its meta.json does. A directory without one is what is left of a stream that was deleted, or
    never finished, and goes away.
  * Names of directories are for people; what counts stands in the documents. Any name can be stored: what may not stand
    in the name of a file is written as `%` and two digits, and a name that gets too long by that as its digest.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import DIRECTORY_NAME_SIZE
from tidelog.disk.disk import Disk
from tidelog.log.recover import sync_above

META = "meta.json"
STREAMS = "streams"
LOG = "log"
CONSUMERS = "consumers"
OURS = frozenset((META, f"{META}.new", LOG, CONSUMERS, "cursors", "cursors.new"))
VERSION = 1
PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-$")


class Meta(msgspec.Struct):
    """What meta.json says of a stream."""

    version: int
    account: str
    name: str
    created_ns: int
    config: msgspec.Raw


def directory_name(name: str) -> str:
    """How a name is written as that of a directory."""
    data = name.encode("utf-8", "surrogatepass")
    text = "".join(chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in data)
    if len(text) > DIRECTORY_NAME_SIZE:
        text = f"%-{hashlib.blake2b(data, digest_size=20).hexdigest()}"
    return text


def write_document(disk: Disk, path: str, data: bytes, *, durable: bool = True) -> None:
    """Put a document into the place of the one before, if there is one. Not `durable`: the power may take it back."""
    new = f"{path}.new"
    if disk.exists(new):
        disk.remove(new)
    file = disk.create(new)
    try:
        file.append([data])
        if durable:
            file.sync()
    finally:
        file.close()
    disk.rename(new, path)
    if durable:
        disk.sync_directory(path.rpartition("/")[0])


def read_document(disk: Disk, path: str) -> bytes | None:
    """None: there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def remove_tree(disk: Disk, path: str) -> None:
    """A directory with all that is in it."""
    for name in disk.list(path):
        below = f"{path}/{name}"
        try:
            disk.list(below)
        except DiskFailed:
            disk.remove(below)
        else:
            remove_tree(disk, below)
    disk.remove(path)


def sweep(disk: Disk, path: str) -> None:
    """Remove what there is of a stream or a consumer; first what says that it exists: nobody is to find half of one."""
    if disk.exists(f"{path}/{META}"):
        disk.remove(f"{path}/{META}")
    if disk.exists(path):
        remove_tree(disk, path)


class Catalog:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.taken: dict[str, set[str]] = {}  # names below the directory of an account
        self.certain: set[str] = set()  # such directories whose own names are on the medium

    def begin(self, account: str, name: str) -> str:
        """A directory for a stream of that name, which does not exist before `write_first` has been called.

        Nothing is synced here; `write_first` does that.
        """
        above = f"{directory_name(account)}/{STREAMS}"
        taken = self.taken.get(above)
        if taken is None:
            taken = self.taken[above] = set(self.disk.list(above)) if self.disk.exists(above) else set()
        wanted = directory_name(name)
        # What is left of a deleted stream may still be on its way out.
        number = 1
        path = wanted
        while path in taken:
            number += 1
            path = f"{wanted}.{number}"
        self.disk.make_directory(f"{above}/{path}/{LOG}")
        taken.add(path)
        return f"{above}/{path}"

    def write_first(
        self, path: str, account: str, name: str, created_ns: int, config: bytes, *, is_first: bool = True
    ) -> None:
        """The stream exists from now on, as soon as the directory above its own is synced, too.

        Not `is_first`: another stream of the account was made before, and what is above them is safe.
        """
        if is_first:
            sync_above(self.disk, path.rpartition("/")[0])
        self.write(path, account, name, created_ns, config)

    def write(self, path: str, account: str, name: str, created_ns: int, config: bytes) -> None:
        meta = Meta(VERSION, account, name, created_ns, msgspec.Raw(config))
        write_document(self.disk, f"{path}/{META}", msgspec.json.format(msgspec.json.encode(meta)) + b"\n")

    def forget(self, path: str) -> None:
        """The stream does not exist any more; `sweep` removes what is left of it."""
        if self.disk.exists(f"{path}/{META}"):
            self.disk.remove(f"{path}/{META}")
            self.disk.sync_directory(path)

    def sweep(self, path: str) -> None:
        sweep(self.disk, path)

    def swept(self, path: str) -> None:
        """The name of a directory that is gone may be used again."""
        above, _, name = path.rpartition("/")
        self.taken.get(above, set()).discard(name)

    def directories(self) -> Iterator[str]:
        """Of all streams, and of what is left of some."""
        for account in self.disk.list(""):
            above = f"{account}/{STREAMS}"
            if self.disk.exists(above):
                for name in self.disk.list(above):
                    yield f"{above}/{name}"

    def read(self, path: str) -> Meta | None:
        """None: nothing that exists is there."""
        data = read_document(self.disk, f"{path}/{META}")
        if data is None:
            strange = [name for name in self.disk.list(path) if name not in OURS]
            if strange:
                raise StorageError(
                    f"it has no {META}, but {strange[0]}, which is none of ours; it is left alone"
                )
            return None
        try:
            meta = msgspec.json.decode(data, type=Meta)
        except msgspec.MsgspecError as error:
            raise StorageError(f"{path}/{META} cannot be read: {error}; mend or move it away") from None
        if meta.version != VERSION:
            raise StorageError(f"{path}/{META} is of version {meta.version}, this program knows {VERSION}")
        return meta
