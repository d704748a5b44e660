"""A disk for simulations: keeps the contract of `disk.disk`, in memory, and has bad days by seed.

    disk = SimDisk(seed, toxics=[FailNth(3, "sync")])
    ...                      the store under test works, and is stopped
    disk.power_cut()         or disk.kill()
    disk = disk.reopen()     what the next process finds

What a crash does to bytes and names is in `sim.medium`, what can go wrong with a call in `sim.toxic`. The same seed and
the same calls give the same trace, the same errors and the same bytes.

Promises
  * `kill` is the end of the process: everything written is there. `power_cut` is the end of the machine: of what was
    not synced, anything may be there. After either, and after a crash in a call, all that belonged to the process
    raises `Crashed`.
  * A failing `append` or `write` may have written a beginning; a failing `sync` or `sync_directory` leaves what was
    unsynced in a state that nobody knows; other calls that fail have done nothing. A call in which the process crashes
    has done all, a part, or nothing.
  * `size_max` is a budget of bytes, which may be raised: an append beyond it writes what may fit, or less, and fails.
  * A file that is closed, or closed twice, and used nevertheless is an assertion: on a real disk it might be another's.
  * With `short_reads` the system may give only a part of what was asked for, from one byte on. Each part is a call of
    its own, which may fail. As on the real disk, `disk.portion` asks for the rest.
"""

from __future__ import annotations

import builtins
import errno
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sim.medium import Content, Directory, Place, Survival, Tree
from sim.toxic import CRASH, Call, Crashed, ShortReads, Toxic
from tidelog.base.chance import Chance
from tidelog.base.errors import DiskFailed, DiskLocked
from tidelog.disk.disk import Bytes
from tidelog.disk.portion import read_whole

# How many calls a trace remembers; its digest covers all of them.
TRACE_SIZE = 10_000

# What the real disk calls its operations in a failure.
SPOKEN = {
    "append": "write",
    "sync": "fdatasync",
    "create": "open",
    "make_directory": "mkdir",
    "sync_directory": "fsync",
    "free_size": "statvfs",
}

Answer = TypeVar("Answer")


def nothing() -> None:
    return


@dataclass
class Machine:
    """What outlives a process: the medium, and the run as a whole."""

    chance: Chance
    toxics: list[Toxic]
    size_max: int
    survival: Survival | None
    short_reads: ShortReads | None
    tree: Tree = field(default_factory=Tree)
    owner: SimDisk | None = None
    boots: int = 1
    calls: int = 0
    digest: int = 0
    trace: deque[Call] = field(default_factory=lambda: deque(maxlen=TRACE_SIZE))

    def drawn_survival(self) -> Survival:
        return self.survival or Survival.drawn(self.chance)

    def used_size(self) -> int:
        return sum(len(content.view) for _, content in self.tree.contents())


