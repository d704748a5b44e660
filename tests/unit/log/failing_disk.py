"""A disk that refuses one call, or all from one on; an append that is refused leaves half of its bytes."""

import errno
from collections.abc import Sequence

from tidelog.disk.disk import Bytes, Disk, File
from tidelog.disk.memory import failure


class FailingDisk:
    def __init__(self, disk: Disk, fail_at: int = 0, for_good: bool = False) -> None:
        self.disk = disk
        self.fail_at = fail_at
        self.for_good = for_good
        # Only calls that change something are counted.
        self.calls = 0
        self.only = ""

    def call(self, operation: str, path: str) -> None:
        if self.only and operation != self.only:
            return
        self.calls += 1
        if self.fail_at and (self.calls == self.fail_at or (self.for_good and self.calls > self.fail_at)):
            raise failure(operation, path, errno.EIO)

    def lock(self) -> None:
        self.disk.lock()

    def unlock(self) -> None:
        self.disk.unlock()

    def create(self, path: str) -> File:
        self.call("create", path)
        return FailingFile(self, path, self.disk.create(path))

    def open(self, path: str) -> File:
        return FailingFile(self, path, self.disk.open(path))

    def exists(self, path: str) -> bool:
        return self.disk.exists(path)

    def list(self, directory: str) -> list[str]:
        return self.disk.list(directory)

    def make_directory(self, path: str) -> None:
        self.call("mkdir", path)
        self.disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        self.disk.rename(old, new)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self.disk.remove(path)

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path)
        self.disk.sync_directory(path)

    def free_size(self) -> int:
        return self.disk.free_size()

    def boot_id(self) -> str:
        return self.disk.boot_id()


class FailingFile:
    def __init__(self, disk: FailingDisk, path: str, file: File) -> None:
        self.disk = disk
        self.path = path
        self.file = file

    @property
    def size(self) -> int:
        return self.file.size

    def append(self, parts: Sequence[Bytes]) -> int:
        data = b"".join(bytes(part) for part in parts)
        try:
            self.disk.call("append", self.path)
        except Exception:
            self.file.append([data[: len(data) // 2]])
            raise
        return self.file.append([data])

    def read(self, pos: int, size: int) -> bytes:
        return self.file.read(pos, size)

    def write(self, pos: int, data: Bytes) -> None:
        self.disk.call("write", self.path)
        self.file.write(pos, data)

    def truncate(self, size: int) -> None:
        self.disk.call("truncate", self.path)
        self.file.truncate(size)

    def sync(self) -> None:
        self.disk.call("sync", self.path)
        self.file.sync()

    def close(self) -> None:
        self.file.close()
