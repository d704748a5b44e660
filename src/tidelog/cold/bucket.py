"""An object store, as far as the cold tier needs one: whole objects, by name, some of them only if nobody was quicker.

    bucket = open_bucket("s3://history/tidelog")      or file:///var/cold, gs://, az://, memory:///
    bucket.put_new(name, data) -> bool                False: there is one of that name already, and it stays
    bucket.get(name), bucket.names(prefix), bucket.replace(name, data), bucket.remove(name)

Promises
  * COLD-1: of several who `put_new` one name at a time, one is told True, and its bytes are the object.
  * When a put has returned, the object is there as a whole and durably: in a folder it is synced, and so is its name.
  * What fails is a `ColdError` that says what was tried and what the store said. A store that does not answer, or is
    busy, is asked again for a while; beyond that the caller knows whether it is still wanted.

What it does not do: know formats, hold connections open between calls, or run beside the event loop; whoever calls is
a thread that may wait. Credentials and regions come from the environment, as usual for the store in question.
"""

import io
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlparse

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import ObjectStore, from_url

from tidelog.base.errors import ColdError, ColdMissing, ConfigError
from tidelog.base.limits import COLD_RETRIES, COLD_RETRY_S
from tidelog.disk.real import RealDisk

if TYPE_CHECKING:
    from obstore.store import RetryConfig

Answer = TypeVar("Answer")
SCHEMES = ("file", "s3", "gs", "az", "memory")


class Bucket(Protocol):
    def put_new(self, name: str, data: bytes) -> bool: ...
    def replace(self, name: str, data: bytes) -> None: ...
    def get(self, name: str) -> bytes: ...
    def names(self, prefix: str) -> list[str]: ...
    def remove(self, name: str) -> None: ...


class StoreBucket:
    def __init__(
        self, store: ObjectStore, url: str, folder: RealDisk | None = None, root: Path | None = None
    ) -> None:
        self.url = url
        self.root = root
        self._store = store
        self._folder = folder  # the same files, if they are on this machine

    def put_new(self, name: str, data: bytes) -> bool:
        try:
            self._attempt("create", name, lambda: obstore.put(self._store, name, data, mode="create"))
        except _Exists:
            return False
        self._sync(name)
        return True

    def replace(self, name: str, data: bytes) -> None:
        self._attempt("write", name, lambda: obstore.put(self._store, name, data))
        self._sync(name)

    def get(self, name: str) -> bytes:
        return self._attempt("read", name, lambda: bytes(obstore.get(self._store, name).bytes()))

    def names(self, prefix: str) -> list[str]:
        """Of all objects below `prefix`, in order."""

        def listed() -> list[str]:
            pages = obstore.list(self._store, prefix)
            return sorted(one["path"] for page in pages for one in page)

        return self._attempt("list", prefix, listed)

    def times(self, prefix: str) -> dict[str, datetime]:
        """When each object below `prefix` was written, by the clock of the store."""

        def listed() -> dict[str, datetime]:
            pages = obstore.list(self._store, prefix)
            return {one["path"]: one["last_modified"] for page in pages for one in page}

        return self._attempt("list", prefix, listed)

    def now(self, name: str) -> datetime:
        """What time it is there, told by an object that is written for it."""
        self._attempt("write", name, lambda: obstore.put(self._store, name, b""))
        return self._attempt("look at", name, lambda: obstore.head(self._store, name)["last_modified"])

    def folders(self, prefix: str) -> list[str]:
        """Right below `prefix`, in order, with what is in front of their names."""

        def listed() -> list[str]:
            return sorted(obstore.list_with_delimiter(self._store, prefix or None)["common_prefixes"])

        return self._attempt("list", prefix, listed)

    def source(self, name: str) -> Any:
        """For whoever reads parts of an object: its path if it is on this machine, or else an open file."""
        if self.root is not None:
            path = self.root / name
            if not path.is_file():
                raise ColdMissing(f"there is no {name} in {self.url}")
            return str(path)
        return RangeReader(self, name)

    def size(self, name: str) -> int:
        return self._attempt("look at", name, lambda: obstore.head(self._store, name)["size"])

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self._attempt(
            "read", name, lambda: bytes(obstore.get_range(self._store, name, start=start, length=length))
        )

    def remove(self, name: str) -> None:
        """One that is not there is fine."""
        try:
            self._attempt("remove", name, lambda: obstore.delete(self._store, name))
        except ColdMissing:
            return

    def _sync(self, name: str) -> None:
        if self._folder is None:
            return
        file = self._folder.open(name)
        try:
            file.sync()
        finally:
            file.close()
        while name:
            name = name.rpartition("/")[0]
            self._folder.sync_directory(name or ".")

    def _attempt(self, what: str, name: str, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except AlreadyExistsError:
            raise _Exists from None
        except (NotFoundError, FileNotFoundError):
            raise ColdMissing(f"there is no {name} in {self.url}") from None
        except (BaseError, OSError) as error:
            first = str(error).partition("\n")[0]
            raise ColdError(f"cannot {what} {name} in {self.url}: {first}") from error


class RangeReader(io.RawIOBase):
    """An object as a file that is read in pieces: one question to the store for each."""

    def __init__(self, bucket: StoreBucket, name: str) -> None:
        super().__init__()
        self._bucket = bucket
        self._name = name
        self._size = bucket.size(name)
        self._pos = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._pos

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._pos, io.SEEK_END: self._size}[whence]
        self._pos = max(0, start + offset)
        return self._pos

    def read(self, size: int = -1) -> bytes:
        length = self._size - self._pos
        length = max(0, length if size < 0 else min(size, length))
        data = self._bucket.get_range(self._name, self._pos, length) if length else b""
        self._pos += len(data)
        return data


class _Exists(ColdError):
    """Somebody was quicker."""


def open_bucket(url: str, retry_s: float = COLD_RETRY_S, *, make: bool = True) -> StoreBucket:
    """Raises ConfigError for what is no URL of an object store. `retry_s`: how long one call goes on trying.

    `make`: a folder that is not there is made; who only reads has it told instead.
    """
    parts = urlparse(url)
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"{url!r} is no object store: it begins with {'://, '.join(SCHEMES)}://")
    if parts.password:
        raise ConfigError("keys of an object store stand in the environment, not in its URL")
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise ConfigError(f"{url!r} names no folder: it reads file:///path/to/folder")
    try:
        if parts.scheme == "file":
            root = Path(unquote(parts.path))
            if not make and not root.is_dir():
                raise ConfigError(f"{url!r} is no folder here")
            return StoreBucket(from_url(url, mkdir=True), url, RealDisk(str(root)), root)
        retries: RetryConfig = {"max_retries": COLD_RETRIES, "retry_timeout": timedelta(seconds=retry_s)}
        return StoreBucket(from_url(url, retry_config=retries), url)
    except (BaseError, ValueError, TypeError) as error:
        raise ConfigError(f"{url!r} cannot be opened: {str(error).partition(chr(10))[0]}") from None
