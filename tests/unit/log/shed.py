"""A depot in memory, which refuses, comes late or forgets when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from sim.worker import SimWorker
from tidelog.base.errors import ColdError, ColdForeign
from tidelog.log.columns import Columns
from tidelog.log.depot import Throttle

Row = tuple[int, int, int, bytes, bytes, bytes]


def rows_of(columns: Columns) -> list[Row]:
    """Sequence, time, expiry, subject, header block and payload."""

    def ints(data: bytes, width: int) -> list[int]:
        return [
            int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)
        ]

    def texts(ends: bytes, data: bytes) -> list[bytes]:
        found = ints(ends, 4)
        return [data[start:end] for start, end in pairwise(found)]

    times = [
        us * 1000 + ns for us, ns in zip(ints(columns.time_us, 8), ints(columns.time_ns, 2), strict=True)
    ]
    return list(
        zip(
            ints(columns.seq, 8),
            times,
            ints(columns.expiry_ns, 8),
            texts(columns.subject_ends, columns.subjects),
            texts(columns.header_ends, columns.headers),
            texts(columns.payload_ends, columns.payloads),
            strict=True,
        )
    )


@dataclass
class ShedHistory:
    shed: Shed
    stretches: list[tuple[int, int, Columns]] = field(default_factory=list)
    trims: list[tuple[int, int | None]] = field(default_factory=list)
    removed: bool = False

    def end_seq(self) -> int:
        self.shed.call("end_seq")
        return self.stretches[-1][1] if self.stretches else 0

    def add(self, start_seq: int, end_seq: int, columns: Columns) -> int:
        self.shed.call("add")
        end = self.stretches[-1][1] if self.stretches else start_seq
        if end >= end_seq:
            self.check(start_seq, end_seq, columns)
        elif end != start_seq:
            raise ColdError(f"{start_seq} does not follow {end}")
        else:
            self.stretches.append((start_seq, end_seq, columns))
        self.shed.call("added")
        return len(columns.payloads)

    def check(self, start_seq: int, end_seq: int, columns: Columns) -> None:
        self.shed.call("check")
        there = {row[0]: row for part in self.rows(start_seq, end_seq) for row in rows_of(part)}
        if any(there.get(row[0]) != row for row in rows_of(columns)):
            raise ColdForeign(f"[{start_seq}, {end_seq}) is somebody else's")

    def rows(self, start_seq: int, end_seq: int) -> list[Columns]:
        self.shed.call("rows")
        return [part for start, end, part in self.stretches if start < end_seq and end > start_seq]

    def trim(self, start_seq: int, before_ns: int | None, end_seq: int) -> None:
        self.shed.call("trim")
        self.compare(end_seq)
        self.trims.append((start_seq, before_ns))
        self.stretches[:-1] = [
            one
            for one in self.stretches[:-1]
            if one[1] > start_seq
            or (before_ns is not None and any(row[1] >= before_ns for row in rows_of(one[2])))
        ]

    def remove(self, end_seq: int) -> None:
        self.shed.call("remove")
        self.compare(end_seq)
        self.stretches.clear()
        self.removed = True

    def compare(self, end_seq: int) -> None:
        there = self.stretches[-1][1] if self.stretches else 0
        if there != end_seq:
            raise ColdError(f"it ends before {there}, not {end_seq}")

    def seqs(self) -> list[int]:
        return [row[0] for _, _, part in self.stretches for row in rows_of(part)]


class Shed:
    """A depot with one worker for everything, which goes on when it is told to."""

    def __init__(self, worker: SimWorker | None = None) -> None:
        self.sender = self.fetcher = worker if worker is not None else SimWorker()
        self.throttle = Throttle()
        self.url = "shed"
        self.histories: dict[bytes, ShedHistory] = {}
        self.calls: list[str] = []
        self.fault: Callable[[str], None] | None = None  # told of every call; may raise

    def history(self, log_id: bytes) -> ShedHistory:
        return self.histories.setdefault(log_id, ShedHistory(self))

    @property
    def only(self) -> ShedHistory:
        (history,) = self.histories.values()
        return history

    def call(self, what: str) -> None:
        self.calls.append(what)
        if self.fault is not None:
            self.fault(what)

    def break_down(self) -> None:
        def fault(what: str) -> None:
            raise ColdError(f"the store does not answer ({what})")

        self.fault = fault

    def mend(self) -> None:
        self.fault = None
