"""The loops over logs, and that they notice what is wrong."""

from dataclasses import replace

import pytest

from tidelog.base.clock import SystemClock
from tidelog.base.work import Inline
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.store import load
from tidelog.bench.store.load import Mix
from tidelog.disk.memory import MemoryDisk
from tidelog.log.filter import Filter
from tidelog.log.log import Log
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings


def fresh() -> Log:
    return open_log(MemoryDisk(), "log", replace(LogSettings(), segment_size=4096), SystemClock(), Inline())[
        0
    ]


def test_every_so_many_messages_one_is_rare_and_all_subjects_take_turns() -> None:
    mix = Mix([b"a", b"b", b"c"], [b"r1", b"r2"], every=4)
    subjects = [mix.subject(seq) for seq in range(1, 25)]
    assert subjects[::4] == [b"r1", b"r2"] * 3
    others = [subject for number, subject in enumerate(subjects) if number % 4]
    assert {subject: others.count(subject) for subject in others} == {b"a": 6, b"b": 6, b"c": 6}


def test_what_goes_in_comes_out_in_both_directions() -> None:
    log, mix = fresh(), Mix([b"a", b"b"], [b"r.1", b"r.2"], every=10, size=16)
    load.append([log], mix, 100, batch=7)
    assert log.state().messages == 100
    message = log.get(11)
    assert message is not None
    assert (message.subject, message.payload) == (b"r.2", mix.payload_of(11))
    for backward in (False, True):
        assert load.walk(log, mix, backward=backward)[1] == 100
        found = load.scan(log, mix, Filter(b"r.*"), backward=backward)[1]
        assert list(found) == list(range(91, 0, -10) if backward else range(1, 92, 10))


def test_each_of_several_logs_gets_all() -> None:
    logs = [fresh() for _ in range(3)]
    load.append(logs, Mix([b"a"]), 50, batch=8, in_flight=16)
    assert [log.state().last_seq for log in logs] == [50, 50, 50]


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (b"b", (2).to_bytes(8, "little")),
        (b"a", (3).to_bytes(8, "little")),
        (b"a", (2).to_bytes(8, "little") + b"more"),
        (b"a", b"short"),
    ],
)
def test_a_message_that_is_not_what_was_appended_is_noticed(subject: bytes, payload: bytes) -> None:
    log, mix = fresh(), Mix([b"a"], size=8)
    load.append([log], mix, 1, batch=1)
    log.append(subject, payload)
    log.commit()
    with pytest.raises(WrongDelivery, match="message 2"):
        load.walk(log, mix)
    with pytest.raises(WrongDelivery, match="message 2"):
        load.scan(log, mix)


def test_a_gap_is_noticed() -> None:
    log, mix = fresh(), Mix([b"a"])
    load.append([log], mix, 10, batch=5)
    log.remove(4)
    log.commit()
    with pytest.raises(WrongDelivery, match="5 came instead of 4"):
        load.walk(log, mix)


def test_the_newest_of_a_batch_is_found() -> None:
    log, mix = fresh(), Mix([b"a"], [b"r"], every=5)
    load.append([log], mix, 10, batch=5)
    batch = log.reader().read()
    assert load.newest(batch, b"r") == 6
    assert load.newest(batch, b"none") == 0
