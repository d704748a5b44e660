"""What is measured in a process that does nothing else: `python -m tidelog.bench.store.child DIR SCALE ROUNDS JOB ...`.

Each job answers with one line of JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.base.clock import SystemClock
from tidelog.base.work import Inline
from tidelog.bench.case import chosen
from tidelog.bench.fault import require
from tidelog.bench.store import load
from tidelog.bench.store.case import CASES
from tidelog.bench.store.figure import as_fields
from tidelog.bench.store.flock import Flock
from tidelog.bench.store.stage import Stage, device_mix, device_subject, disk_at, opened
from tidelog.disk.real import RealDisk
from tidelog.log.filter import Filter
from tidelog.log.recover import open_log

BATCH = 1024


def answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


def fill(stage: Stage, path: str, messages: str, subjects: str) -> None:
    """Append, say so, and go on appending until somebody kills us."""
    mix = device_mix(int(subjects))
    with opened(disk_at(Path(path)), stage.settings()) as (logs, worker):
        load.append(logs, mix, int(messages), BATCH, worker=worker)
        answer(int(messages))
        while True:
            load.append(logs, mix, BATCH, BATCH, worker=worker)


def open_once(stage: Stage, path: str, messages: str, subjects: str, *, close: str = "") -> None:
    """Open a log and say how long that took, and what memory it takes. With `close`, close it, too."""
    disk = RealDisk(path)
    before = resident_size()
    start_ns = time.monotonic_ns()
    log, findings = open_log(disk, "log", stage.settings(), SystemClock(), Inline())
    opened_ns = time.monotonic_ns() - start_ns
    after = resident_size()
    state = log.state()
    require(state.messages == state.last_seq >= int(messages), f"{state.messages} of {messages} messages")
    require(state.subjects == int(subjects), f"{state.subjects} of {subjects} subjects")
    require(not findings.lost, f"lost: {findings.lost}")
    for number in range(0, int(subjects), max(1, int(subjects) // 100)):
        subject = device_subject(number)
        found = log.get(log.previous(Filter(subject), state.last_seq))
        require(found is not None and found.subject == subject, f"{subject!r} has {found!r}")
    start_ns = time.monotonic_ns()
    if close:
        log.close()
    answer(
        {
            "ns": opened_ns,
            "close_ns": time.monotonic_ns() - start_ns,
            "size": after - before,
            "index_size": log.store.index.memory_size(),
            "messages": state.messages,
            "clean": findings.clean,
        }
    )


def open_and_close(stage: Stage, path: str, messages: str, subjects: str) -> None:
    open_once(stage, path, messages, subjects, close="yes")


def follow(stage: Stage, path: str, readers: str, messages: str) -> None:
    """What readers take that have followed for a while and wait now."""
    mix = device_mix(1)
    with opened(disk_at(Path(path)), stage.settings()) as (logs, worker):
        (log,) = logs
        load.append(logs, mix, BATCH, BATCH, worker=worker)
        before = resident_size()
        flock = Flock(log, int(readers))
        for _ in range(int(messages) // BATCH):
            load.append(logs, mix, BATCH, BATCH, worker=worker)
            flock.read()
        after = resident_size()
        require(flock.least == int(messages) // BATCH * BATCH, f"a reader has {flock.least} of {messages}")
        answer({"size": after - before})


def case(stage: Stage, name: str) -> None:
    """All figures of a case."""
    (found,) = chosen(CASES, (name,))
    answer([as_fields(figure) for figure in found.work.measure(stage)])


def resident_size() -> int:
    """Bytes of memory that are this process's own, without files that are mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("the system does not say how much memory is resident")


JOBS: dict[str, Callable[..., None]] = {
    "fill": fill,
    "open": open_once,
    "close": open_and_close,
    "follow": follow,
    "case": case,
}


def main() -> int:
    directory, scale, rounds, job, *arguments = sys.argv[1:]
    JOBS[job](Stage(Path(directory), float(scale), int(rounds)), *arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
