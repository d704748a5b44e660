"""The process that is killed: it writes to the logs of a store as fast as it can, and tells what it has been told.

What it tells goes to a pipe, a line of `log kind numbers` each, written in one call:

    going S...    these may be deleted from now on    gone S...    these are deleted, and that is committed
    ack A Z       from A to Z are acknowledged        seen S       a reader has come this far
    moving N S R  cursor N goes to S, by revision R   moved N S R  that is on the medium
    open F L M N  is open: first, last, messages, bytes
    work C P R    so many segments were compacted, packed and removed since it was open
    closed N      is closed; 1: no work was left      struck       the named point is reached: this is the end

It also compares the log, while it runs, with a plain dictionary; what differs ends it with an error that it tells.
"""

import heapq
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from crash.deadly_disk import DeadlyDisk, Point
from crash.log_plan import NS_PER_MS, Plan, author, draft
from tidelog.base.chance import Chance
from tidelog.base.clock import SystemClock
from tidelog.base.errors import StorageError
from tidelog.base.work import Threads
from tidelog.disk.real import RealDisk
from tidelog.log.cursor import CursorStore
from tidelog.log.fact import Lost
from tidelog.log.filter import Filter
from tidelog.log.log import LimitReached, Log
from tidelog.log.read import Message
from tidelog.log.recover import open_logs

# Of numbers on one line, so that a line is written to a pipe as a whole or not at all.
NUMBERS_PER_LINE = 200
NS = 1_000_000_000
LEAP_NS = 6 * NS
SOME = Filter(b"s.3.*", b"s.7.1")


@dataclass(frozen=True)
class Order:
    """What a writer is to do."""

    root: str
    plan: Plan
    run: int
    ticks: int  # until it closes the logs and ends
    seen: tuple[int, ...]  # how far the reader of each log has come
    boot: int
    point: Point | None = None
    at: int = 0


class TickClock(SystemClock):
    """The real one, looked at once in a tick: so it is known before what a tick deletes for its age.

    Monotonic time leaps now and then, or what waits for some seconds would never come in the life of a writer.
    """

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.ns = super().now_ns()
        self.leapt_ns = 0

    def look(self) -> None:
        self.ns = super().now_ns()
        if self.chance.integer(10) == 0:
            self.leapt_ns += LEAP_NS

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.leapt_ns


@dataclass
class Follower:
    """A reader that goes on where it was, and what it should get."""

    filter: Filter
    every: int
    last_seq: int
    subjects: dict[int, bytes] = field(repr=False, default_factory=dict)

    def follow(self, log: Log) -> None:
        # A new reader each time: it is a sequence and no more.
        reader = log.reader(self.filter, start_seq=self.last_seq + 1)
        while True:
            batch = reader.read(50)
            got = batch.sequences()
            assert not any(isinstance(fact, Lost) for fact in batch.facts), batch.facts
            end_seq = got[-1] if got else log.horizon.committed_seq
            subjects = self.subjects
            wanted = [
                seq
                for seq, subject in subjects.items()
                if self.last_seq < seq <= end_seq and self.filter.accepts(subject)
            ]
            assert got == wanted, f"{self.filter.patterns} from {self.last_seq + 1}: {got}, not {wanted}"
            for message in batch:
                author(message)
            self.last_seq = max(self.last_seq, end_seq)
            if not got:
                return


