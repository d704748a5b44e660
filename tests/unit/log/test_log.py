"""A log as its users see it: append, commit, read both ways, delete, close, open again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.errors import StorageError
from tidelog.base.work import Inline
from tidelog.disk.memory import MemoryDisk
from tidelog.log.filter import Filter
from tidelog.log.header import segment_header, segment_path
from tidelog.log.log import LimitReached, Log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.read import Message
from tidelog.log.record import checksum
from tidelog.log.recover import open_log, open_logs
from tidelog.log.settings import Limits, LogSettings


class Bench:
    """One directory, and the log in it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.settings = LogSettings(
            policy=THROUGHPUT, segment_size=4096, window_size=1024, limits=limits or Limits()
        )
        self.log = self.open()

    def open(self) -> Log:
        return open_log(self.disk, "log", self.settings, self.clock, Inline())[0]

    def fill(self, count: int, subjects: int = 7) -> None:
        for number in range(count):
            self.clock.advance(seconds=1)
            self.log.append(b"s.%d" % (number % subjects), b"payload %d" % number, b"header")
            if number % 5 == 0:
                self.log.commit()
        self.log.commit()


def everything(log: Log, filter: Filter | None = None, backward: bool = False) -> list[Message]:
    reader, messages = log.reader(filter, backward=backward), []
    while len(batch := reader.read(10)):
        messages += list(batch)
    return messages


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_appended_is_read_in_order_and_backwards(bench: Bench) -> None:
    bench.fill(300)
    messages = everything(bench.log)
    assert [message.seq for message in messages] == list(range(1, 301))
    assert messages[41].payload == b"payload 41"
    assert messages[41].header == b"header"
    assert everything(bench.log, backward=True) == messages[::-1]


@pytest.mark.parametrize("patterns", [[b"s.3"], [b"s.*"], [b"s.1", b"s.2"], [b"*.4", b"s.>"], [b"none"]])
def test_a_filter_gives_what_a_scan_would(bench: Bench, patterns: list[bytes]) -> None:
    bench.fill(300)
    filter = Filter(*patterns)
    wanted = [message for message in everything(bench.log) if filter.accepts(message.subject)]
    assert everything(bench.log, filter) == wanted
    assert everything(bench.log, filter, backward=True) == wanted[::-1]
    found, seq = [], 1
    while seq := bench.log.next(filter, seq):
        found.append(seq)
        seq += 1
    assert found == [message.seq for message in wanted]
    assert bench.log.count(filter, 100) == sum(message.seq >= 100 for message in wanted)


def test_nothing_is_seen_before_it_is_committed(bench: Bench) -> None:
    bench.log.append(b"s", b"p")
    assert everything(bench.log) == []
    assert bench.log.get(1) is None
    assert bench.log.fact(1) == "future"
    bench.log.commit()
    assert len(everything(bench.log)) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_the_same_when_it_is_opened_again(bench: Bench, clean: bool) -> None:
    bench.fill(300)
    for seq in (1, 2, 3, 5, 100, 101, 102, 299):
        assert bench.log.remove(seq)
    bench.log.commit()
    if clean:
        bench.log.close()
    state, messages = bench.log.state(), everything(bench.log)
    bench.log = bench.open()
    # Whatever is found counts as synced: it is all there is.
    assert bench.log.state() == replace(state, synced_seq=300)
    assert everything(bench.log) == messages
    assert bench.log.append(b"s", b"p") == 301


def test_deleted_is_not_trimmed(bench: Bench) -> None:
    bench.fill(20)
    bench.log.remove(10)
    assert [bench.log.fact(seq) for seq in (9, 10, 11, 21)] == ["present", "deleted", "present", "future"]
    bench.log.purge(before_seq=5)
    assert bench.log.fact(4) == "trimmed"
    assert bench.log.state().first_seq == 5


def test_retention_by_count_keeps_the_newest() -> None:
    bench = Bench(Limits(max_messages=50))
    bench.fill(400)
    assert bench.log.state().messages == 50
    assert bench.log.state().first_seq == 351
    assert len(bench.disk.list("log")) < 10, "segments in which nothing is left are gone"


def test_retention_by_subject_keeps_the_newest_of_each() -> None:
    bench = Bench(Limits(max_per_subject=2))
    bench.fill(100, subjects=4)
    assert [message.seq for message in everything(bench.log)] == list(range(93, 101))


def test_what_is_too_much_is_refused_where_the_settings_say_so() -> None:
    bench = Bench(Limits(max_messages=3, discard_new=True))
    bench.fill(3)
    with pytest.raises(LimitReached, match="maximum messages exceeded"):
        bench.log.append(b"s", b"p")
    assert bench.log.state().last_seq == 3


def test_messages_expire(bench: Bench) -> None:
    bench.log.append(b"s", b"short", expiry_ns=bench.clock.now_ns() + 2_000_000_000)
    bench.log.append(b"s", b"long")
    bench.log.commit()
    bench.clock.advance(seconds=1)
    bench.log.tick()
    assert bench.log.state().messages == 2
    bench.clock.advance(seconds=2)
    bench.log.tick()
    assert [message.payload for message in everything(bench.log)] == [b"long"]


def test_a_reader_that_waits_is_woken_once(bench: Bench) -> None:
    reader = bench.log.reader(start="new")
    woken: list[int] = []
    reader.arm(lambda: woken.append(1))
    bench.log.append(b"s", b"p")
    assert woken == []
    bench.log.commit()
    bench.fill(3)
    assert woken == [1]
    assert [message.seq for message in reader.read()] == [1, 2, 3, 4]


def test_several_logs_are_opened_side_by_side() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    settings = LogSettings(policy=THROUGHPUT, segment_size=4096)
    names = [f"log{number}" for number in range(5)]
    for number, name in enumerate(names):
        log, _ = open_log(disk, name, settings, clock, Inline())
        for _ in range(100 + number):
            log.append(b"s", b"p" * 50)
        log.commit()
    opened = open_logs(disk, names, settings, clock, Inline())
    assert [log.state().messages for log, _ in opened] == [100, 101, 102, 103, 104]
    assert not any(findings.lost or findings.cut_size for _, findings in opened)


def test_a_leap_of_sequences_is_skipped_and_not_walked(bench: Bench) -> None:
    bench.fill(3)
    bench.log.skip_to(1 << 50)
    bench.fill(1)
    bench.log = bench.open()
    state = bench.log.state()
    assert (state.last_seq, state.messages, state.lost) == (1 << 50, 4, ())


def test_a_segment_of_tomorrow_is_left_alone(bench: Bench) -> None:
    bench.fill(3)
    header = bytearray(segment_header(bytes(16), 1, 0))
    header[12] = 3
    header[8:12] = checksum(bytes(header[12:])).to_bytes(4, "little")
    bench.disk.files[segment_path("log", 1)][:64] = header
    before = bytes(bench.disk.files[segment_path("log", 1)])
    with pytest.raises(StorageError, match="has version 3; this program reads versions 1 and 2"):
        bench.open()
    assert bench.disk.files[segment_path("log", 1)] == before
