"""What a simulated disk has under its files: bytes and names, as they look now and as a power cut might leave them.

Fault model
  * A file is a row of 512-byte sectors; a sector is written whole or not at all. Since the last sync a sector has had
    one version per change that touched it. After a power cut it holds any one of them, or the synced one, whatever
    became of its neighbours: writes are lost, torn and reordered. What was never written reads as zeros.
  * The size of a file is chosen on its own among those it has had since the last sync, or at a sector in the middle of
    a growth. A truncation comes with its size: where that is chosen, what it cut off does not come back; where it is
    not, a later append over the cut may be there, with what was cut off behind it.
  * After a failed sync the medium holds some such choice, and the system believes that all is written: a later sync
    covers only sectors that were changed again since. What is read shows the newer bytes until the process has ended;
    from then on perhaps not.
  * A name change waits for the sync of its directory (a rename between two: of both). At a power cut each waiting one
    is kept or lost on its own, but whole; a name is lost with the directory that it is in. The content of a file knows
    nothing of its names. A failed sync of a directory decides at once, and no later one repairs it.

What it does not do: hard links, sparse accounting, misdirected or lost-but-confirmed writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from tidelog.base.chance import Chance

SECTOR = 512

Item = TypeVar("Item")


@dataclass(frozen=True)
class Survival:
    """How likely it is that something unsynced is there after a power cut: 0 loses all of it, 1 keeps all of it."""

    sectors: float = 0.5
    sizes: float = 0.5
    names: float = 0.5

    @staticmethod
    def drawn(chance: Chance) -> Survival:
        """A different kind of day each time: with all three at one half, the extremes would never be seen."""
        days = (0.0, 0.1, 0.5, 0.9, 1.0)
        return Survival(*(days[chance.integer(len(days))] for _ in range(3)))


NOTHING = Survival(0.0, 0.0, 0.0)
EVERYTHING = Survival(1.0, 1.0, 1.0)


def survivor_of(versions: list[Item], chance: Chance, likelihood: float) -> int:
    """The index of the version that a power cut leaves: the newest, the first, which is safe, or any between."""
    if chance.fraction() < likelihood:
        return len(versions) - 1
    return chance.integer(len(versions)) if chance.fraction() < likelihood else 0


def resize(data: bytearray, size: int) -> None:
    del data[size:]
    data += bytes(size - len(data))


class Change(NamedTuple):
    """`data` written at `pos`, or without data: the size set to `pos`."""

    pos: int
    data: bytearray | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            resize(content, self.pos)
            return
        if self.pos > len(content):
            resize(content, self.pos)
        content[self.pos : self.pos + len(self.data)] = self.data

    def sectors(self) -> range:
        if not self.data:
            return range(0)
        return range(self.pos // SECTOR, (self.pos + len(self.data) - 1) // SECTOR + 1)


class Content:
    """The bytes of one file: `view` is what is read, `settled` and `changes` what a power cut starts from."""

    def __init__(self) -> None:
        self.view = bytearray()
        self.settled = bytearray()
        self.changes: list[Change] = []
        # A sync has failed, and the medium lacks something that the system believes to be on it.
        self.diverged = False

    def write(self, pos: int, data: bytes | bytearray) -> None:
        if not data:
            return
        self.view[pos : pos + len(data)] = data
        if self.diverged:
            # The system writes whole sectors as it has them: what is changed again is written after all.
            start = pos - pos % SECTOR
            end = pos + len(data) + -(pos + len(data)) % SECTOR
            pos, data = start, self.view[start:end]
        self.changes.append(Change(pos, bytearray(data)))

    def truncate(self, size: int) -> None:
        resize(self.view, size)
        self.changes.append(Change(size, None))

    def sync(self) -> None:
        for change in self.changes:
            change.apply(self.settled)
        self.changes.clear()
        self.diverged = self.diverged and self.settled != self.view

    def fail_sync(self, chance: Chance, survival: Survival) -> None:
        self.settled = self.survivor(chance, survival)
        self.changes.clear()
        self.diverged = self.settled != self.view

    def evict(self) -> None:
        """The system forgets what it believes to be on the medium, and reads it again."""
        self.view = bytearray(self.settled)
        for change in self.changes:
            change.apply(self.view)
        self.diverged = False

    def cut(self, chance: Chance, survival: Survival) -> None:
        self.settled = self.survivor(chance, survival)
        self.changes.clear()
        self.evict()

    def flip(self, pos: int, bit: int) -> None:
        """On the medium and in memory alike: whoever reads it, from now on and after any crash, reads it wrong."""
        mask = 1 << bit
        for data, start in [
            (self.view, 0),
            (self.settled, 0),
            *((data, at) for at, data in self.changes if data),
        ]:
            if 0 <= pos - start < len(data):
                data[pos - start] ^= mask

    def survivor(self, chance: Chance, survival: Survival) -> bytearray:
        """What a power cut leaves of this file."""
        now = bytearray(self.settled)
        sizes = [(0, len(now))]
        versions: dict[int, list[tuple[int, bytes]]] = {}
        for number, change in enumerate(self.changes, 1):
            before = len(now)
            change.apply(now)
            if change.data is None or len(now) > before:
                torn = (
                    () if change.data is None else range(before + SECTOR - before % SECTOR, len(now), SECTOR)
                )
                sizes += [(number, size) for size in (*torn, len(now))]
            for sector in change.sectors():
                content = bytes(now[sector * SECTOR : (sector + 1) * SECTOR])
                versions.setdefault(sector, [(0, b"")]).append((number, content))
        kept, size = sizes[survivor_of(sizes, chance, survival.sizes)]

        def limit(version: int) -> int:
            """Up to where the truncations that were kept have left what is this old."""
            return min(
                (pos for pos, data in self.changes[version:kept] if data is None), default=len(now) + size
            )

        left = self.settled[: limit(0)]
        resize(left, size)
        for sector, ages in versions.items():
            number, content = ages[survivor_of(ages, chance, survival.sectors)]
            start = sector * SECTOR
            if number and start < size:
                content = content[: max(0, limit(number) - start)].ljust(SECTOR, b"\0")
                left[start : start + SECTOR] = content[: size - start]
        return left


class Directory:
    """The names in it, as they are now and as a power cut would have them."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.settled: dict[str, Node] = {}


