"""A disk in memory: what memory streams are stored on, and what tests use. Syncing is immediate and free."""

import errno
import os
from collections.abc import Sequence

from tidelog.base.errors import DiskFailed
from tidelog.disk.disk import Bytes


def failure(operation: str, path: str, number: int) -> DiskFailed:
    return DiskFailed(operation, path, OSError(number, os.strerror(number)))


class MemoryFile:
    """All handles of a file share its bytes, also after it was renamed or removed."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    @property
    def size(self) -> int:
        return len(self.data)

    def append(self, parts: Sequence[Bytes]) -> int:
        start_pos = len(self.data)
        for part in parts:
            self.data += part
        return start_pos

    def read(self, pos: int, size: int) -> bytes:
        return bytes(memoryview(self.data)[pos : pos + size])

    def write(self, pos: int, data: Bytes) -> None:
        assert pos + len(data) <= len(self.data), "write() stays within the file"
        self.data[pos : pos + len(data)] = data

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data += bytes(size - len(self.data))

    def sync(self) -> None:
        return

    def close(self) -> None:
        return


class MemoryDisk:
    def __init__(self, size_max: int = 1 << 62) -> None:
        self.size_max = size_max
        self.files: dict[str, bytearray] = {}
        self.directories = {""}

    def lock(self) -> None:
        """Nobody else can see it."""

    def unlock(self) -> None:
        return

    def create(self, path: str) -> MemoryFile:
        if self.exists(path):
            raise failure("open", path, errno.EEXIST)
        if os.path.dirname(path) not in self.directories:
            raise failure("open", path, errno.ENOENT)
        self.files[path] = bytearray()
        return MemoryFile(self.files[path])

    def open(self, path: str) -> MemoryFile:
        if path not in self.files:
            raise failure("open", path, errno.EISDIR if path in self.directories else errno.ENOENT)
        return MemoryFile(self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def list(self, directory: str) -> list[str]:
        if directory not in self.directories:
            raise failure("list", directory, errno.ENOENT)
        names = [*self.files, *self.directories - {""}]
        return sorted(os.path.basename(name) for name in names if os.path.dirname(name) == directory)

    def make_directory(self, path: str) -> None:
        names = path.split("/") if path else []
        above = {"/".join(names[:depth]) for depth in range(1, len(names) + 1)}
        if above & self.files.keys():
            raise failure("mkdir", path, errno.EEXIST)
        self.directories |= above

    def rename(self, old: str, new: str) -> None:
        if old not in self.files or os.path.dirname(new) not in self.directories:
            raise failure("rename", old, errno.ENOENT)
        if new in self.directories:
            raise failure("rename", old, errno.EISDIR)
        self.files[new] = self.files.pop(old)

    def remove(self, path: str) -> None:
        if path in self.directories:
            if self.list(path) or not path:
                raise failure("remove", path, errno.ENOTEMPTY)
            self.directories.remove(path)
        elif self.files.pop(path, None) is None:
            raise failure("remove", path, errno.ENOENT)

    def sync_directory(self, path: str) -> None:
        if path not in self.directories:
            raise failure("open", path, errno.ENOENT)

    def free_size(self) -> int:
        return self.size_max - sum(len(data) for data in self.files.values())

    def boot_id(self) -> str:
        """Whoever can ask has lost nothing."""
        return "memory"
