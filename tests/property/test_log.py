"""A log against a dictionary: whatever is done to it, it answers as one."""

from __future__ import annotations

import random
import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tidelog.base.clock import ManualClock
from tidelog.base.work import Inline
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.disk.real import RealDisk
from tidelog.log.filter import Filter
from tidelog.log.log import LimitReached, Log
from tidelog.log.policy import PRESETS, SyncPolicy
from tidelog.log.read import Message
from tidelog.log.recover import open_log
from tidelog.log.settings import Limits, LogSettings
from unit.log.log_model import NS, Model

SUBJECTS = [b"a", b"b", b"a.b", b"a.b.c", b"a.c", b"b.c.d", *(b"n.%d" % number for number in range(6))]
PATTERNS = [
    *SUBJECTS,
    b"*",
    b">",
    b"a.*",
    b"a.>",
    b"*.b",
    b"*.*",
    b"n.*",
    b"*.*.*",
    b"b.*.d",
    b"none",
    b"none.>",
]
FILTERS = st.one_of(
    st.just(()),
    st.sampled_from(PATTERNS).map(lambda pattern: (pattern,)),
    st.lists(st.sampled_from(PATTERNS), min_size=2, max_size=4, unique=True).map(tuple),
)
# Where in the log, as a part of it and some beyond.
PLACE = st.floats(0.0, 1.1)
MESSAGE = st.tuples(
    st.sampled_from(SUBJECTS),
    st.one_of(st.integers(0, 40), st.sampled_from([200, 1000, 5000])),  # size of the payload
    st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n"]),
    st.sampled_from([0, 0, 0, 1, 30]),  # seconds to live
    st.sampled_from([0, 0, 0, -60]),  # seconds by which its own time is off
)
LIMITS = st.builds(
    Limits,
    max_messages=st.sampled_from([0, 0, 5, 50]),
    max_size=st.sampled_from([0, 0, 3000, 20_000]),
    max_age_ns=st.sampled_from([0, 0, 20 * NS]),
    max_per_subject=st.sampled_from([0, 0, 1, 3]),
    discard_new=st.booleans(),
    discard_new_per_subject=st.booleans(),
)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model = Model()
        self.dice = random.Random(7)
        self.settings = LogSettings()
        self.log: Log

    @initialize(
        policy=st.sampled_from(list(PRESETS.values())),
        segment_size=st.sampled_from([200, 1000, 10_000]),
        window_size=st.sampled_from([0, 500, 100_000]),
    )
    def begin(self, policy: SyncPolicy, segment_size: int, window_size: int) -> None:
        self.disk = self.make_disk()
        self.settings = LogSettings(policy=policy, segment_size=segment_size, window_size=window_size)
        self.open()

    def make_disk(self) -> Disk:
        return MemoryDisk()

    def open(self) -> None:
        self.log, findings = open_log(self.disk, "log", self.settings, self.clock, Inline())
        assert (findings.lost, findings.cut_size) == ([], 0)

    def place(self, part: float) -> int:
        return int(self.model.first_seq + part * (self.model.last_seq + 1 - self.model.first_seq))

    # ---- what is done ----

    @rule(messages=st.lists(MESSAGE, min_size=1, max_size=20), commit=st.booleans())
    def append(self, messages: list[tuple[bytes, int, bytes, int, int]], commit: bool) -> None:
        for subject, size, header, ttl_s, shift_s in messages:
            self.clock.advance(seconds=0.1)
            now_ns = self.clock.now_ns()
            message = Message(
                0,
                now_ns + shift_s * NS,
                subject,
                header,
                (b"%d:" % (self.model.last_seq + 1)).ljust(size, b"x"),
                now_ns + ttl_s * NS if ttl_s else 0,
            )
            given = (subject, message.payload, header, message.ts_ns if shift_s else 0, message.expiry_ns)
            if refused := self.model.refusal(message):
                with pytest.raises(LimitReached) as caught:
                    self.log.append(*given)
                assert caught.value.limit == refused
            else:
                assert self.log.append(*given) == self.model.append(message)
        if commit:
            self.log.commit()
            self.model.commit()
        self.compare()

    @rule()
    def commit(self) -> None:
        self.log.commit()
        self.model.commit()
        self.compare()

    @rule(places=st.lists(PLACE, min_size=1, max_size=8))
    def remove(self, places: list[float]) -> None:
        for part in places:
            seq = self.place(part)
            assert self.log.remove(seq) is (self.model.messages.pop(seq, None) is not None)
        self.compare()

    @rule(patterns=FILTERS, before=st.none() | PLACE, keep=st.sampled_from([0, 0, 1, 3, 30]))
    def purge(self, patterns: tuple[bytes, ...], before: float | None, keep: int) -> None:
        before_seq = None if before is None else self.place(before)
        purged = self.log.purge(Filter(*patterns), before_seq=before_seq, keep=keep)
        assert purged == self.model.purge(patterns, before_seq, keep)
        self.compare()

    @rule(seconds=st.sampled_from([0.5, 2.0, 15.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.log.tick()
        self.log.commit()
        self.model.expire(self.clock.now_ns())
        self.model.commit()
        self.compare()

    @rule(distance=st.sampled_from([0, 1, 2, 20, 5000]))
    def skip(self, distance: int) -> None:
        self.log.skip_to(self.model.last_seq + 1 + distance)
        self.model.skip_to(self.model.last_seq + 1 + distance)
        self.compare()

    @rule(
        limits=LIMITS,
        segment_size=st.sampled_from([200, 1000, 10_000]),
        window_size=st.sampled_from([0, 9_000]),
    )
    def configure(self, limits: Limits, segment_size: int, window_size: int) -> None:
        self.settings = LogSettings(
            policy=self.settings.policy, segment_size=segment_size, window_size=window_size, limits=limits
        )
        self.log.configure(self.settings)
        self.model.limits = limits
        self.model.enforce()
        if limits.max_messages or limits.max_size or limits.max_per_subject:
            self.model.commit()
        self.compare()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.log.close()
            self.model.commit()
        else:
            self.model.crash()
        self.open()
        if not self.model.messages:
            # Nothing is left that has a time.
            self.model.last_ts_ns = self.log.state().last_ts_ns
        self.compare()
        self.model.commit()

    # ---- what is asked ----

    def compare(self) -> None:
        state, model = self.log.state(), self.model
        assert (state.messages, state.size) == (len(model.messages), model.size)
        assert (state.first_seq, state.last_seq) == (model.first_seq, model.last_seq)
        assert state.committed_seq == model.committed_seq
        assert state.deleted == model.last_seq + 1 - model.first_seq - len(model.messages)
        assert (state.lost, state.refusal) == ((), "")
        first = model.messages.get(model.first_seq)
        assert state.first_ts_ns == (first.ts_ns if first else 0)
        for _ in range(3):
            seq = self.somewhere()
            wanted = model.messages.get(seq) if seq <= model.committed_seq else None
            assert self.log.get(seq) == wanted
            assert self.log.fact(seq) == model.fact(seq)
        for _ in range(3):
            patterns = tuple(self.dice.sample(PATTERNS, self.dice.choice([0, 1, 1, 1, 2, 3])))
            self.compare_filter(patterns, model.seen(patterns))
            self.compare_readers(patterns)
        ts_ns = self.moment()
        assert self.log.seq_at_time(ts_ns) == model.seq_at_time(ts_ns)

    def compare_filter(self, patterns: tuple[bytes, ...], seen: list[int]) -> None:
        log, model, filter = self.log, self.model, Filter(*patterns)
        for _ in range(3):
            seq = self.somewhere()
            assert log.next(filter, seq) == min((one for one in seen if one >= seq), default=0)
            assert log.previous(filter, seq) == max((one for one in seen if one <= seq), default=0)
            assert log.count(filter, seq) == sum(one >= seq for one in seen)
            assert log.last_per_subject(filter, seq) == model.last_per_subject(patterns, seq)
        assert log.subjects(filter) == model.subjects(patterns)

    def compare_readers(self, patterns: tuple[bytes, ...]) -> None:
        """Any start, any stop, either direction, in batches of any size."""
        dice, log, model = self.dice, self.log, self.model
        backward = dice.random() < 0.5
        start_seq = self.somewhere() if dice.random() < 0.5 else None
        start_ts_ns = self.moment() if start_seq is None and dice.random() < 0.3 else None
        stop_seq = self.somewhere() if dice.random() < 0.3 else None
        stop_ts_ns = self.moment() if dice.random() < 0.2 else None
        limit = dice.randrange(1, 20) if dice.random() < 0.2 else None
        if backward and stop_seq is not None and start_seq is not None:
            stop_seq = min(stop_seq, start_seq)
        if backward and stop_ts_ns is not None and start_ts_ns is not None:
            stop_ts_ns = min(stop_ts_ns, start_ts_ns)
        reader = log.reader(
            Filter(*patterns),
            start_seq=start_seq,
            start_ts_ns=start_ts_ns,
            backward=backward,
            stop_seq=stop_seq,
            stop_ts_ns=stop_ts_ns,
            limit=limit,
        )

        def wanted(seq: int) -> bool:
            ts_ns = model.messages[seq].ts_ns
            sign = -1 if backward else 1
            return (
                (start_seq is None or sign * seq >= sign * start_seq)
                and (start_ts_ns is None or sign * ts_ns >= sign * start_ts_ns)
                and (stop_seq is None or sign * seq <= sign * stop_seq)
                and (stop_ts_ns is None or sign * ts_ns <= sign * stop_ts_ns)
            )

        expected = [model.messages[seq] for seq in model.seen(patterns) if wanted(seq)]
        expected = expected[::-1] if backward else expected
        expected = expected[:limit]
        assert reader.pending() == len(expected)
        most, size = dice.choice([1, 3, 100]), dice.choice([100, 100_000])
        found: list[Message] = []
        while len(batch := reader.read(most, size)):
            assert len(batch) <= most
            found += batch
        assert found == expected
        assert reader.pending() == 0
        if backward or limit == len(found) or (stop_seq is not None and stop_seq <= model.committed_seq):
            assert batch.ended or limit == len(found)

    def somewhere(self) -> int:
        model = self.model
        return self.dice.randint(max(0, model.first_seq - 3), model.last_seq + 3)

    def moment(self) -> int:
        """A time at, between or around those of messages."""
        some = [one.ts_ns for one in self.model.messages.values()] or [self.clock.now_ns()]
        return self.dice.choice(some) + self.dice.choice([-NS, -1, 0, 1, NS])


class RealLogMachine(LogMachine):
    def make_disk(self) -> Disk:
        self.directory = tempfile.TemporaryDirectory(prefix="tidelog-test-")
        return RealDisk(self.directory.name)

    def teardown(self) -> None:
        self.directory.cleanup()


TestLog = LogMachine.TestCase
TestRealLog = RealLogMachine.TestCase
# A real disk is there to see that nothing depends on the memory's being one; its syncs take their time.
TestRealLog.settings = settings(max_examples=3, stateful_step_count=15)
