"""What is true of a simulated disk whatever is done to it, and on whatever day."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sim.disk import SimDisk
from sim.medium import EVERYTHING, NOTHING, SECTOR, Survival
from sim.toxic import CONTENT, SYNCS, Crashed, CrashNth, Flaky
from tidelog.base.chance import Chance
from tidelog.base.errors import DiskFailed
from tidelog.disk.disk import Disk, File
from tidelog.disk.memory import MemoryDisk
from tidelog.disk.real import RealDisk

PATHS = ["a", "b", "d/a", "d/b", "d", "e/f", "e", ""]
FILES = PATHS[:4]


@dataclass(frozen=True)
class Step:
    operation: str
    path: str
    other: str = "a"
    pos: int = 0
    size: int = 0
    letter: int = 1

    @property
    def data(self) -> bytes:
        return bytes([self.letter]) * self.size


def steps(operations: list[str], paths: list[str]) -> st.SearchStrategy[list[Step]]:
    step = st.builds(
        Step,
        st.sampled_from(operations),
        st.sampled_from(paths),
        st.sampled_from(paths),
        st.integers(0, 3 * SECTOR),
        st.integers(0, 3 * SECTOR) | st.integers(0, 9),
        st.integers(1, 255),
    )
    return st.lists(step, max_size=40)


ON_FILES = ["append", "write", "truncate", "sync", "read"]
ON_NAMES = ["create", "rename", "remove", "sync_directory"]
OTHERS = ["make_directory", "list", "exists"]


def carry_out(disk: Disk, step: Step) -> object:
    if step.operation == "create":
        disk.create(step.path).close()
    elif step.operation == "rename":
        disk.rename(step.path, step.other)
    elif step.operation not in ON_FILES:
        call: Callable[[str], object] = getattr(disk, step.operation)
        return call(step.path)
    else:
        file = disk.open(step.path)
        try:
            return carry_out_on(file, step), file.size
        finally:
            file.close()
    return None


def carry_out_on(file: File, step: Step) -> object:
    if step.operation == "append":
        return file.append([step.data, b"", step.data[:3]])
    if step.operation == "read":
        return file.read(step.pos, step.size)
    if step.operation == "write":
        pos = min(step.pos, file.size)
        file.write(pos, step.data[: file.size - pos])
    elif step.operation == "truncate":
        file.truncate(step.pos)
    else:
        file.sync()
    return None


def answer(disk: Disk, step: Step) -> object:
    try:
        return carry_out(disk, step)
    except DiskFailed as failed:
        return f"failed {failed.path}"


@given(steps(ON_FILES + ON_NAMES + OTHERS, PATHS))
def test_all_disks_agree_as_long_as_nothing_goes_wrong(script: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as root:
        memory, real, sim = MemoryDisk(), RealDisk(os.path.join(root, "store")), SimDisk()
        for step in script:
            if step.operation in ("rename", "remove") and not (step.path and step.other):
                # The root is not theirs to remove or to replace.
                continue
            if step.operation == "rename" and step.path in memory.directories:
                # The contract speaks of files only; the system would move directories too.
                continue
            expected = answer(memory, step)
            assert (step, answer(sim, step)) == (step, expected)
            assert (step, answer(real, step)) == (step, expected)
        assert sim.image() == {path: bytes(data) for path, data in memory.files.items()}
        assert sim.free_size() == memory.free_size()


@given(steps(ON_FILES + ON_NAMES, PATHS), st.integers(0, 1 << 32))
def test_all_or_nothing_of_what_is_unsynced_survives(script: list[Step], seed: int) -> None:
    disk = SimDisk(seed)
    disk.make_directory("d")
    for step in script:
        answer(disk, step)
    before = disk.image()
    disk.power_cut(EVERYTHING)
    disk = disk.reopen()
    assert disk.image() == before
    assert disk.unsynced() == []
    for step in script:
        answer(disk, step)
    disk.power_cut(NOTHING)
    after = disk.reopen().image()
    disk = disk.reopen()
    disk.power_cut()
    assert disk.reopen().image() == after, "what survived one power cut survives the next"


@dataclass
class FileRecord:
    """What a file has looked like since its last sync that anybody can rely on, oldest first."""

    views: list[bytes] = field(default_factory=lambda: [b""])
    trusted: bool = True

    def admits(self, content: bytes) -> bool:
        sizes = [len(view) for view in self.views]
        if not min(sizes) <= len(content) <= max(sizes):
            return False
        for start in range(0, len(content), SECTOR):
            piece = content[start : start + SECTOR]
            wanted = {view[start : start + len(piece)] for view in self.views}
            if len(wanted) == 1 and piece not in wanted:
                return False
            held = [{0, *(view[at] for view in wanted if at < len(view))} for at in range(len(piece))]
            if any(byte not in bytes_held for byte, bytes_held in zip(piece, held, strict=True)):
                return False
        return True


class Ledger:
    """What a store may rely on: kept beside the disk, from the calls and the contract alone."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.files: dict[str, FileRecord] = {}
        # Names that are not safe, with the directories that they wait for; a failed sync makes one wait for ever.
        self.unsafe: dict[str, set[str]] = {}
        self.had_name: dict[str, list[FileRecord]] = {path: [] for path in FILES}

    def carry_out(self, step: Step) -> None:
        try:
            carry_out(self.disk, step)
        except DiskFailed:
            self._failed(step)
        except Crashed:
            self._crashed(step)
            raise
        else:
            self._done(step)

    def _done(self, step: Step) -> None:
        if step.operation == "create":
            self._name(step.path, FileRecord(), [step.path])
        elif step.operation == "remove":
            del self.files[step.path]
            self._touch(step.path, [step.path])
        elif step.operation == "rename" and step.path != step.other:
            self._name(step.other, self.files.pop(step.path), [step.path, step.other])
            self._touch(step.path, [step.path, step.other])
        elif step.operation == "sync_directory":
            for waiting in self.unsafe.values():
                waiting.discard(step.path)
        elif step.operation == "sync" and self.files[step.path].trusted:
            del self.files[step.path].views[:-1]
        elif step.operation in CONTENT:
            self._look(step.path)

    def _failed(self, step: Step) -> None:
        if step.operation == "sync_directory":
            for waiting in self.unsafe.values():
                if step.path in waiting:
                    waiting.add("for ever")
        elif step.operation == "sync" and step.path in self.files:
            self.files[step.path].trusted = False
        elif step.operation in CONTENT and step.path in self.files:
            self._look(step.path)

    def _crashed(self, step: Step) -> None:
        """It was done, in part or not at all."""
        if step.operation in CONTENT and step.path in self.files:
            self._look(step.path)
        elif step.operation == "create":
            self.had_name[step.path].append(FileRecord())
            self._touch(step.path, [step.path])
        elif step.operation == "remove":
            self._touch(step.path, [step.path])
        elif step.operation == "rename" and step.path in self.files:
            self.had_name[step.other].append(self.files[step.path])
            self._touch(step.path, [step.path, step.other])
            self._touch(step.other, [step.path, step.other])

    def _look(self, path: str) -> None:
        self.files[path].views.append(self.disk.image()[path])

    def _name(self, path: str, record: FileRecord, places: list[str]) -> None:
        self.files[path] = record
        self.had_name[path].append(record)
        self._touch(path, places)

    def _touch(self, path: str, places: list[str]) -> None:
        self.unsafe.setdefault(path, set()).update(os.path.dirname(place) for place in places)

    def check(self, image: dict[str, bytes], context: str) -> None:
        for path in FILES:
            if not self.unsafe.get(path):
                assert (path in image) == (path in self.files), f"{path} was safe\n{context}"
                if path in image:
                    assert self.files[path].admits(image[path]), f"{path} is not what it was\n{context}"
            elif path in image:
                assert any(record.admits(image[path]) for record in self.had_name[path]), f"{path}\n{context}"