class LogWriter:
    """One log, what it should hold, and what is done to it."""

    def __init__(
        self,
        number: int,
        log: Log,
        order: Order,
        chance: Chance,
        clock: TickClock,
        worker: Threads,
        tell: Callable[..., None],
    ) -> None:
        self.log = log
        self.order = order
        self.plan = order.plan
        self.chance = chance
        self.worker = worker
        self.clock = clock
        self.number = number
        self.told_to = tell
        self.subjects: dict[int, bytes] = {}
        self.times: dict[int, int] = {}
        self.by_subject: dict[bytes, list[int]] = defaultdict(list)
        self.due: list[tuple[int, int]] = []
        self.told: set[int] = set()
        self.dropped: list[int] = []
        self.work = (0, 0, 0)
        self.acked_seq = log.store.last_seq
        self.begin()
        seen = order.seen[number]
        self.followers = [
            Follower(Filter(), 1, seen, self.subjects),
            Follower(SOME, 7, seen, self.subjects),
        ]
        self.moving = False
        self.cursors = CursorStore.open(log.disk, self.plan.directory(number), self.clock)

    def begin(self) -> None:
        """What is there now is what should be there: the supervisor has compared the same bytes."""
        reader = self.log.reader()
        while len(batch := reader.read()):
            for message in batch:
                self.note(message.seq, message.subject, message.ts_ns, message.expiry_ns)
        state = self.log.state()
        self.tell("open", state.first_seq, state.last_seq, state.messages, state.size)

    def tell(self, kind: str, *numbers: int) -> None:
        self.told_to(self.number, kind, *numbers)

    # ---- what should be there ----

    def note(self, seq: int, subject: bytes, ts_ns: int, expiry_ns: int) -> None:
        self.subjects[seq] = subject
        self.times[seq] = ts_ns
        self.by_subject[subject].append(seq)
        if expiry_ns:
            heapq.heappush(self.due, (expiry_ns, seq))

    def drop(self, seqs: Iterable[int]) -> None:
        """These are deleted, though perhaps not yet in the file."""
        dropped = list(seqs)
        for seq in dropped:
            self.by_subject[self.subjects.pop(seq)].remove(seq)
            del self.times[seq]
        self.tell_going([seq for seq in dropped if seq not in self.told])
        self.told.difference_update(dropped)
        self.dropped += dropped

    def tell_going(self, seqs: list[int]) -> None:
        self.told.update(seqs)
        self.tell_all("going", seqs)

    def tell_all(self, kind: str, seqs: list[int]) -> None:
        for at in range(0, len(seqs), NUMBERS_PER_LINE):
            self.tell(kind, *seqs[at : at + NUMBERS_PER_LINE])

    def settle(self) -> None:
        """Take over what the log has dropped from its front, and compare."""
        first_seq = self.log.store.first_seq
        self.drop(seq for seq in list(self.subjects) if seq < first_seq)
        count = self.log.store.count
        assert count == len(self.subjects), (
            f"the log says {count} messages, there should be {len(self.subjects)}"
        )

    # ---- what is done ----

    def tick(self) -> None:
        chance = self.chance
        self.pass_time()
        first_seq = self.log.store.last_seq + 1
        for _ in range(1 + chance.integer(self.plan.batch_most)):
            if not self.append():
                break
        last_seq = self.log.store.last_seq
        self.delete(chance.integer(24))
        if self.plan.skips and chance.integer(40) == 0:
            self.log.skip_to(last_seq + 1 + chance.integer(50))
        self.settle()
        if last_seq >= first_seq:
            self.log.wait(last_seq, lambda error: self.acknowledged(first_seq, last_seq, error))
        self.commit()
        for follower in self.followers:
            if chance.integer(follower.every) == 0:
                follower.follow(self.log)
        self.tell("seen", self.followers[0].last_seq)
        self.tell_work()
        if chance.integer(6) == 0:
            self.move_cursor()
        if chance.integer(30) == 0:
            self.compare()

    def append(self) -> bool:
        seq = self.log.store.last_seq + 1
        now_ns = self.clock.now_ns()
        chance = self.chance
        expiry_ns = now_ns + (chance.integer(1500) - 200) * NS_PER_MS if chance.integer(20) == 0 else 0
        made = draft(self.order.run, seq, expiry_ns)
        try:
            assert self.log.append(made.subject, made.payload, made.header, now_ns, expiry_ns) == seq
        except LimitReached:
            assert self.plan.limits.discard_new
            assert self.log.store.last_seq == seq - 1
            self.delete(0)
            return False
        self.note(seq, made.subject, now_ns, expiry_ns)
        most = self.plan.limits.max_per_subject
        if most:
            self.drop(self.by_subject[made.subject][:-most])
        return True

    def acknowledged(self, first_seq: int, last_seq: int, error: StorageError | None) -> None:
        assert error is None, error
        assert first_seq > self.acked_seq, "acknowledgements come in order, and once"
        self.acked_seq = last_seq
        assert self.log.committer.committed_seq >= last_seq
        self.tell("ack", first_seq, last_seq)

    def delete(self, what: int) -> None:
        log, chance = self.log, self.chance
        self.settle()
        live = list(self.subjects)
        if not live:
            return
        if what in (0, 1, 2, 3):
            for _ in range(1 + chance.integer(8)):
                seq = live[chance.integer(len(live))]
                assert log.remove(seq) == (seq in self.subjects)
                self.drop({seq} & self.subjects.keys())
        elif what == 4:
            before_seq = live[chance.integer(len(live))]
            self.purged([seq for seq in live if seq < before_seq], log.purge(before_seq=before_seq))
        elif what == 5:
            keep = chance.integer(4)
            matching = [seq for seq in live if SOME.accepts(self.subjects[seq])]
            going = matching[: max(0, len(matching) - keep)]
            self.purged(going, log.purge(SOME, keep=keep))
        elif what == 6 and chance.integer(4) == 0:
            self.purged(live, log.purge())

    def purged(self, wanted: list[int], count: int) -> None:
        assert count == len(wanted), f"a purge took {count} messages instead of {len(wanted)}"
        self.drop(wanted)

    def commit(self) -> None:
        self.log.commit()
        assert not self.log.refusal, self.log.refusal
        dropped, self.dropped = self.dropped, []
        self.tell_all("gone", dropped)

    def pass_time(self) -> None:
        """Let the log delete what is due. What might be is told before."""
        now_ns = self.clock.now_ns()
        going = []
        while self.due and self.due[0][0] <= now_ns:
            going.append(heapq.heappop(self.due)[1])
        expired = [seq for seq in going if seq in self.subjects]
        max_age_ns = self.plan.limits.max_age_ns
        aged = (
            [seq for seq, ts_ns in self.times.items() if ts_ns <= now_ns - max_age_ns] if max_age_ns else []
        )
        self.tell_going([*expired, *aged])
        self.log.tick()
        self.drop(expired)
        self.settle()

    def move_cursor(self) -> None:
        store = self.cursors
        for number, follower in enumerate(self.followers):
            cursor = store.set(f"c{number}", follower.last_seq)
            self.tell("moving", number, cursor.seq, cursor.revision)
            store.wait(cursor.revision, self.cursor_moved(number, cursor.seq, cursor.revision))
        store.commit()
        self.sync_cursors()

    def sync_cursors(self) -> None:
        job = self.cursors.sync_job()
        if job is not None:
            self.moving = True

            def done(_: object, error: BaseException | None) -> None:
                assert error is None, error
                self.moving = False
                self.cursors.synced(None)
                self.cursors.commit()
                self.sync_cursors()

            self.worker.submit(job, done)

    def cursor_moved(self, number: int, seq: int, revision: int) -> Callable[[StorageError | None], None]:
        def moved(error: StorageError | None) -> None:
            assert error is None, error
            self.tell("moved", number, seq, revision)

        return moved

    def compare(self) -> None:
        """Backwards is forwards reversed, and both are what should be there."""
        forward = [message for batch in batches(self.log, False) for message in batch]
        assert [message for batch in batches(self.log, True) for message in batch] == forward[::-1]
        committed_seq = self.log.horizon.committed_seq
        assert [message.seq for message in forward] == [seq for seq in self.subjects if seq <= committed_seq]

    def tell_work(self) -> None:
        figures = self.log.keeper.figures
        work = (figures.compactions, figures.packed, figures.removed)
        if work != self.work:
            self.work = work
            self.tell("work", *work)

    def close(self) -> None:
        while self.moving:
            self.worker.deliver(None)
        self.cursors.close()
        self.log.close()

    def tell_closed(self, settled: int) -> None:
        assert self.log.failure is None, self.log.failure
        assert not self.log.keeper.troubles, list(self.log.keeper.troubles)
        self.tell("closed", settled)


