"""What a store may ask of a disk: the contract that the real one, the one in memory and simulated ones keep.

Promises
  * Paths are relative to the disk's root, with `/` between names.
  * `append` writes everything or raises; then a beginning may be there. What it wrote is *written* (survives the end of
    the process). Only what a `sync` that returned covers is *synced* (survives the end of the power). A new, renamed or
    removed name is synced by `sync_directory` of the directory it is in; one moved between two, by that of both.
  * A failure is a `DiskFailed` that says what was tried, on which path, and the system's reason. After a failed `sync`
    nobody knows what is on the disk: the caller must not try again and then promise anything, and every later `sync`
    of the same open file fails, too; likewise every later `sync_directory` of the same directory.
  * One owner at a time: while one has the `lock`, others that ask for it are refused. It ends with the process,
    however that ends. Reading does not ask for it.

What it does not do: buffer, retry, or know formats.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Positions are bytes from its start."""

    @property
    def size(self) -> int: ...

    def append(self, parts: Sequence[Bytes]) -> int:
        """Write all parts behind the end, in one call where the system can; the position of the first byte."""

    def read(self, pos: int, size: int) -> bytes:
        """Up to `size` bytes from `pos`; fewer only at the end of the file."""

    def write(self, pos: int, data: Bytes) -> None:
        """Overwrite, within the file."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when everything written is on the medium."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A tree of files under one root."""

    def lock(self) -> None:
        """Have this disk alone until `unlock`; who has it already has it still. DiskLocked says who else does."""

    def unlock(self) -> None:
        """Let others have it; nothing may be open any more."""

    def create(self, path: str) -> File:
        """A new, empty file; one that exists is an error."""

    def open(self, path: str) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """With all above it; one that exists is fine."""

    def rename(self, old: str, new: str) -> None:
        """A file; it replaces the file `new` at once, if there is one."""

    def remove(self, path: str) -> None:
        """A file, or an empty directory."""

    def sync_directory(self, path: str) -> None: ...

    def free_size(self) -> int:
        """Bytes that can still be written."""

    def boot_id(self) -> str:
        """The same as long as no power can have been lost: what was written under this id is there while it lasts.

        Empty where nobody knows, which is to be taken for a loss; so is any id but the one that was noted.
        """
