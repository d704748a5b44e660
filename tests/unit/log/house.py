"""A log on a simulated disk, whose background work and whose time go on when a test says so."""

from sim.disk import SimDisk
from sim.medium import Survival
from sim.worker import SimWorker
from tidelog.base.clock import ManualClock
from tidelog.log.log import Log
from tidelog.log.policy import STRICT
from tidelog.log.read import Message
from tidelog.log.recover import Findings, open_log
from tidelog.log.settings import LogSettings

KIB = 1024


class House:
    def __init__(self, settings: LogSettings | None = None, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk(1)
        self.worker = SimWorker()
        self.clock = ManualClock()
        self.settings = settings or LogSettings(policy=STRICT, segment_size=16 * KIB, window_size=KIB)
        self.log, self.findings = self.open()

    def open(self) -> tuple[Log, Findings]:
        return open_log(self.disk, "log", self.settings, self.clock, self.worker)

    def fill(self, count: int, subjects: int = 7, payload: bytes = b"x" * 100) -> None:
        for number in range(count):
            self.clock.advance(ns=1_000_000)
            self.log.append(b"s.%d" % (number % subjects), b"%06d" % number + payload)
            if number % 10 == 9:
                self.log.commit()
        self.log.commit()

    def remove(self, seqs: list[int]) -> None:
        for seq in seqs:
            assert self.log.remove(seq)
        self.log.commit()

    def settle(self) -> None:
        """Until nothing is left to do in the background."""
        self.log.commit()
        for _ in range(1000):
            self.worker.run_all()
            due_ns = self.log.next_due_ns()
            if due_ns is None:
                return
            self.clock.advance(ns=max(0, due_ns - self.clock.monotonic_ns()))
            self.log.tick()
        raise AssertionError("there is always something to do")

    def crash(self, power: bool | Survival = False) -> None:
        """The process ends at once, or the machine, and leaves what it says; and the log is opened again."""
        self.worker.drop_all()
        if isinstance(power, Survival):
            self.disk.power_cut(power)
        elif power:
            self.disk.power_cut()
        else:
            self.disk.kill()
        self.disk = self.disk.reopen()
        self.log, self.findings = self.open()

    def reopen(self, settings: LogSettings | None = None) -> None:
        """Closed, and opened again."""
        self.log.close()
        self.worker.run_all()
        self.settings = settings or self.settings
        self.log, self.findings = self.open()

    def messages(self, backward: bool = False) -> list[Message]:
        reader, found = self.log.reader(backward=backward), []
        while len(batch := reader.read()):
            found += list(batch)
        return found[::-1] if backward else found

    def seqs(self) -> list[int]:
        return [message.seq for message in self.messages()]

    def segment_sizes(self) -> dict[str, int]:
        return {name: len(data) for name, data in self.disk.image().items() if name.endswith(".seg")}
