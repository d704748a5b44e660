"""A disk on which the process ends, by SIGKILL, at a named point: before, amid or after the n-th call of a kind.

    disk = DeadlyDisk(RealDisk(root), boot, Point("append", "seg", "amid"), 7, on_strike)

A kind is an operation and what it is done to: `seg`, `idx.new`, `ceiling`, ... . Calls are counted over all threads.
`boot` is what it says for the machine's: with another one, those who ask must take it that the power was lost.
"""

import os
import signal
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from tidelog.disk.disk import Bytes, Disk, File

Answer = TypeVar("Answer")


class Point(NamedTuple):
    operation: str
    kind: str
    when: str  # before, amid (a part of the bytes is written), after

    def __str__(self) -> str:
        return f"{self.when} {self.operation} {self.kind}"


def kind_of(path: str) -> str:
    """Segments and indexes by their ending, other files by their name; `.` is a directory."""
    name = path.rpartition("/")[2]
    if name[:20].isdigit():
        return name[21:]
    return "." if name.startswith("log-") else name


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class DeadlyDisk:
    def __init__(
        self,
        disk: Disk,
        boot: int,
        point: Point | None = None,
        at: int = 0,
        on_strike: Callable[[], None] = lambda: None,
    ) -> None:
        self.disk = disk
        self.boot = boot
        self.point = point
        self.at = at
        self.on_strike = on_strike
        self._calls = count(1)

    def call(
        self, operation: str, path: str, act: Callable[[], Answer], amid: Callable[[], object] | None = None
    ) -> Answer:
        point = self.point
        if point is None or point.operation != operation or point.kind != kind_of(path):
            return act()
        if next(self._calls) != self.at:
            return act()
        if point.when == "after":
            act()
        elif point.when == "amid" and amid is not None:
            amid()
        self.on_strike()
        die()
        raise AssertionError("it goes on after SIGKILL")

    def lock(self) -> None:
        self.disk.lock()

    def unlock(self) -> None:
        self.disk.unlock()

    def create(self, path: str) -> File:
        return DeadlyFile(self, path, self.call("create", path, lambda: self.disk.create(path)))

    def open(self, path: str) -> File:
        return DeadlyFile(self, path, self.disk.open(path))

    def exists(self, path: str) -> bool:
        return self.disk.exists(path)

    def list(self, directory: str) -> list[str]:
        return self.disk.list(directory)

    def make_directory(self, path: str) -> None:
        self.call("make_directory", path, lambda: self.disk.make_directory(path))

    def rename(self, old: str, new: str) -> None:
        self.call("rename", new, lambda: self.disk.rename(old, new))

    def remove(self, path: str) -> None:
        self.call("remove", path, lambda: self.disk.remove(path))

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path, lambda: self.disk.sync_directory(path))

    def free_size(self) -> int:
        return self.disk.free_size()

    def boot_id(self) -> str:
        return f"boot-{self.boot}"


class DeadlyFile:
    def __init__(self, disk: DeadlyDisk, path: str, file: File) -> None:
        self.disk = disk
        self.path = path
        self.file = file

    @property
    def size(self) -> int:
        return self.file.size

    def append(self, parts: Sequence[Bytes]) -> int:
        def amid() -> None:
            data = b"".join(parts)
            self.file.append([data[: len(data) * (1 + self.disk.at % 3) // 4]])

        return self.disk.call("append", self.path, lambda: self.file.append(parts), amid)

    def read(self, pos: int, size: int) -> bytes:
        return self.file.read(pos, size)

    def write(self, pos: int, data: Bytes) -> None:
        def amid() -> None:
            self.file.write(pos, bytes(data)[: len(data) // 2])

        self.disk.call("write", self.path, lambda: self.file.write(pos, data), amid)

    def truncate(self, size: int) -> None:
        self.disk.call("truncate", self.path, lambda: self.file.truncate(size))

    def sync(self) -> None:
        self.disk.call("sync", self.path, self.file.sync)

    def close(self) -> None:
        self.file.close()