Node: TypeAlias = Content | Directory


class Place(NamedTuple):
    directory: Directory
    name: str


@dataclass(eq=False)
class NameChange:
    """`node` goes from `old`, if it had a name, to `new`, if it gets one; at once."""

    node: Node
    old: Place | None
    new: Place | None
    waiting: set[Directory] = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = {place.directory for place in (self.old, self.new) if place}


class Tree:
    """All names, and the changes to them that wait for a sync."""

    def __init__(self) -> None:
        self.root = Directory()
        self.changes: list[NameChange] = []
        # Where a power cut would find a node: a change that was lost must not leave it under two names.
        self._homes: dict[Node, Place] = {}

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.split("/") if path else ():
            node = node.names.get(name) if isinstance(node, Directory) else None
        return node

    def place(self, path: str) -> Place | None:
        """Where the name stands or would stand; None if there is no such directory."""
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        return Place(directory, name) if isinstance(directory, Directory) else None

    def change(self, node: Node, old: Place | None, new: Place | None) -> None:
        if old:
            del old.directory.names[old.name]
        if new:
            new.directory.names[new.name] = node
        self.changes.append(NameChange(node, old, new))

    def sync(self, directory: Directory) -> None:
        for change in self.changes:
            change.waiting.discard(directory)
        # In order: one that still waits for another directory holds up those behind it, not their being safe.
        while self.changes and not self.changes[0].waiting:
            self._settle(self.changes.pop(0))

    def fail_sync(self, directory: Directory, chance: Chance, survival: Survival) -> None:
        self.changes = [
            change
            for change in self.changes
            if directory not in change.waiting or chance.fraction() < survival.names
        ]
        self.sync(directory)

    def cut(self, chance: Chance, survival: Survival) -> None:
        for change in self.changes:
            if not change.waiting or chance.fraction() < survival.names:
                self._settle(change)
        self.changes.clear()
        self._forget_names(self.root)
        for _, content in self.contents():
            content.cut(chance, survival)

    def contents(self) -> Iterator[tuple[str, Content]]:
        """Every file, with its path, in the order of paths."""
        found = [(path, node) for path, node in self._walk("", self.root) if isinstance(node, Content)]
        yield from sorted(found, key=lambda item: item[0])

    def _walk(self, path: str, directory: Directory) -> Iterator[tuple[str, Node]]:
        for name, node in directory.names.items():
            yield path + name, node
            if isinstance(node, Directory):
                yield from self._walk(f"{path}{name}/", node)

    def _forget_names(self, directory: Directory) -> None:
        directory.names = dict(directory.settled)
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._forget_names(node)

    def _settle(self, change: NameChange) -> None:
        node = change.node
        for place in (change.old, self._homes.get(node) if change.new else None):
            # Another node may have this name there, if the change that replaced it was lost.
            if place and place.directory.settled.get(place.name) is node:
                del place.directory.settled[place.name]
                self._homes.pop(node, None)
        if change.new:
            directory, name = change.new
            if name in directory.settled:
                self._homes.pop(directory.settled[name], None)
            directory.settled[name] = node
            self._homes[node] = change.new