@given(
    steps([*ON_FILES, *ON_NAMES, "sync", "sync_directory"], [*FILES, "d", ""]),
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.0, 0.2]),
    st.integers(1, 100),
)
def test_what_is_synced_is_intact_after_a_power_cut(
    script: list[Step], seed: int, failing: float, crash: int
) -> None:
    chance = Chance(seed)
    disk = SimDisk(chance)
    disk.make_directory("d")
    ledger = Ledger(disk)
    for path in ("a", "b", "d/a"):
        # Without files to begin with, most scripts would do nothing.
        ledger.carry_out(Step("create", path))
        ledger.carry_out(Step("append", path, size=SECTOR + 1))
    for directory in ("d", ""):
        ledger.carry_out(Step("sync_directory", directory))
    disk.toxics.extend([Flaky(chance, failing, CONTENT | SYNCS), CrashNth(crash)])
    try:
        for step in script:
            if step.operation == "sync_directory" or {step.path, step.other} <= set(FILES):
                ledger.carry_out(step)
    except Crashed:
        pass
    disk.power_cut()
    ledger.check(disk.reopen().image(), disk.trace())


def long_day(seed: int) -> tuple[int, str, list[dict[str, bytes]]]:
    """Processes and machines come and go, with everything that can go wrong; all of it from one seed."""
    chance = Chance(seed)
    disk = SimDisk(chance, size_max=40 * SECTOR, toxics=[Flaky(chance, 0.1)])
    operations = ON_FILES + ON_NAMES + OTHERS
    images = []
    for _ in range(20):
        disk.toxics[1:] = [CrashNth(chance.integer(80) + 1)]
        try:
            for _ in range(60):
                pos, size, letter = (chance.integer(bound) for bound in (2000, 2000, 255))
                path, other = (PATHS[chance.integer(len(PATHS))] for _ in range(2))
                answer(
                    disk, Step(operations[chance.integer(len(operations))], path, other, pos, size, letter)
                )
                if chance.integer(50) == 0:
                    disk.flip_random_bit()
        except Crashed:
            pass
        if chance.integer(2):
            disk.kill()
        else:
            disk.power_cut()
        disk = disk.reopen()
        images.append(disk.image())
    return disk.digest, disk.trace(), images


def test_the_same_seed_gives_the_same_day() -> None:
    for seed in range(5):
        assert long_day(seed) == long_day(seed)
    assert len({long_day(seed)[0] for seed in range(5)}) == 5


def test_survival_is_drawn_from_kind_to_cruel() -> None:
    chance = Chance(1)
    drawn = {Survival.drawn(chance) for _ in range(2000)}
    assert {NOTHING, EVERYTHING} <= drawn
    assert len(drawn) == 125