def batches(log: Log, backward: bool) -> Iterable[list[Message]]:
    reader = log.reader(backward=backward)
    while len(batch := reader.read(64)):
        yield list(batch)


def write(order: Order, pipe: int) -> None:
    """Until the order's ticks are over, or for as long as it is let."""

    def tell(number: int, kind: str, *numbers: int) -> None:
        os.write(pipe, " ".join(map(str, (number, kind, *numbers))).encode() + b"\n")

    plan, chance = order.plan, Chance(order.plan.seed * 1_000_003 + order.run)
    worker, clock = Threads(2), TickClock(chance)
    disk = DeadlyDisk(RealDisk(order.root), order.boot, order.point, order.at, lambda: tell(0, "struck"))
    directories = [plan.directory(number) for number in range(plan.logs)]
    tell(0, "up")
    opened = open_logs(disk, directories, plan.settings(order.run), clock, worker)
    writers = [
        LogWriter(number, log, order, chance, clock, worker, tell) for number, (log, _) in enumerate(opened)
    ]
    for _ in range(order.ticks):
        worker.deliver()
        clock.look()
        for writer in writers:
            writer.tick()
    settled = chance.integer(2)
    if settled:
        # Otherwise logs are closed while work for them is under way.
        while worker.deliver(None):
            pass
    for writer in writers:
        writer.close()
    worker.stop()
    worker.deliver()
    for writer in writers:
        writer.tell_closed(settled)