class SimFile:
    """Handles of one file share its bytes, also after it was renamed or removed."""

    def __init__(self, disk: SimDisk, path: str, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._closed = False
        self._sync_failed = False

    @property
    def size(self) -> int:
        self._check()
        return len(self._content.view)

    def append(self, parts: Sequence[Bytes]) -> int:
        self._check()
        pos = len(self._content.view)
        return self._put("append", pos, b"".join(parts))

    def read(self, pos: int, size: int) -> bytes:
        self._check()
        if pos >= len(self._content.view):
            return self._read_part(pos, size)
        return read_whole(lambda at, left: self._read_part(at, left) if at < self.size else b"", pos, size)

    def _read_part(self, pos: int, size: int) -> bytes:
        view = self._content.view
        given, short_reads = min(size, max(0, len(view) - pos)), self._disk.machine.short_reads
        if short_reads is not None:
            given = short_reads.part_of(given)
        return self._disk.perform(
            "read", self.path, lambda: bytes(view[pos : pos + given]), pos=pos, size=size
        )

    def write(self, pos: int, data: Bytes) -> None:
        assert pos + len(data) <= self.size, "write() stays within the file"
        self._put("write", pos, bytes(data))

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.perform("truncate", self.path, lambda: self._content.truncate(size), pos=size)

    def sync(self) -> None:
        self._check()
        machine = self._disk.machine

        def fail() -> None:
            # The system tells everybody who has the file open, each once.
            for file in self._disk.open_files:
                if file._content is self._content:
                    file._sync_failed = True
            self._content.fail_sync(machine.chance, machine.drawn_survival())

        def sync() -> None:
            if self._sync_failed:
                raise refusal(errno.EIO)
            self._content.sync()

        self._disk.perform("sync", self.path, sync, failing=fail)

    def close(self) -> None:
        self._check()
        self._closed = True
        self._disk.open_files.remove(self)

    def _put(self, operation: str, pos: int, data: bytes) -> int:
        machine = self._disk.machine

        def put() -> int:
            growth = pos + len(data) - len(self._content.view)
            room = max(0, machine.size_max - machine.used_size()) if growth > 0 else 0
            if growth > room:
                self._content.write(pos, data[: machine.chance.integer(room + 1)])
                raise refusal(errno.ENOSPC)
            self._content.write(pos, data)
            return pos

        def tear() -> None:
            # Not beyond the budget: there is no room for that, whatever else goes wrong.
            room = max(0, machine.size_max - machine.used_size()) + len(self._content.view) - pos
            self._content.write(pos, data[: machine.chance.integer(min(room, len(data)) + 1)])

        return self._disk.perform(operation, self.path, put, failing=tear, crashing=tear, pos=pos, data=data)

    def _check(self) -> None:
        self._disk.check()
        assert not self._closed, f"{self.path} is closed"


class SimDisk:
    """What one process sees of the machine's disk."""

    def __init__(
        self,
        chance: Chance | int = 0,
        *,
        toxics: Iterable[Toxic] = (),
        size_max: int = 1 << 62,
        survival: Survival | None = None,
        short_reads: ShortReads | None = None,
        machine: Machine | None = None,
    ) -> None:
        """Without `survival`, each power cut and each failed sync draws one."""
        if isinstance(chance, int):
            chance = Chance(chance)
        self.machine = machine or Machine(chance, list(toxics), size_max, survival, short_reads)
        self.open_files: list[SimFile] = []
        self._stopped = False
        self._over = False
        self._doubtful: set[str] = set()  # directories of which a sync has failed

    # The contract.

    def lock(self) -> None:
        self.check()
        if self.machine.owner not in (None, self):
            raise DiskLocked("the simulated disk", 0)
        self.machine.owner = self

    def unlock(self) -> None:
        self.check()
        if self.machine.owner is self:
            self.machine.owner = None

    def create(self, path: str) -> SimFile:
        def create() -> SimFile:
            place = self._new_place(path)
            if self.exists(path):
                raise refusal(errno.EEXIST)
            content = Content()
            self.machine.tree.change(content, None, place)
            return self._opened(path, content)

        return self.perform("create", path, create)

    def open(self, path: str) -> SimFile:
        return self.perform("open", path, lambda: self._opened(path, self._content(path)))

    def exists(self, path: str) -> bool:
        self.check()
        return self.machine.tree.find(path) is not None

    def list(self, directory: str) -> builtins.list[str]:
        return self.perform("list", directory, lambda: sorted(self._directory(directory).names))

    def make_directory(self, path: str) -> None:
        def make() -> None:
            names = path.split("/") if path else []
            for depth in range(1, len(names) + 1):
                above = "/".join(names[:depth])
                if not self.exists(above):
                    self.machine.tree.change(Directory(), None, self._new_place(above))
            if not isinstance(self.machine.tree.find(path), Directory):
                raise refusal(errno.EEXIST)

        self.perform("make_directory", path, make)

    def rename(self, old: str, new: str) -> None:
        def rename() -> None:
            content = self._content(old)
            place = self._new_place(new)
            if isinstance(self.machine.tree.find(new), Directory):
                raise refusal(errno.EISDIR)
            if old != new:
                self.machine.tree.change(content, self.machine.tree.place(old), place)

        self.perform("rename", old, rename)

    def remove(self, path: str) -> None:
        def remove() -> None:
            node = self.machine.tree.find(path)
            if node is None:
                raise refusal(errno.ENOENT)
            if isinstance(node, Directory) and (node.names or not path):
                raise refusal(errno.ENOTEMPTY)
            self.machine.tree.change(node, self.machine.tree.place(path), None)

        self.perform("remove", path, remove)

    def sync_directory(self, path: str) -> None:
        machine = self.machine

        def fail() -> None:
            directory = machine.tree.find(path)
            if isinstance(directory, Directory):
                self._doubtful.add(path)
                machine.tree.fail_sync(directory, machine.chance, machine.drawn_survival())

        def sync() -> None:
            if path in self._doubtful:
                raise refusal(errno.EIO)
            machine.tree.sync(self._directory(path))

        self.perform("sync_directory", path, sync, failing=fail)

    def free_size(self) -> int:
        machine = self.machine
        return self.perform("free_size", "", lambda: max(0, machine.size_max - machine.used_size()))

    def boot_id(self) -> str:
        self.check()
        return f"boot-{self.machine.boots}"

    # Bad days.

    def kill(self) -> None:
        """The process ends. What it wrote stays; what a failed sync left behind, the system may have forgotten."""
        self._end()
        for _, content in self.machine.tree.contents():
            if content.diverged and self.machine.chance.integer(2):
                content.evict()

    def power_cut(self, survival: Survival | None = None) -> None:
        """The machine stops. With `survival`, this time as it says."""
        self._end()
        self.machine.boots += 1
        self.machine.tree.cut(self.machine.chance, survival or self.machine.drawn_survival())

    def reopen(self) -> SimDisk:
        """What the next process sees. Toxics, budget and trace go on."""
        assert self._over, "kill() or power_cut() comes first"
        return SimDisk(machine=self.machine)

    def flip_bit(self, path: str, byte: int, bit: int) -> None:
        self._content(path).flip(byte, bit)

    def flip_random_bit(self, path: str = "") -> tuple[str, int, int] | None:
        """Somewhere below paths that begin with `path`, each byte as likely as any other; where, if there is one."""
        chance = self.machine.chance
        files = [(name, len(c.view)) for name, c in self.machine.tree.contents() if name.startswith(path)]
        total = sum(size for _, size in files)
        at = chance.integer(total) if total else 0
        for name, size in files:
            if at < size:
                bit = chance.integer(8)
                self.flip_bit(name, at, bit)
                return name, at, bit
            at -= size
        return None

    # For tests that look at it.

    @property
    def toxics(self) -> builtins.list[Toxic]:
        """May be changed at any time."""
        return self.machine.toxics

    @property
    def size_max(self) -> int:
        return self.machine.size_max

    @size_max.setter
    def size_max(self, size: int) -> None:
        self.machine.size_max = size

    @property
    def calls(self) -> int:
        """How many there have been, over all processes."""
        return self.machine.calls

    @property
    def digest(self) -> int:
        """Of all calls so far, with what they wrote and how they ended."""
        return self.machine.digest

    def trace(self, last: int = TRACE_SIZE) -> str:
        """The last calls, a line each."""
        return "\n".join(str(call) for call in builtins.list(self.machine.trace)[-last:])

    def image(self) -> dict[str, bytes]:
        """Every file and its bytes, as they are read now."""
        return {path: bytes(content.view) for path, content in self.machine.tree.contents()}

    def unsynced(self) -> builtins.list[str]:
        """What a power cut could undo: files by path, and names as `-> new`, `old -> new`, `old ->`."""
        tree = self.machine.tree
        found = [path for path, content in tree.contents() if content.changes or content.diverged]
        for change in tree.changes:
            old, new = (place.name if place else "" for place in (change.old, change.new))
            found.append(f"{old} -> {new}".strip())
        return found

    # How a call is made.

    def perform(
        self,
        operation: str,
        path: str,
        act: Callable[[], Answer],
        *,
        failing: Callable[[], None] = nothing,
        crashing: Callable[[], None] = nothing,
        pos: int = 0,
        size: int = 0,
        data: bytes = b"",
    ) -> Answer:
        """`failing` and `crashing` are what is done instead when a toxic strikes."""
        self.check()
        machine = self.machine
        machine.calls += 1
        call = Call(machine.calls, operation, path, pos, size or len(data))
        machine.trace.append(call)
        try:
            # All are asked, as each counts for itself.
            verdict = next(filter(None, [toxic.strike(call) for toxic in machine.toxics]), 0)
            if verdict == CRASH:
                self._crash(call, act, crashing)
            if verdict:
                failing()
                raise refusal(verdict)
            return act()
        except OSError as error:
            call.answer = errno.errorcode.get(error.errno or 0, "?")
            raise DiskFailed(SPOKEN.get(operation, operation), path, error) from error
        finally:
            machine.digest = zlib.crc32(data, zlib.crc32(str(call).encode(), machine.digest))

    def check(self) -> None:
        if self._stopped:
            raise Crashed("this process has ended")

    def _crash(self, call: Call, act: Callable[[], object], crashing: Callable[[], None]) -> None:
        call.answer = "crash"
        try:
            (crashing, act, nothing)[self.machine.chance.integer(3)]()
        except OSError as error:
            call.answer += f" after {errno.errorcode.get(error.errno or 0, '?')}"
        self._stopped = True
        raise Crashed(str(call))

    def _end(self) -> None:
        assert not self._over, "this process has ended already"
        self._stopped = self._over = True
        if self.machine.owner is self:
            self.machine.owner = None

    def _opened(self, path: str, content: Content) -> SimFile:
        file = SimFile(self, path, content)
        self.open_files.append(file)
        return file

    def _content(self, path: str) -> Content:
        node = self.machine.tree.find(path)
        if isinstance(node, Content):
            return node
        raise refusal(errno.ENOENT if node is None else errno.EISDIR)

    def _directory(self, path: str) -> Directory:
        node = self.machine.tree.find(path)
        if isinstance(node, Directory):
            return node
        raise refusal(errno.ENOENT if node is None else errno.ENOTDIR)

    def _new_place(self, path: str) -> Place:
        place = self.machine.tree.place(path)
        if place is None:
            raise refusal(errno.ENOENT)
        return place


def refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
