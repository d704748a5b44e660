"""Every single call of the disk fails once, and the process ends in every single one, whatever the log is doing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sim.disk import SimDisk
from sim.toxic import Nth, ShortReads, every_crash, every_failure
from tidelog.base.chance import Chance
from tidelog.base.errors import StorageError
from tidelog.base.limits import KEEPER_RETRY_NS
from tidelog.log.filter import Filter
from tidelog.log.log import LogRefused
from tidelog.log.policy import STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.settings import Limits, LogSettings
from unit.log.house import House

SETTINGS = LogSettings(policy=STRICT, segment_size=2000, window_size=500)
FILLED = 60


class Trial:
    """A log with some messages, all of them synced; what it acknowledges and loses on purpose from then on."""

    def __init__(self, policy: SyncPolicy, seed: int, short_reads: float = 0.0) -> None:
        settings = replace(SETTINGS, policy=policy)
        self.house = House(settings, SimDisk(seed, short_reads=ShortReads(Chance(seed), short_reads)))
        self.house.fill(FILLED)
        self.house.log.committer.when_synced(lambda: None)
        self.house.worker.run_all()
        self.acked: set[int] = set(range(1, FILLED + 1))
        self.going: set[int] = set()
        self.strict = policy is STRICT

    def append(self, count: int) -> None:
        for _ in range(count):
            seq: int = self.house.log.append(b"s.1", b"p" * 100)
            self.house.log.wait(seq, lambda error, seq=seq: self.acknowledged(seq, error))
            self.house.log.commit()

    def acknowledged(self, seq: int, error: StorageError | None) -> None:
        if error is None:
            self.acked.add(seq)

    def settle(self) -> None:
        self.house.log.commit()
        self.house.worker.run_all()
        self.house.log.tick()
        self.house.worker.run_all()

    def check(self, power: bool) -> None:
        """In this process, if it is alive, and in the next one."""
        house = self.house
        house.disk.toxics.clear()
        house.worker.drop_all()
        if power:
            house.disk.power_cut()
        else:
            house.disk.kill()
        house.disk = house.disk.reopen()
        house.log, house.findings = house.open()
        kept = set(house.seqs())
        safe = self.acked if self.strict or not power else set(range(1, FILLED + 1))
        assert safe - self.going <= kept
        last_seq = max(self.acked)
        assert house.log.state().last_seq >= (last_seq if self.strict or not power else FILLED)
        assert house.log.append(b"s", b"p") > last_seq
        house.settle()
        house.crash(power=True)
        assert kept - self.going <= set(house.seqs())


def append(trial: Trial) -> None:
    trial.append(3)


def roll(trial: Trial) -> None:
    """Into two more segments."""
    trial.append(40)


def retention(trial: Trial) -> None:
    trial.going |= set(range(1, FILLED + 1))
    trial.house.log.configure(replace(trial.house.log.settings, limits=Limits(max_messages=15)))
    trial.append(5)


def purge(trial: Trial) -> None:
    trial.going |= set(range(1, FILLED + 1))
    trial.house.log.purge(Filter(b"s.2"))
    trial.house.log.purge(before_seq=40)


def removal(trial: Trial) -> None:
    trial.going |= {5, 20, 21}
    for seq in (5, 20):
        trial.house.log.remove(seq)
    trial.house.log.remove(21, erase=True)


def close(trial: Trial) -> None:
    trial.append(3)
    trial.house.log.close()


def opening(trial: Trial) -> None:
    trial.house.worker.drop_all()
    trial.house.log, _ = trial.house.open()
    trial.append(3)


DEEDS = [append, roll, retention, purge, removal, close, opening]


@pytest.mark.parametrize("policy", [STRICT, THROUGHPUT])
@pytest.mark.parametrize("short_reads", [0.0, 0.5])
@pytest.mark.parametrize("deed", DEEDS)
def test_every_call_that_fails(deed: Callable[[Trial], None], short_reads: float, policy: SyncPolicy) -> None:
    """APPEND-1, APPEND-2, COMMIT-3: what fails is refused or told, and costs nothing that was acknowledged."""

    def run(fault: Nth) -> None:
        trial = Trial(policy, 1, short_reads)
        trial.house.disk.toxics.append(fault)
        try:
            deed(trial)
            trial.settle()
            if trial.house.log.failure is None and deed is not close:
                trial.house.disk.toxics.clear()
                trial.house.clock.advance(ns=KEEPER_RETRY_NS)
                trial.settle()
                assert trial.acked - trial.going <= set(trial.house.seqs())
        except LogRefused:
            assert fault.fired
        finally:
            # A failed sync leaves what only the power can clear up.
            trial.check(power=fault.hit is not None and fault.hit.operation.startswith("sync"))

    assert len([outcome for _, outcome in every_failure(run)]) > 2


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("deed", DEEDS)
def test_every_call_in_which_the_process_ends(deed: Callable[[Trial], None], power: bool) -> None:
    def run(fault: Nth) -> None:
        trial = Trial(STRICT, 2)
        trial.house.disk.toxics.append(fault)
        try:
            deed(trial)
            trial.settle()
        finally:
            trial.check(power)

    assert len([outcome for _, outcome in every_crash(run)]) > 2
