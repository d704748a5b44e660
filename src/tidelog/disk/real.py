"""The disk of the machine, through the system's calls and nothing between."""

import errno
import fcntl
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from tidelog.base.errors import DiskFailed, DiskLocked
from tidelog.disk.disk import Bytes
from tidelog.disk.portion import read_whole

# More parts than this go out in several calls; the system refuses more at once.
PARTS_PER_WRITE = 1024

# Linux makes one up whenever it starts.
BOOT_ID = "/proc/sys/kernel/random/boot_id"

# In the root; it says who has the disk, and stays behind. What locks is the system, not that it is there.
LOCK_NAME = "tidelog.lock"

Answer = TypeVar("Answer")


def attempt(operation: str, path: str, call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    except OSError as error:
        raise DiskFailed(operation, path, error) from error


class RealFile:
    def __init__(self, fd: int, path: str, size: int) -> None:
        self.fd = fd
        self.path = path
        self.size = size
        self._unsynced: OSError | None = None

    def append(self, parts: Sequence[Bytes]) -> int:
        start_pos = self.size
        waiting = [memoryview(part).cast("B") for part in parts if len(part)]
        while waiting:
            batch = waiting[:PARTS_PER_WRITE]
            written = attempt("write", self.path, lambda batch=batch: os.pwritev(self.fd, batch, self.size))  # type: ignore[misc]
            self.size += written
            done = 0
            while done < len(batch) and written >= len(batch[done]):
                written -= len(batch[done])
                done += 1
            del waiting[:done]
            if written:
                waiting[0] = waiting[0][written:]
        return start_pos

    def read(self, pos: int, size: int) -> bytes:
        return read_whole(self._read_part, pos, size)

    def _read_part(self, pos: int, size: int) -> bytes:
        return attempt("read", self.path, lambda: os.pread(self.fd, size, pos))

    def write(self, pos: int, data: Bytes) -> None:
        assert pos + len(data) <= self.size, "write() stays within the file"
        view = memoryview(data).cast("B")
        while view:
            done = attempt("write", self.path, lambda view=view, pos=pos: os.pwrite(self.fd, view, pos))  # type: ignore[misc]
            view, pos = view[done:], pos + done

    def truncate(self, size: int) -> None:
        attempt("truncate", self.path, lambda: os.ftruncate(self.fd, size))
        self.size = size

    def sync(self) -> None:
        # The system tells a failure once, and then that all is well.
        if self._unsynced is not None:
            raise DiskFailed("fdatasync", self.path, self._unsynced)
        try:
            os.fdatasync(self.fd)
        except OSError as error:
            self._unsynced = error
            raise DiskFailed("fdatasync", self.path, error) from error

    def close(self) -> None:
        os.close(self.fd)


class RealDisk:
    """A directory, which is made if it is missing; or, to look only, one that has to be there."""

    def __init__(self, root: str, read_only: bool = False) -> None:
        self.root = os.path.abspath(root)
        self.read_only = read_only
        self._lock: weakref.finalize[[int], RealDisk] | None = None
        self._unsynced: dict[str, OSError] = {}  # directories whose names nobody knows
        if not read_only:
            attempt("mkdir", self.root, lambda: os.makedirs(self.root, exist_ok=True))

    def lock(self) -> None:
        if self._lock is not None:
            return
        self._change("lock", LOCK_NAME)
        file = self._open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read(0, 20).strip()
            file.close()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise DiskFailed("lock", LOCK_NAME, error) from error
            raise DiskLocked(self.root, int(holder) if holder.isdigit() else 0) from None
        self._lock = weakref.finalize(self, os.close, file.fd)
        file.truncate(0)
        with suppress(DiskFailed):
            # On a full disk nobody learns who it is.
            file.append([b"%d\n" % os.getpid()])

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock()
            self._lock = None

    def create(self, path: str) -> RealFile:
        self._change("create", path)
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, path: str) -> RealFile:
        return self._open(path, os.O_RDONLY if self.read_only else os.O_RDWR)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def list(self, directory: str) -> list[str]:
        return sorted(attempt("list", directory, lambda: os.listdir(self._at(directory))))

    def make_directory(self, path: str) -> None:
        self._change("mkdir", path)
        attempt("mkdir", path, lambda: os.makedirs(self._at(path), exist_ok=True))

    def rename(self, old: str, new: str) -> None:
        self._change("rename", old)
        attempt("rename", old, lambda: os.replace(self._at(old), self._at(new)))

    def remove(self, path: str) -> None:
        self._change("remove", path)
        full = self._at(path)
        attempt("remove", path, lambda: os.rmdir(full) if os.path.isdir(full) else os.unlink(full))

    def sync_directory(self, path: str) -> None:
        if path in self._unsynced:
            raise DiskFailed("fsync", path, self._unsynced[path])
        fd = attempt("open", path, lambda: os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY))
        try:
            os.fsync(fd)
        except OSError as error:
            self._unsynced[path] = error
            raise DiskFailed("fsync", path, error) from error
        finally:
            os.close(fd)

    def free_size(self) -> int:
        stat = attempt("statvfs", self.root, lambda: os.statvfs(self.root))
        return stat.f_bavail * stat.f_frsize

    def boot_id(self) -> str:
        """Of the machine that asks. A disk that it does not share its power with would need more than that."""
        try:
            with open(BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def _change(self, operation: str, path: str) -> None:
        if self.read_only:
            raise DiskFailed(operation, path, OSError(errno.EROFS, "the disk was opened to look only"))

    def _open(self, path: str, flags: int) -> RealFile:
        fd = attempt("open", path, lambda: os.open(self._at(path), flags | os.O_CLOEXEC, 0o640))
        return RealFile(fd, path, os.fstat(fd).st_size)

    def _at(self, path: str) -> str:
        full = os.path.normpath(os.path.join(self.root, path))
        assert full == self.root or full.startswith(self.root + os.sep), "paths stay below the root"
        return full
