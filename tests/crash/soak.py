"""Kills writers of logs for as long as it is told: `PYTHONPATH=tests python -m crash.soak --seconds 600`.

Many kills are at a random moment; the others are at the named points, all of them in turn, in an order by chance. A
store is written to for some rounds, then a fresh one begins; each has its own seed, from which its settings, its
messages and what is done to them follow. When something is wrong, the seed is told and what was on the disk is kept.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from crash.deadly_disk import Point
from crash.log_plan import Plan
from crash.log_supervisor import Figures, StoreSupervisor
from tidelog.base.chance import Chance

# What a log and its cursors ask of a disk.
CALLS = {
    "make_directory": (".",),
    "sync_directory": (".",),
    "create": ("seg", "seg.new", "idx.new", "ceiling.new", "snapshot.new", "cursors.new"),
    "append": ("seg", "seg.new", "idx.new", "ceiling.new", "snapshot.new", "cursors.new", "cursors"),
    "sync": ("seg", "seg.new", "idx.new", "ceiling.new", "cursors.new", "cursors"),
    "rename": ("seg", "idx", "ceiling", "snapshot", "cursors"),
    "remove": (
        "seg",
        "idx",
        "ceiling",
        "snapshot",
        "seg.new",
        "idx.new",
        "ceiling.new",
        "snapshot.new",
        "cursors.new",
    ),
    "truncate": ("seg",),
}
POINTS = [
    Point(operation, kind, when)
    for operation, kinds in CALLS.items()
    for kind in kinds
    for when in (("before", "amid", "after") if operation == "append" else ("before", "after"))
]
# These are called often, so any of the first calls will do.
FREQUENT = {"seg", "idx", "idx.new"}
# What is reached only after another kill, and which.
LEADS = {
    ("truncate", "seg"): Point("append", "seg", "amid"),
    ("remove", "seg.new"): Point("rename", "seg", "before"),
    ("remove", "idx.new"): Point("rename", "idx", "before"),
    ("remove", "ceiling.new"): Point("rename", "ceiling", "before"),
    ("remove", "snapshot.new"): Point("rename", "snapshot", "before"),
    ("remove", "cursors.new"): Point("rename", "cursors", "before"),
}
ROUNDS_PER_STORE = (6, 12, 40)
TRIES_PER_POINT = 24
# One store in so many has LOGS_MOST logs, which die together.
MANY_LOGS_EVERY = 6
LOGS_MOST = 16
# Copies are only looked at. In memory that is quick.
COPIES = "/dev/shm"


@dataclass
class Bounds:
    kills: int  # and every point once
    end: float  # in monotonic time

    def over(self, figures: Figures) -> bool:
        enough = figures.kills >= self.kills and len(figures.points) == len(POINTS)
        return enough or time.monotonic() >= self.end


class Soak:
    def __init__(self, root: str, copies: str, seed: int, bounds: Bounds) -> None:
        self.root = root
        self.copies = copies
        self.bounds = bounds
        self.seed = seed
        self.chance = Chance(seed)
        self.figures = Figures()
        self.store: StoreSupervisor | None = None
        self.left = 0

    def run(self) -> None:
        for number, point in enumerate(self.points()):
            self.strike(point)
            # The first time all points come soon, and then as many kills are at random.
            if number >= len(POINTS) or number % 3 == 0:
                self.ready().round()
            if self.bounds.over(self.figures):
                return

    def points(self) -> Iterator[Point]:
        while True:
            points = list(POINTS)
            while points:
                yield points.pop(self.chance.integer(len(points)))

    def strike(self, point: Point) -> None:
        """Rounds until a writer has ended at the point."""
        for attempt in range(TRIES_PER_POINT):
            lead = LEADS.get((point.operation, point.kind))
            if attempt and attempt % 4 == 0:
                # With these settings it may never come.
                self.left = 0
            if lead is not None and not self.ready().round(lead, 1):
                continue
            at = 1 + self.chance.integer(12) if point.kind in FREQUENT and not attempt else 1
            if self.ready(lead is not None).round(point, at):
                return
            if self.bounds.over(self.figures):
                return
        raise AssertionError(f"no writer has come to the point: {point}")

    def ready(self, same: bool = False) -> StoreSupervisor:
        """The store of the next round: the `same` as before, or a fresh one when it is time for that."""
        if self.store is None or (self.left <= 0 and not same):
            self.seed += 1
            self.left = ROUNDS_PER_STORE[self.chance.integer(len(ROUNDS_PER_STORE))]
            root, copy = os.path.join(self.root, str(self.seed)), os.path.join(self.copies, str(self.seed))
            many = self.figures.stores % MANY_LOGS_EVERY == MANY_LOGS_EVERY - 1
            if self.store is not None:
                shutil.rmtree(self.store.root)
                shutil.rmtree(self.store.copy)
            plan = Plan.drawn(self.seed, LOGS_MOST if many else 1)
            self.store = StoreSupervisor(root, copy, plan, self.figures)
        self.left -= 1
        return self.store


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill writers of logs, and compare what they leave.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=1 << 60, help="End after so many, and each point once.")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="tidelog-crash-")
    copies = tempfile.mkdtemp(prefix="tidelog-crash-", dir=COPIES if os.path.isdir(COPIES) else None)
    begun = time.monotonic()
    soak = Soak(root, copies, options.seed, Bounds(options.kills, begun + options.seconds))
    print(f"crash soak: seed {options.seed}, in {root}, copies in {copies}", flush=True)
    try:
        soak.run()
    except BaseException:
        with contextlib.suppress(AttributeError):
            print(f"crash soak: in round {soak.store.run} of {soak.store.plan}")  # type: ignore[union-attr]
        print(f"crash soak: failed; what was on the disk is in {root} and {copies}", flush=True)
        raise
    shutil.rmtree(root)
    shutil.rmtree(copies)
    print(json.dumps(told(soak.figures, time.monotonic() - begun)))
    return 0


def told(figures: Figures, seconds: float) -> dict[str, object]:
    return {
        "seconds": round(seconds, 1),
        "kills": figures.kills,
        "at_points": sum(figures.points.values()),
        "points": len(figures.points),
        "closed": figures.ends,
        "stores": figures.stores,
        "compacted": figures.compacted,
        "packed": figures.packed,
        "removed": figures.removed,
        "logs_checked": figures.checks,
        "acks_checked": figures.acks,
        "repairable": dict(figures.repairs),
    }


if __name__ == "__main__":
    sys.exit(main())
