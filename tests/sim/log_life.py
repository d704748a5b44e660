"""The lives of a log, by seed: it is used by chance, its disk has bad days, the power goes, and it is opened again.

    Lives(seed).run()       AssertionError, with the seed, if anything was not as it was promised

Everything follows from the seed: settings, calls, what fails, what a power cut leaves. One life is one process, from
opening the log to its end; what the log should hold and what it has promised is `sim.log_promise`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sim.disk import SimDisk
from sim.log_promise import MARK_SIZE, Promise
from sim.toxic import CHANGES, SYNCS, Crashed, CrashNth, FailNth, Nth, ShortReads, Slow, Toxic
from sim.worker import SimWorker
from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.errors import StorageError
from tidelog.log.fact import Lost
from tidelog.log.filter import Filter
from tidelog.log.header import HEADER_SIZE
from tidelog.log.key_ring import SECRET_SIZE, Key, KeyRing
from tidelog.log.log import LimitReached, Log, LogRefused
from tidelog.log.packed_block import is_packed
from tidelog.log.policy import BALANCED, DURABLE, STRICT, THROUGHPUT, AckLevel, SyncPolicy
from tidelog.log.read import Message, Reader
from tidelog.log.recover import open_log
from tidelog.log.settings import Limits, LogSettings
from unit.log.log_model import NS, Model

KEYS = (Key("one", b"1" * SECRET_SIZE), Key("two", b"2" * SECRET_SIZE))
POLICIES = (STRICT, DURABLE, BALANCED, THROUGHPUT, SyncPolicy(messages=5))
LIMITS = (
    Limits(),
    Limits(),
    Limits(max_messages=40),
    Limits(max_size=6000),
    Limits(max_per_subject=4),
    Limits(max_messages=30, discard_new=True),
    Limits(max_age_ns=20 * NS),
)
SUBJECTS = (b"a", b"b", b"a.b", b"a.c", b"a.b.c", b"n.1", b"n.2", b"n.3")
PATTERNS: tuple[tuple[bytes, ...], ...] = ((), (b"a",), (b"a.*",), (b">",), (b"n.*", b"a.>"), (b"none",))
DIRECTORY = "log"
BOUNDLESS = 1 << 62
STEPS = 40
LIVES = 8

Choice = TypeVar("Choice")


@dataclass
class Figures:
    """Of many logs together."""

    logs: int = 0
    lives: int = 0
    power_cuts: int = 0
    kills: int = 0
    amid: int = 0  # of power cuts and kills, those within a call of the disk
    closes: int = 0
    flips: int = 0
    failures: int = 0  # lives in which the log took nothing any more
    refusals: int = (
        0  # messages that were refused as the disk was full, or another segment could not be begun
    )
    appended: int = 0
    acks: int = 0
    deletes: int = 0  # messages that were said to be deleted
    checked: int = 0  # messages that had to be there after a crash
    read: int = 0
    compacted: int = 0
    packed: int = 0
    removed: int = 0
    emptied: int = 0
    short_reads: int = 0


@dataclass
class Follower:
    """A reader that goes on where it was, over all lives of the log."""

    patterns: tuple[bytes, ...]
    next_seq: int = 1
    reader: Reader | None = field(default=None, repr=False)

    def follow(self, log: Log, promise: Promise, chance: Chance) -> int:
        """Read some: nothing is missing, nothing comes twice, and nothing before it is committed."""
        if self.reader is None or chance.integer(8) == 0:
            self.reader = log.reader(Filter(*self.patterns), start_seq=self.next_seq)
        batch = self.reader.read(1 + chance.integer(30), 1 + chance.integer(4000))
        model = promise.model
        model.committed_seq = log.state().committed_seq
        got = {message.seq: message for message in batch}
        end_seq = max(got, default=self.next_seq - 1 if batch.awaited else model.committed_seq)
        wanted = [seq for seq in model.seen(self.patterns) if self.next_seq <= seq <= end_seq]
        assert list(got) == wanted, f"{self.patterns} from {self.next_seq}: {list(got)}, not {wanted}"
        assert all(message == model.messages[seq] for seq, message in got.items())
        for fact in batch.facts:
            if isinstance(fact, Lost):
                assert not any(fact.start_seq <= seq < fact.end_seq for seq in model.messages)
        promise.known.update(got)
        self.next_seq = max(self.next_seq, end_seq + 1)
        return len(got)


class Lives:
    def __init__(
        self,
        seed: int,
        figures: Figures | None = None,
        policies: Sequence[SyncPolicy] = POLICIES,
        short_reads: bool = True,
    ) -> None:
        """Without `short_reads`, the calls of the disk are as they were before those were there."""
        self.seed = seed
        self.chance = Chance(seed)
        self.figures = figures or Figures()
        self.policies = policies
        chance = Chance(seed + 2)
        self.short_reads = ShortReads(chance, (0.0, 0.05, 0.5)[chance.integer(3)] if short_reads else 0.0)
        self.disk = SimDisk(Chance(seed + 1), short_reads=self.short_reads)
        self.clock = ManualClock()
        self.worker = SimWorker()
        self.promise = Promise()
        self.promise.model.limits = self.pick(LIMITS)
        self.followers = [Follower(self.pick(PATTERNS)), Follower(())]
        self.settings = LogSettings()
        self.log: Log
        self.acked_seq = 0
        self.told: list[bool] = []  # of those who wait for deletes in this life, whether they were told
        self.life = 0
        # What may have been lost since the log was looked at last: anything unsynced, or nothing that was written.
        self.unsafe = False
        # Which names are on the medium nobody knows, and will not before the power goes.
        self.names_doubtful = False
        self.deeds: tuple[Callable[[], None], ...] = (
            *[self.append_some] * 9,
            *[self.commit] * 4,
            *[self.work] * 8,
            *[self.follow] * 4,
            *[self.remove] * 2,
            self.purge,
            self.pass_time,
            self.skip,
            self.configure,
            self.compare,
            self.change_room,
        )

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.chance.integer(len(choices))]

    def one_in(self, count: int) -> bool:
        return self.chance.integer(count) == 0

    # ---- lives ----

    def run(self, lives: int = LIVES) -> None:
        """So many lives, and at the end a bit that turns by itself."""
        try:
            for _ in range(lives):
                self.live()
            self.turn_a_bit()
        except BaseException as error:
            error.add_note(f"life {self.life} of seed {self.seed}; the last calls:\n{self.disk.trace(20)}")
            raise
        self.figures.logs += 1
        self.figures.acks += self.promise.acks
        self.figures.checked += self.promise.checked
        self.figures.deletes += self.promise.gone
        self.figures.short_reads += self.short_reads.count

    def live(self) -> None:
        self.life += 1
        self.figures.lives += 1
        self.disk.size_max = BOUNDLESS
        toxic = self.drawn_toxic()
        # Some fail while the log is being opened.
        early = self.one_in(2)
        self.disk.toxics[:] = toxic if early else []
        power = not self.one_in(4)
        try:
            self.open()
            self.disk.toxics[:] = toxic
            for _ in range(1 + self.chance.integer(STEPS)):
                self.pick(self.deeds)()
            if self.one_in(5):
                self.close()
            self.take_figures()
        except Crashed:
            self.figures.amid += 1
        self.end(power)

    def open(self) -> None:
        """Open the log, and compare it with what was promised. Opening may fail, and is tried again."""
        self.settings = self.drawn_settings()
        while True:
            try:
                log, _ = open_log(self.disk, DIRECTORY, self.settings, self.clock, self.worker)
            except StorageError:
                assert self.disk.toxics, "nothing has failed, and the log is not opened"
                self.end(power=self.one_in(2))
                self.disk.toxics.clear()
            else:
                break
        self.log = log
        self.promise.check_crash(log, self.unsafe)
        self.unsafe = False
        self.acked_seq = log.state().committed_seq
        for follower in self.followers:
            follower.reader = None
        self.compare()

    def end(self, power: bool) -> None:
        """The process ends, or with it the power."""
        self.drop_work()
        self.calm()
        power = power or self.names_doubtful
        self.unsafe = self.unsafe or power
        self.names_doubtful = False
        if power:
            self.figures.power_cuts += 1
            self.disk.power_cut()
        else:
            self.figures.kills += 1
            self.disk.kill()
        self.disk = self.disk.reopen()

    def drop_work(self) -> None:
        self.worker.drop_all()

    def calm(self) -> None:
        """Nothing fails any more."""
        for toxic in self.disk.toxics:
            if isinstance(toxic, FailNth) and toxic.hit is not None and toxic.hit.operation in SYNCS:
                # The system may have forgotten what it could not write.
                self.unsafe = True
                self.names_doubtful |= toxic.hit.operation == "sync_directory"
            if isinstance(toxic, Nth) and toxic.hit is not None:
                emptying = toxic.hit.operation == "write" and toxic.hit.pos == HEADER_SIZE
                self.promise.torn = self.promise.torn or emptying
        self.disk.toxics.clear()
        self.disk.size_max = BOUNDLESS

    def close(self) -> None:
        self.calm()
        if self.names_doubtful:
            return
        if self.one_in(2):
            self.worker.run_all()
        self.log.close()
        self.worker.run_all()
        if self.log.failure is None and not self.log.keeper.troubles:
            self.figures.closes += 1
            self.promise.closed()
            if not self.log.keeper.eraser.pending:
                self.promise.check_erased(self.disk.image(), self.log.store.log_salt)

    def turn_a_bit(self) -> None:
        """Somewhere in the files, when everything is on the medium."""
        self.life += 1
        self.open()
        self.append_some()
        if self.one_in(2):
            self.close()
        else:
            self.commit()
            self.worker.run_all()
            self.promise.settled(self.log)
        self.drop_work()
        self.disk.kill()
        self.disk = self.disk.reopen()
        before = self.disk.image()
        turned = self.disk.flip_random_bit(f"{DIRECTORY}/")
        assert turned is not None
        self.figures.flips += 1
        log, findings = open_log(self.disk, DIRECTORY, self.settings, self.clock, self.worker)
        self.promise.check_flip(log, findings, turned[0], is_packed(before[turned[0]]))

    # ---- what is drawn ----

    def drawn_settings(self) -> LogSettings:
        return LogSettings(
            policy=self.pick(self.policies),
            limits=self.promise.model.limits,
            segment_size=self.pick((600, 2000, 8000, 30_000)),
            window_size=self.pick((0, 500, 100_000)),
            keys=KeyRing(KEYS if self.one_in(2) else KEYS[::-1]),
            compression="zstd" if self.one_in(4) else "none",
            encrypt=self.one_in(6),
        )

    def drawn_toxic(self) -> list[Toxic]:
        n, kind = 1 + self.chance.integer(60), self.chance.integer(10)
        if kind < 4:
            return [CrashNth(n, CHANGES if self.one_in(2) else "")]
        if kind == 4:
            return [FailNth(1 + n // 6, SYNCS)]
        if kind == 5:
            return [FailNth(n, CHANGES, number=errno.ENOSPC if self.one_in(2) else errno.EIO)]
        if kind == 6:
            return [Slow(self.clock, self.chance.integer(3 * NS), SYNCS)]
        return []

    # ---- what is done ----

    def append_some(self) -> None:
        first_seq = self.log.store.last_seq + 1
        for _ in range(1 + self.chance.integer(12)):
            if not self.append():
                break
        last_seq = self.log.store.last_seq
        if last_seq >= first_seq and self.one_in(2):
            self.log.wait(last_seq, lambda error: self.acknowledged(first_seq, last_seq, error))

    def append(self) -> bool:
        log, model, now_ns = self.log, self.promise.model, self.clock.now_ns()
        seq = log.store.last_seq + 1
        size = 3000 if self.one_in(40) else self.chance.integer(200)
        message = Message(
            seq,
            now_ns,
            self.pick(SUBJECTS),
            b"" if self.one_in(2) else b"NATS/1.0\r\n\r\n",
            (b"%09d of life %04d:" % (seq, self.life)).ljust(size, b"."),
            now_ns + self.chance.integer(30 * NS) if self.one_in(10) else 0,
        )
        refused = model.refusal(message)
        try:
            given = log.append(message.subject, message.payload, message.header, now_ns, message.expiry_ns)
        except LimitReached as error:
            limit = error.limit
        except LogRefused:
            self.figures.refusals += 1
            assert log.store.last_seq == seq - 1
            return False
        else:
            limit = ""
            assert given == seq
        assert limit == refused
        if limit:
            return False
        self.promise.appended(message)
        self.figures.appended += 1
        return True

    def acknowledged(self, first_seq: int, last_seq: int, error: StorageError | None) -> None:
        if error is not None:
            assert self.log.failure is not None
            return
        assert first_seq > self.acked_seq, "acknowledgements come in order, and once"
        self.acked_seq = last_seq
        assert self.log.state().committed_seq >= last_seq
        assert self.log.failure is None, "nothing is acknowledged after a failure"
        synced = self.log.settings.policy.ack is AckLevel.SYNCED
        self.promise.acknowledged(range(first_seq, last_seq + 1), synced)

    def commit(self) -> None:
        self.log.commit()
        self.promise.committed(self.log)

    def work(self) -> None:
        """Something goes on in the background, or all of it."""
        if self.one_in(4):
            self.worker.run_all()
        else:
            self.worker.half_step(self.chance)
        self.promise.settled(self.log)

    def follow(self) -> None:
        self.figures.read += self.pick(self.followers).follow(self.log, self.promise, self.chance)

    def remove(self) -> None:
        messages = self.promise.model.messages
        if self.log.failure is not None or not messages:
            return
        gone = set(messages)
        for _ in range(1 + self.chance.integer(6)):
            seq = self.pick(list(messages)) if messages else 1
            self.promise.going.add(seq)
            erase, message = self.one_in(3) and self.may_erase(seq), messages.pop(seq, None)
            assert self.log.remove(seq, erase) is (message is not None)
            self.promise.going.clear()
            if erase and message is not None:
                self.promise.erasing.add(message.payload[:MARK_SIZE])
        self.wait_deleted(gone - messages.keys())

    def may_erase(self, seq: int) -> bool:  # noqa: ARG002
        return True

    def wait_deleted(self, gone: set[int]) -> None:
        """Hear when that is certain, at the level that the policy has then."""
        waiting = len(self.told)
        self.told.append(False)

        def told(error: StorageError | None) -> None:
            assert not self.told[waiting], "who waits is told once"
            self.told[waiting] = True
            if error is not None:
                assert self.log.failure is not None or self.log.closed
                return
            assert self.log.failure is None, "nothing is promised after a failure"
            self.promise.deleted(gone, self.log.settings.policy.ack is AckLevel.SYNCED)

        self.log.wait_deleted(told)

    def purge(self) -> None:
        if self.log.failure is not None:
            return
        model, patterns, keep = self.promise.model, self.pick(PATTERNS), self.pick((0, 0, 1, 3, 30))
        before_seq = self.somewhere() if self.one_in(2) else None
        gone = self.taken_by(lambda trial: trial.purge(patterns, before_seq, keep))
        self.promise.going |= gone
        purged = self.log.purge(Filter(*patterns), before_seq=before_seq, keep=keep)
        assert purged == model.purge(patterns, before_seq, keep)
        self.promise.going.clear()
        self.wait_deleted(gone)

    def taken_by(self, deed: Callable[[Model], object]) -> set[int]:
        """What the model would not have any more; as long as the log does it, some may be gone and some not."""
        model = self.promise.model
        trial = replace(model, messages=dict(model.messages))
        deed(trial)
        return model.messages.keys() - trial.messages.keys()

    def pass_time(self) -> None:
        self.clock.advance(ns=self.chance.integer(self.pick((NS, 8 * NS, 40 * NS))))
        if self.log.failure is None:
            # Said to be gone before it is: the process may end amid this.
            self.promise.model.expire(self.clock.now_ns())
        self.log.tick()
        self.commit()

    def skip(self) -> None:
        if self.log.refusal is not None or self.one_in(2):
            return
        next_seq = self.log.store.last_seq + 1 + self.chance.integer(self.pick((3, 3000)))
        try:
            self.log.skip_to(next_seq)
        finally:
            self.promise.model.skip_to(next_seq)

    def configure(self) -> None:
        if self.log.failure is not None:
            return
        model = self.promise.model
        settings = replace(
            self.drawn_settings(), limits=self.pick(LIMITS) if self.one_in(3) else model.limits
        )
        self.promise.going |= self.taken_by(lambda trial: limited(trial, settings.limits))
        try:
            self.log.configure(settings)
        except StorageError:
            assert self.disk.toxics or self.disk.size_max < BOUNDLESS, (
                "the settings are refused without a reason"
            )
            self.promise.going.clear()
            return
        self.settings = settings
        limited(model, settings.limits)
        self.promise.going.clear()
        self.commit()

    def change_room(self) -> None:
        """The disk becomes nearly full, or there is room again."""
        used = self.disk.machine.used_size()
        full = self.disk.size_max == BOUNDLESS and self.one_in(2)
        self.disk.size_max = used + self.chance.integer(3000) if full else BOUNDLESS

    def compare(self) -> None:
        self.promise.check_now(self.log, self.pick(PATTERNS))

    def somewhere(self) -> int:
        model = self.promise.model
        return model.first_seq + self.chance.integer(min(200, model.last_seq + 2 - model.first_seq))

    def take_figures(self) -> None:
        done = self.log.keeper.figures
        self.figures.compacted += done.compactions
        self.figures.packed += done.packed
        self.figures.removed += done.removed
        self.figures.emptied += done.emptied
        self.figures.failures += self.log.failure is not None


def limited(model: Model, limits: Limits) -> None:
    model.limits = limits
    model.enforce()
