"""Lives of a log that has a depot: segments go there and come back, and either side may fail or end at any point.

    ColdLives(seed).run()

As `sim.log_life`, of which this is a kind; the depot outlives processes and power. At the end it has what the log has
sent, in order, once, without a gap, and as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sim.log_life import BOUNDLESS, POLICIES, Figures, Lives
from sim.toxic import Crashed
from sim.worker import SimWorker
from tidelog.base.clock import ManualClock
from tidelog.base.errors import ColdError
from tidelog.log.depot import Tiering
from tidelog.log.log import Log
from tidelog.log.policy import SyncPolicy
from tidelog.log.settings import LogSettings
from unit.log.log_model import NS
from unit.log.shed import Shed, rows_of


@dataclass
class ColdFigures:
    sent: int = 0
    husks: int = 0
    fetched: int = 0
    refused: int = 0  # calls of the depot that failed, some of them when they were done
    amid: int = 0  # processes that ended in one


class SimShed(Shed):
    """Its own worker fetches, so that a test can have something back at once."""

    def __init__(self, worker: SimWorker, clock: ManualClock) -> None:
        super().__init__(worker)
        self.fetcher = SimWorker()
        self.clock = clock

    def bring(self, log: Log) -> None:
        fault, self.fault = self.fault, None
        size_max, log.disk.size_max = log.disk.size_max, BOUNDLESS
        fetched = log.keeper.ferry.fetcher.figures.segments
        # Else nobody would wait, and nothing be tried again.
        log.when_warm(bool)
        try:
            for number in range(100):
                if number == 50:
                    # Nothing comes to a disk that is full for good.
                    log.disk.toxics.clear()
                self.fetcher.run_all()
                if log.keeper.ferry.fetcher.figures.segments > fetched:
                    return
                self.clock.advance(ns=NS)
                log.keeper.ferry.fetcher.tick(log)
        finally:
            self.fault = fault
            log.disk.size_max = size_max
        raise AssertionError(f"it does not come back: {log.keeper.ferry.fetcher.failing}")


class ColdLives(Lives):
    def __init__(
        self,
        seed: int,
        figures: Figures | None = None,
        policies: Sequence[SyncPolicy] = POLICIES,
        cold: ColdFigures | None = None,
    ) -> None:
        super().__init__(seed, figures, policies)
        self.cold = cold or ColdFigures()
        self.shed = SimShed(self.worker, self.clock)
        self.deeds = (*self.deeds, *[self.fetch_some] * 3, *[self.work_on] * 8, *[self.turn_cold] * 2)

    def run(self, lives: int = 8) -> None:
        super().run(lives)
        self.check_shed()

    # ---- lives ----

    def live(self) -> None:
        self.shed.fault = None
        super().live()

    def end(self, power: bool) -> None:
        super().end(power)
        self.check_shed()

    def drop_work(self) -> None:
        super().drop_work()
        self.shed.fetcher.drop_all()

    def turn_a_bit(self) -> None:
        self.shed.fault = None
        super().turn_a_bit()

    def drawn_settings(self) -> LogSettings:
        tiering = Tiering(
            self.shed,
            sends=not self.one_in(6),
            local_size=self.pick((0, 0, 2000, None)),
            local_age_ns=self.pick((None, None, 5 * NS)),
            # What is to outlive the log is sent though nobody can read it any more.
            keep_ns=self.pick((0, 0, None)),
            warm_size=self.pick((0, 10_000)),
        )
        size = self.pick((300, 600, 600, 2000))
        return replace(super().drawn_settings(), encrypt=False, segment_size=size, tiering=tiering)

    def take_figures(self) -> None:
        super().take_figures()
        ferry = self.log.keeper.ferry
        self.cold.sent += ferry.figures.sent
        self.cold.fetched += ferry.fetcher.figures.segments
        self.cold.husks += sum(one.husk for one in self.log.store.segments)

    # ---- what is done ----

    def may_erase(self, seq: int) -> bool:
        return not self.log.keeper.ferry.has_sent(seq)

    def work_on(self) -> None:
        for _ in range(5):
            self.work()

    def fetch_some(self) -> None:
        self.shed.fetcher.half_step(self.chance)

    def turn_cold(self) -> None:
        """The depot begins to fail, to end the process, or to work again."""
        kind, countdown = self.chance.integer(4), 1 + self.chance.integer(6)

        def fault(what: str) -> None:
            nonlocal countdown
            countdown -= 1
            if kind == 1 and self.one_in(2):
                self.cold.refused += 1
                raise ColdError(f"{what} has failed")
            if kind == 2 and countdown == 0:
                self.cold.amid += 1
                raise Crashed(what)

        self.shed.fault = fault if kind in (1, 2) else None

    # ---- what is there ----

    def check_shed(self) -> None:
        for history in self.shed.histories.values():
            for before, after in pairwise(history.stretches):
                assert before[1] == after[0], "a gap or an overlap"
            rows = [row for _, _, part in history.stretches for row in rows_of(part)]
            seqs = [row[0] for row in rows]
            assert seqs == sorted(set(seqs)), "something is there twice"
            for seq, ts_ns, expiry_ns, subject, header, payload in rows:
                message = self.promise.contents[seq]
                told = (message.ts_ns, message.expiry_ns, message.subject, message.header, message.payload)
                assert told == (ts_ns, expiry_ns, subject, header, payload), f"{seq} is another message"
