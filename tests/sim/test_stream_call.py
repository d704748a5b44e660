"""Every call of the disk fails once, and the process or the power ends in every one, while streams and consumers are
made, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sim.disk import SimDisk
from sim.toxic import Nth, every_crash, every_failure
from sim.worker import SimWorker
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.failure import ApiFailure
from tidelog.stream.stream_config import StreamConfig
from unit.stream.quay import Quay
from unit.stream.shore import contents


def stream_config(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(name=name, subjects=[f"{name}.>"], max_msg_size=-1, **fields)


def consumer_config(name: str, **fields: Any) -> ConsumerConfig:
    return ConsumerConfig(name=name, durable_name=name, ack_policy="explicit", **fields)


class Trial:
    """A stream OLD with three messages and a consumer `old`, both safe; what is told of deeds from then on."""

    def __init__(self, seed: int) -> None:
        self.worker = SimWorker()
        self.quay = Quay(SimDisk(seed), worker=self.worker)
        self.quay.account.create(stream_config("OLD"), self.expected)
        self.settle()
        self.old = self.quay.account.find("OLD")
        for number in range(3):
            self.quay.send(b"OLD.x", b"%d" % number)
        self.old.keeper.create(consumer_config("old"), self.expected)
        self.settle()
        assert len(self.quay.heard) == 3
        self.outcomes: list[str] = []

    def expected(self, outcome: object) -> None:
        assert not isinstance(outcome, ApiFailure)

    def tell(self, outcome: object) -> None:
        self.outcomes.append("refused" if isinstance(outcome, ApiFailure) else "done")

    def settle(self) -> None:
        for _ in range(3):
            self.quay.engine.commit()
            self.worker.run_all()

    def restart(self, power: bool) -> None:
        disk = self.quay.disk
        assert isinstance(disk, SimDisk)
        disk.toxics.clear()
        self.worker.drop_all()
        if power:
            disk.power_cut()
        else:
            disk.kill()
        self.quay.disk = disk.reopen()
        self.quay.crash()
        self.settle()
        assert self.quay.engine.failures == {}
        assert not self.quay.lines.of("error")


def names(trial: Trial) -> set[str]:
    return set(trial.quay.account.names())


def consumers(trial: Trial) -> set[str]:
    return set(trial.quay.account.find("OLD").consumers)


def make_stream(trial: Trial) -> None:
    trial.quay.account.create(stream_config("NEW", first_seq=10), trial.tell)


def stream_is_made(trial: Trial) -> bool:
    if "NEW" not in names(trial):
        return False
    assert trial.quay.account.find("NEW").log.store.last_seq == 9
    return True


def change_stream(trial: Trial) -> None:
    trial.quay.account.update(stream_config("OLD", max_msgs=7), trial.tell)


def stream_is_changed(trial: Trial) -> bool:
    return trial.quay.account.find("OLD").config.max_msgs == 7


def delete_stream(trial: Trial) -> None:
    trial.quay.account.delete("OLD", trial.tell)


def stream_is_deleted(trial: Trial) -> bool:
    return "OLD" not in names(trial)


def make_consumer(trial: Trial) -> None:
    trial.old.keeper.create(consumer_config("new"), trial.tell)


def consumer_is_made(trial: Trial) -> bool:
    return "new" in consumers(trial)


def change_consumer(trial: Trial) -> None:
    config = msgspec.structs.replace(trial.old.consumers["old"].config, max_deliver=9)
    trial.old.keeper.create(config, trial.tell)


def consumer_is_changed(trial: Trial) -> bool:
    found: int = trial.quay.account.find("OLD").consumers["old"].config.max_deliver
    return found == 9


def delete_consumer(trial: Trial) -> None:
    trial.old.keeper.delete("old", trial.tell)


def consumer_is_deleted(trial: Trial) -> bool:
    return "old" not in consumers(trial)


DEEDS = [
    (make_stream, stream_is_made),
    (change_stream, stream_is_changed),
    (delete_stream, stream_is_deleted),
    (make_consumer, consumer_is_made),
    (change_consumer, consumer_is_changed),
    (delete_consumer, consumer_is_deleted),
]


def check_the_rest(trial: Trial, deed: Callable[[Trial], None]) -> None:
    """Whatever became of the deed, everything else is as it was, and goes on."""
    quay = trial.quay
    assert names(trial) - {"NEW", "OLD"} == set()
    if deed is not delete_stream:
        old = quay.account.find("OLD")
        assert [seq for seq, _, _ in contents(old)] == [1, 2, 3]
        assert deed is delete_consumer or "old" in old.consumers
    trial.old = (
        quay.account.find("OLD") if "OLD" in names(trial) else quay.account.create(stream_config("OLD"))
    )
    trial.settle()
    trial.outcomes.clear()
    if "NEW" not in names(trial):
        make_stream(trial)
    if "new" not in consumers(trial):
        make_consumer(trial)
    trial.settle()
    assert set(trial.outcomes) <= {"done"}
    assert {"NEW", "OLD"} == names(trial)
    trial.restart(power=True)
    assert {"NEW", "OLD"} == names(trial)
    assert "new" in consumers(trial)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize(("deed", "is_done"), DEEDS)
def test_every_call_that_fails(
    deed: Callable[[Trial], None], is_done: Callable[[Trial], bool], power: bool
) -> None:
    """ENGINE-1, CONSUMER-8: it is told once what became of it, and what was done is done."""

    def run(fault: Nth) -> None:
        trial = Trial(1)
        disk = trial.quay.disk
        assert isinstance(disk, SimDisk)
        disk.toxics.append(fault)
        try:
            deed(trial)
        except ApiFailure as refused:
            trial.tell(refused)
        trial.settle()
        assert len(trial.outcomes) == 1
        (outcome,) = trial.outcomes
        assert outcome == "done" or fault.fired
        assert is_done(trial) == (outcome == "done")
        # What a failed sync has left behind only the power clears up, and nobody knows how.
        cut = power or (fault.hit is not None and fault.hit.operation.startswith("sync"))
        trial.restart(cut)
        if outcome == "done" or not cut:
            assert is_done(trial) == (outcome == "done")
        check_the_rest(trial, deed)

    assert len([outcome for _, outcome in every_failure(run)]) > 2


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize(("deed", "is_done"), DEEDS)
def test_every_call_in_which_the_process_ends(
    deed: Callable[[Trial], None], is_done: Callable[[Trial], bool], power: bool
) -> None:
    """ENGINE-1, CONSUMER-8"""

    def run(fault: Nth) -> None:
        trial = Trial(2)
        disk = trial.quay.disk
        assert isinstance(disk, SimDisk)
        disk.toxics.append(fault)
        try:
            deed(trial)
            trial.settle()
        finally:
            trial.restart(power)
            if trial.outcomes == ["done"]:
                assert is_done(trial)
            is_done(trial)
            check_the_rest(trial, deed)

    assert len([outcome for _, outcome in every_crash(run)]) > 2
