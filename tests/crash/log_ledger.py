"""What a log must hold after a kill, from what its writer has told; and whether it does.

A message that was acknowledged, or found by an earlier check, is *owed*, with the run that wrote it: so a sequence that
comes back with another content is noticed. What was told to be going may be there or not; what is gone stays gone.
"""

from collections import defaultdict
from itertools import pairwise

from crash.log_plan import Plan, author, record_size
from tidelog.base.clock import SystemClock
from tidelog.disk.disk import Disk
from tidelog.log.cursor import CursorStore
from tidelog.log.filter import Filter
from tidelog.log.log import Log
from tidelog.log.read import Message

Told = tuple[int, ...]


class LogLedger:
    def __init__(self, plan: Plan, directory: str) -> None:
        self.plan = plan
        self.directory = directory
        self.owed: dict[int, int] = {}  # by sequence, the run that wrote it
        self.going: set[int] = set()
        self.gone: set[int] = set()
        self.first_seq = 1
        self.last_seq = 0
        self.seen_seq = 0
        self.moved: dict[int, tuple[int, int]] = {}  # by cursor, what is on the medium: revision, sequence
        self.moving: dict[int, set[tuple[int, int]]] = defaultdict(set)
        self.found: tuple[int, ...] = (1, 0, 0, 0)  # by the last check: first, last, messages, bytes
        self.acks = 0
        self.work = (0, 0, 0)  # of the last writer: segments compacted, packed, removed
        self.closed = False
        self.settled = False  # closed, and opening it should be quick

    # ---- what the writer tells ----

    def hear(self, run: int, kind: str, numbers: Told) -> None:
        getattr(self, f"hear_{kind}")(run, numbers)

    def hear_open(self, _: int, numbers: Told) -> None:
        assert numbers == self.found, f"the writer opens {numbers}, and a copy gave {self.found}"

    def hear_ack(self, run: int, numbers: Told) -> None:
        first_seq, last_seq = numbers
        assert first_seq > self.last_seq, f"{first_seq} is acknowledged again"
        self.owed.update((seq, run) for seq in range(first_seq, last_seq + 1))
        self.last_seq = last_seq
        self.acks += last_seq + 1 - first_seq

    def hear_seen(self, _: int, numbers: Told) -> None:
        self.seen_seq = max(self.seen_seq, numbers[0])

    def hear_going(self, _: int, numbers: Told) -> None:
        self.going.update(numbers)

    def hear_gone(self, _: int, numbers: Told) -> None:
        self.gone.update(numbers)

    def hear_moving(self, _: int, numbers: Told) -> None:
        cursor, seq, revision = numbers
        self.moving[cursor].add((revision, seq))

    def hear_moved(self, _: int, numbers: Told) -> None:
        cursor, seq, revision = numbers
        self.moved[cursor] = max(self.moved.get(cursor, (0, 0)), (revision, seq))

    def hear_work(self, _: int, numbers: Told) -> None:
        compacted, packed, removed = numbers
        self.work = (compacted, packed, removed)

    def hear_closed(self, _: int, numbers: Told) -> None:
        self.closed, self.settled = True, numbers == (1,)

    # ---- what is there ----

    def check(self, log: Log) -> None:
        """Compare, and take what is there for what is owed from now on."""
        found = {message.seq: message for message in scan(log, backward=False)}
        authors = {seq: author(message) for seq, message in found.items()}
        self.check_owed(log, authors)
        self.check_figures(log, found)
        self.check_index(log, found)
        state = log.state()
        self.owed = authors
        self.going = set()
        self.first_seq, self.last_seq = state.first_seq, state.last_seq
        # Below the first sequence nothing can be found again.
        self.gone = {seq for seq in self.gone if seq >= state.first_seq}
        self.found = (state.first_seq, state.last_seq, state.messages, state.size)

    def check_owed(self, log: Log, authors: dict[int, int]) -> None:
        state = log.state()
        assert state.lost == (), f"{state.lost} are said to be lost"
        lost = self.owed.keys() - authors.keys() - self.going - self.gone
        assert not lost, f"acknowledged, and not there: {sorted(lost)}"
        reused = {seq for seq, run in self.owed.items() if authors.get(seq, run) != run}
        assert not reused, f"sequences that have another content now: {sorted(reused)}"
        back = self.gone & authors.keys()
        assert not back, f"deleted, and there again: {sorted(back)}"
        assert state.first_seq >= self.first_seq, "the first sequence has moved back"
        assert state.last_seq >= max(self.last_seq, self.seen_seq), "the last sequence has moved back"
        assert all(log.fact(seq) == "present" for seq in authors)
        # What is skipped is a million sequences and more, so only the ends of what is not there are looked at.
        seqs = [state.first_seq - 1, *authors, state.last_seq + 1]
        for before, after in pairwise(seqs):
            for seq in {before + 1, after - 1} - {before, after}:
                assert log.fact(seq) == "deleted", seq

    def check_figures(self, log: Log, found: dict[int, Message]) -> None:
        state, messages = log.state(), list(found.values())
        assert state.messages == len(messages)
        assert state.size == sum(map(record_size, messages))
        assert state.first_seq == (messages[0].seq if messages else state.last_seq + 1)
        assert state.first_ts_ns == (messages[0].ts_ns if messages else 0)
        assert state.deleted == state.last_seq + 1 - state.first_seq - len(messages)
        assert [message.ts_ns for message in messages] == sorted(message.ts_ns for message in messages)
        assert scan(log, backward=True) == messages[::-1]
        expiring = {message.seq for message in messages if message.expiry_ns}
        assert expiring <= {seq for _, seq in log.expiries.listed()}

    def check_index(self, log: Log, found: dict[int, Message]) -> None:
        """The index says of every subject what the scan says."""
        by_subject: dict[bytes, list[int]] = defaultdict(list)
        for seq, message in found.items():
            by_subject[message.subject].append(seq)
        told = log.subjects(Filter())
        assert told == sorted((one, len(seqs), seqs[0], seqs[-1]) for one, seqs in by_subject.items())
        for subject, seqs in by_subject.items():
            filter, next_seq = Filter(subject), 1
            for seq in seqs:
                next_seq = log.next(filter, next_seq)
                assert next_seq == seq
                next_seq += 1
            assert log.next(filter, next_seq) == 0
        some = Filter(b"s.1.*", b"s.*.2")
        wanted = [message for message in found.values() if some.accepts(message.subject)]
        assert scan(log, some, backward=False) == wanted
        assert scan(log, some, backward=True) == wanted[::-1]
        assert log.count(some) == len(wanted)

    def check_cursors(self, disk: Disk) -> None:
        store = CursorStore.open(disk, self.directory, SystemClock())
        assert (store.damaged, store.failure) == (0, None)
        for number in {*self.moved, *self.moving}:
            cursor, least = store.fetch(f"c{number}"), self.moved.get(number, (0, 0))
            value = (cursor.revision, cursor.seq) if cursor is not None else (0, 0)
            assert value >= least, f"cursor {number} was synced at {least}, and is {value}"
            assert value[1] >= least[1], f"cursor {number} has moved back from {least} to {value}"
            assert value in {least, *self.moving[number]}, f"cursor {number} was never at {value}"
            self.moved[number] = value
        self.moving.clear()
        store.close()


def scan(log: Log, filter: Filter | None = None, *, backward: bool) -> list[Message]:
    reader, messages = log.reader(filter, backward=backward), []
    while len(batch := reader.read()):
        messages += list(batch)
    return messages
