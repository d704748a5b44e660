"""Where cases run: how large, how often, and the logs that they are measured on.

Promises
  * Every round has a state of its own: a fresh log, or a fresh copy of one.
  * Measurements that depend on what a process did before (memory, opening) are made in a child that does nothing else.
  * The large log on disk is made once, by a child that is killed while it writes, and left as it was then.

Directories are copied with hard links for sealed segments, which nobody changes; what a log may change is copied.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.base.clock import SystemClock
from tidelog.base.errors import TidelogError
from tidelog.base.limits import MIB
from tidelog.base.work import Threads
from tidelog.bench.store.load import Mix
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.disk.real import RealDisk
from tidelog.log.log import Log
from tidelog.log.policy import THROUGHPUT, SyncPolicy
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings

MESSAGES = 10_000_000
SUBJECTS = 1_000_000
PAYLOAD_SIZE = 128
ROUNDS = 3
# A child that takes longer after it has answered hangs.
CHILD_TIMEOUT_S = 60.0


class ChildFailed(TidelogError):
    """A child did not do its part; the message quotes what it said."""


@dataclass(slots=True)
class Stage:
    directory: Path
    scale: float = 1.0
    rounds: int = ROUNDS

    def count(self, full: int, least: int = 1000) -> int:
        """So many of what a full run has `full` of."""
        return max(min(least, full), round(full * self.scale))

    def settings(self, policy: SyncPolicy = THROUGHPUT) -> LogSettings:
        """Segments shrink with the logs, so that there are some."""
        return LogSettings(policy=policy, segment_size=max(MIB // 8, round(64 * MIB * min(1.0, self.scale))))

    def fresh(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.directory))

    def remove(self, path: Path) -> None:
        shutil.rmtree(path)

    def killed_log(self, messages: int = MESSAGES, subjects: int = SUBJECTS) -> Path:
        """A log whose writer was killed. It is not to be opened; `copied` makes one that is."""
        numbers = self.count(messages), self.count(subjects, least=1)
        path = self.directory / "killed-{}-{}".format(*numbers)
        if not path.exists():
            child(self, "fill", str(path), *map(str, numbers), kill=True)
        return path

    @contextmanager
    def copied(self, path: Path) -> Iterator[Path]:
        """A log just like the one at `path`, for as long as it is needed."""
        copy = self.fresh()
        try:
            copy_log(path, copy)
            yield copy
        finally:
            self.remove(copy)


def device_subjects(count: int) -> list[bytes]:
    """Subjects of three tokens, as devices of some site would have."""
    return [device_subject(number) for number in range(count)]


def device_subject(number: int) -> bytes:
    return b"bench.site%d.device%d" % (number % 97, number)


def device_mix(subjects: int, size: int = PAYLOAD_SIZE) -> Mix:
    return Mix(device_subjects(subjects), size=size)


@contextmanager
def opened(
    disk: Disk, settings: LogSettings, names: tuple[str, ...] = ("log",), threads: int = 1
) -> Iterator[tuple[list[Log], Threads]]:
    """Logs as a server has them: real clock, work in threads. They are not closed but forgotten."""
    worker = Threads(threads)
    try:
        yield [open_log(disk, name, settings, SystemClock(), worker)[0] for name in names], worker
    finally:
        settle(worker)
        worker.stop()
        disk.unlock()


def settle(worker: Threads) -> None:
    """Until nothing is under way in the background."""
    while worker.under_way:
        worker.deliver(None)


def disk_at(path: Path | None) -> Disk:
    """In memory, if there is no path."""
    return MemoryDisk() if path is None else RealDisk(str(path))


def copy_log(path: Path, copy: Path) -> None:
    for source in sorted(path.rglob("*")):
        target = copy / source.relative_to(path)
        if source.is_dir():
            target.mkdir()
        elif source.suffix == ".seg" and source != max(source.parent.glob("*.seg"), key=lambda one: one.name):
            os.link(source, target)
        else:
            shutil.copy2(source, target)


def child(stage: Stage, job: str, *arguments: str, kill: bool = False) -> Any:
    """What a job of `bench.store.child` answers in a process of its own. `kill`: as soon as it has, without mercy."""
    scale, rounds = str(stage.scale), str(stage.rounds)
    command = [
        sys.executable,
        "-m",
        "tidelog.bench.store.child",
        str(stage.directory),
        scale,
        rounds,
        job,
        *arguments,
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if kill:
            process.kill()
        _, said = process.communicate(timeout=CHILD_TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    if not line:
        raise ChildFailed(f"{job} {' '.join(arguments)}: {said}")
    return json.loads(line)
