"""Starts writers, kills them, and looks at what they leave behind.

A round: a process is forked that opens the store and writes. It is killed at a random moment, or ends itself at a
named point of its disk, or closes its logs. Then a copy of the store is checked, opened, and compared with what the
writer has told; the next writer opens the store itself, as the kill has left it.
"""

import os
import select
import shutil
import signal
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from crash.deadly_disk import DeadlyDisk, Point
from crash.log_ledger import LogLedger
from crash.log_plan import KEYS, Plan
from crash.log_writer import Order, write
from tidelog.base.chance import Chance
from tidelog.base.clock import SystemClock
from tidelog.base.work import Inline
from tidelog.disk.real import RealDisk
from tidelog.log.fsck import Severity, check_log, repair_log
from tidelog.log.key_ring import KeyRing
from tidelog.log.recover import open_logs

# A writer that is neither killed nor done by then hangs.
PATIENCE_S = 120.0


@dataclass
class Figures:
    kills: int = 0
    ends: int = 0  # writers that closed their logs
    checks: int = 0  # of logs
    acks: int = 0
    stores: int = 0
    compacted: int = 0  # segments
    packed: int = 0
    removed: int = 0
    points: Counter[Point] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)  # what fsck would have mended, by kind of file


class StoreSupervisor:
    """One store, from its first writer on."""

    def __init__(self, root: str, copy: str, plan: Plan, figures: Figures) -> None:
        self.root = root
        self.copy = copy
        self.plan = plan
        self.figures = figures
        self.run = 0
        self.boot = 1
        self.chance = Chance(plan.seed + 7)
        self.ledgers = [LogLedger(plan, plan.directory(number)) for number in range(plan.logs)]
        os.makedirs(self.root)
        figures.stores += 1

    def round(self, point: Point | None = None, at: int = 0) -> bool:
        """One writer, and a check. Tells whether it was killed (at the point, if one is given)."""
        self.run += 1
        chance = self.chance
        order = Order(
            self.root,
            self.plan,
            self.run,
            ticks=1 + chance.integer(80 if self.plan.logs == 1 else 20),
            seen=tuple(ledger.seen_seq for ledger in self.ledgers),
            boot=self.boot,
            point=point,
            at=at,
        )
        # From within the opening to long after it.
        delay_s = chance.fraction() * (0.004, 0.03, 0.12)[chance.integer(3)]
        lines, killed = self.lead(order, None if point else delay_s)
        struck = self.take(lines, killed)
        if point is not None and struck:
            self.figures.points[point] += 1
        # Whether anything was lost or not, sequences that may have been have to be left out.
        self.boot += chance.integer(4) == 0
        self.check()
        return struck if point is not None else killed

    # ---- the writer ----

    def lead(self, order: Order, delay_s: float | None) -> tuple[list[bytes], bool]:
        """Let a process write, and kill it so long after it is up. What it told, and whether it was killed."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os._exit(run_writer(order, writing))
        os.close(writing)
        try:
            heard = self.listen(pid, reading, delay_s)
        finally:
            os.close(reading)
            _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status)
        if killed:
            assert os.WTERMSIG(status) == signal.SIGKILL, f"the writer ended by signal {os.WTERMSIG(status)}"
            self.figures.kills += 1
        else:
            text = heard.partition(b"\nerror ")[2].decode().replace("\x00", "\n")
            assert os.WEXITSTATUS(status) == 0, f"the writer found an error:\n{text}"
            self.figures.ends += 1
        # An unfinished last line was not told.
        return heard.split(b"\n")[:-1], killed

    def listen(self, pid: int, pipe: int, delay_s: float | None) -> bytes:
        heard = bytearray()
        kill_at, give_up_at = None, time.monotonic() + PATIENCE_S
        while True:
            now = time.monotonic()
            if kill_at is None and delay_s is not None and b"0 up\n" in heard:
                kill_at = now + delay_s
            if now > (kill_at or give_up_at):
                os.kill(pid, signal.SIGKILL)
                assert now < give_up_at, "the writer hangs"
                delay_s = kill_at = None
            timeout_s = max(0.0, (kill_at or give_up_at) - now)
            if select.select([pipe], [], [], timeout_s)[0]:
                part = os.read(pipe, 1 << 16)
                if not part:
                    return bytes(heard)
                heard += part

    def take(self, lines: list[bytes], killed: bool) -> bool:
        """Let the ledgers hear it. Tells whether the named point was reached."""
        struck = False
        for ledger in self.ledgers:
            ledger.closed = ledger.settled = False
            ledger.work = (0, 0, 0)
        for line in lines:
            number, kind, *numbers = line.decode().split()
            if kind == "struck":
                struck = True
            elif kind != "up":
                self.ledgers[int(number)].hear(self.run, kind, tuple(map(int, numbers)))
        for compacted, packed, removed in (ledger.work for ledger in self.ledgers):
            self.figures.compacted += compacted
            self.figures.packed += packed
            self.figures.removed += removed
        assert killed or all(ledger.closed for ledger in self.ledgers)
        return struck

    # ---- what it left ----

    def check(self) -> None:
        before = sum(ledger.acks for ledger in self.ledgers)
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.root, self.copy)
        self.look(Severity.REPAIRABLE)
        if self.chance.integer(3) == 0:
            # What opening would mend may be mended before; it makes no difference.
            self.repair()
            self.look(Severity.NOTE)
        closed = self.open_copy([ledger.settled for ledger in self.ledgers])
        self.look(Severity.NOTE)
        # What was closed, or left as it was, is the same again.
        self.open_copy([closed] * len(self.ledgers))
        self.figures.checks += len(self.ledgers)
        self.figures.acks += before
        for ledger in self.ledgers:
            ledger.acks = 0

    def look(self, worst: Severity) -> None:
        """Nothing is lost; and after it was opened, nothing is left to mend."""
        disk = RealDisk(self.copy, read_only=True)
        for directory in self.directories(disk):
            report = check_log(disk, directory, KeyRing(KEYS))
            bad = [finding for finding in report.findings if finding.severity > worst]
            assert not bad, f"{directory}: {bad}"
            for finding in report.findings:
                if finding.severity is Severity.REPAIRABLE:
                    self.figures.repairs[finding.name[21:] or finding.name] += 1

    def repair(self) -> None:
        disk = RealDisk(self.copy)
        for directory in self.directories(disk):
            repair_log(disk, directory, SystemClock(), KeyRing(KEYS))

    def directories(self, disk: RealDisk) -> list[str]:
        """Of the logs that were begun."""
        return [ledger.directory for ledger in self.ledgers if disk.exists(ledger.directory)]

    def open_copy(self, were_closed: list[bool]) -> bool:
        """Compare, and close the logs or not; tells whether it did."""
        disk = DeadlyDisk(RealDisk(self.copy), self.boot)
        directories = [ledger.directory for ledger in self.ledgers]
        opened = open_logs(disk, directories, self.plan.settings(self.run), SystemClock(), Inline())
        close = self.chance.integer(2) == 0
        for ledger, was_closed, (log, findings) in zip(self.ledgers, were_closed, opened, strict=True):
            assert findings.clean or not was_closed, f"a log that was closed was opened as if not: {findings}"
            ledger.check(log)
            ledger.check_cursors(disk)
            if close:
                log.close()
            else:
                for segment in log.store.segments:
                    segment.close()
        disk.unlock()
        return close


def run_writer(order: Order, pipe: int) -> int:
    """In the forked process; its exit code."""
    try:
        write(order, pipe)
    except BaseException:  # noqa: BLE001 - it is told, and this is the end
        os.write(pipe, b"\nerror " + traceback.format_exc().replace("\n", "\x00").encode() + b"\n")
        return 1
    return 0
