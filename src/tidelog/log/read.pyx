# cython: wraparound=True
"""Readers: one cursor, in either direction.

A reader is the next sequence it wants, a direction, a filter and a bound. It holds no queue and no snapshot. To read is
to look where the next sequence lies: in the tail, which all share, or in a file. So there is nothing to switch between,
and nothing to lose: a reader that stands still is behind, and reads from files until it is back in the tail.

Promises
  * READ-1: forwards, every committed message from the start that matches comes once, in order; what does not come is
    deleted, or a fact says that it was trimmed or lost.
  * READ-2: backwards, the same messages come in the opposite order, from a bound that is fixed when the reader is opened;
    what is appended later is not seen.
  * READ-3: nothing beyond the committed sequence is read.
  * READ-4: a reader that waits costs nothing: `arm` lets go of everything but a place among those who wait, `disarm`
    gives that back, and being woken says only that there may be more.
  * COLD-9: what is elsewhere is waited for, and never passed over: `awaited` says that the next message is on its way,
    and whoever asks again when it has come (`Log.when_warm`) gets it.
"""

from libc.stdlib cimport free, realloc

from tidelog.base import limits
from tidelog.log.fact import Awaited, Lost, Trimmed, TrimmedError
from tidelog.log.record cimport body_of, body_size, expiry_of, subject_of
from tidelog.log.store cimport ALONE, is_near

cdef Py_ssize_t READ_AHEAD = limits.READ_AHEAD_SIZE


class Message:
    """A message out of a log, in objects of its own."""

    __slots__ = ("expiry_ns", "header", "payload", "seq", "subject", "ts_ns")

    def __init__(self, seq, ts_ns, subject, header, payload, expiry_ns) -> None:
        self.seq = seq
        self.ts_ns = ts_ns
        self.subject = subject
        self.header = header
        self.payload = payload
        self.expiry_ns = expiry_ns

    def __repr__(self) -> str:
        return f"Message({self.seq}, {self.subject!r}, {self.payload[:40]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    def __hash__(self) -> int:
        return hash(self.seq)


cdef object message_of(Head* head):
    cdef const char* body = body_of(head)
    return Message(
        head.seq, head.ts_ns, subject_of(head)[:head.subject_size],
        body[:head.header_size], body[head.header_size:body_size(head)], expiry_of(head),
    )


cdef class Batch:
    """Some messages, where they lie. They stay readable for as long as the batch does."""

    def __cinit__(self):
        self.runs = []
        self.facts = []

    def __dealloc__(self):
        free(self.heads)

    cdef int add(self, Head* head, Run run) except -1:
        cdef Py_ssize_t capacity
        cdef Head** grown
        if self.count == self.capacity:
            capacity = self.capacity * 2 if self.capacity else 32
            grown = <Head**>realloc(self.heads, capacity * sizeof(Head*))
            if grown == NULL:
                raise MemoryError
            self.heads = grown
            self.capacity = capacity
        self.heads[self.count] = head
        self.count += 1
        self.size += head.size
        if not self.runs or self.runs[-1] is not run:
            self.runs.append(run)
        return 0

    def sequences(self) -> list:
        return [self.heads[i].seq for i in range(self.count)]

    def bounds(self) -> tuple:
        """The sequences of the first and the last message; of an empty batch there are none."""
        return self.heads[0].seq, self.heads[self.count - 1].seq

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            yield message_of(self.heads[i])


cdef class Reader:
    def __init__(
        self, Store store not None, Horizon horizon not None, Filter filter not None, *, uint64_t start_seq,
        bint backward=False, stop_seq=None, stop_ts_ns=None, limit=None, bint strict=False,
    ) -> None:
        self.store = store
        self.horizon = horizon
        self.filter = filter
        self.selection = None if filter.everything else Selection(store.index, filter)
        self.backward = backward
        self.opened_seq = horizon.committed_seq
        self.next_seq = min(start_seq, self.opened_seq) if backward else start_seq
        if stop_seq is not None:
            self.stop_seq = stop_seq
        else:
            self.stop_seq = 0 if backward else <uint64_t>-1
        self.wanted_seq = store.first_seq if stop_seq is None else self.stop_seq or 1
        self.by_time = stop_ts_ns is not None
        self.stop_ts_ns = stop_ts_ns or 0
        self.left = -1 if limit is None else limit
        self.strict = strict

    def heads_only(self) -> Reader:
        """Read no headers and payloads, and await nothing: for those who count."""
        self.bare = True
        return self

    def read(self, Py_ssize_t most=256, Py_ssize_t size=256 * 1024) -> Batch:
        """Up to `most` messages and about `size` bytes of what is there now."""
        cdef Batch batch = Batch.__new__(Batch)
        if not self.ended:
            if self.left == 0:
                self.ended = True
            else:
                try:
                    if self.backward:
                        self.read_backward(batch, most, size)
                    else:
                        self.read_forward(batch, most, size)
                except Awaited:
                    batch.awaited = True
        batch.ended = self.ended
        if self.ended:
            self.run = None
        return batch

    def arm(self, callback) -> None:
        """Call back once, when more is committed. Whoever is behind should read instead."""
        self.callback = callback
        self.run = None
        if self.selection is not None:
            self.selection.release()
        self.horizon.armed[self] = None

    def wake(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def disarm(self) -> None:
        self.callback = None
        self.horizon.armed.pop(self, None)

    def pending(self) -> int:
        """How many messages are still to come, of those that are here now."""
        cdef SubjectIndex index = self.store.index
        cdef uint64_t start_seq = self.next_seq, last_seq = min(self.horizon.committed_seq, self.stop_seq), count
        if self.ended:
            return 0
        if self.backward:
            start_seq, last_seq = self.stop_seq, self.next_seq
        if self.by_time and self.backward:
            start_seq = max(start_seq, self.store.seq_at_time(self.stop_ts_ns))
        elif self.by_time:
            last_seq = min(last_seq, self.store.seq_at_time(self.stop_ts_ns + 1) - 1)
        if start_seq > last_seq:
            return 0
        count = index.count_from(self.filter, start_seq) - index.count_from(self.filter, last_seq + 1)
        return count if self.left < 0 else min(count, <uint64_t>self.left)

    # ---- forwards ----

    cdef int read_forward(self, Batch batch, Py_ssize_t most, Py_ssize_t size) except -1:
        cdef uint64_t last_seq = min(self.horizon.committed_seq, self.stop_seq), seq, found
        cdef Head* head
        cdef bint walk = True
        while batch.count < most and batch.size < size and not self.ended:
            if self.next_seq > last_seq:
                break
            if self.pass_absent(batch):
                continue
            seq = self.next_seq
            if self.selection is not None:
                walk = self.selection.better_walk(last_seq - seq)
                # What is away is brought back only if it matches.
                if not walk or self.store.is_away(seq):
                    found = self.selection.next(seq, last_seq)
                    if found != seq:
                        found = found if found else last_seq + 1
                        self.tell_lost(batch, seq, found)
                        self.next_seq = found
                        continue
            head = self.look(seq, READ_AHEAD if walk else ALONE)
            if head == NULL or head.seq != seq:
                # The look has found damage, or does now.
                self.store.lose(seq)
                if not self.store.absent(seq):
                    self.next_seq += 1
                continue
            if self.selection is None or not walk or self.filter.matches(subject_of(head), head.subject_size):
                self.take(batch, head)
            else:
                self.next_seq += 1
        if self.next_seq > self.stop_seq:
            self.ended = True
        return 0

    cdef bint pass_absent(self, Batch batch) except -1:
        """Go over what is not there; tells whether there was something."""
        cdef uint64_t seq = self.next_seq, end_seq
        cdef Store store = self.store
        if seq < store.first_seq:
            fact = Trimmed(seq, self.not_beyond_stop(store.first_seq))
            if self.strict:
                raise TrimmedError(fact)
            # In a log without messages nothing may ever have been there.
            batch.facts.append(fact)
            self.next_seq = store.first_seq
            return True
        if store.deleted.count and store.deleted.contains(seq):
            self.next_seq = store.deleted.next_absent(seq)
            return True
        if store.lost.count and store.lost.contains(seq):
            end_seq = store.lost.next_absent(seq)
            batch.facts.append(Lost(seq, self.not_beyond_stop(end_seq)))
            self.next_seq = end_seq
            return True
        return False

    cdef uint64_t not_beyond_stop(self, uint64_t end_seq) noexcept:
        """Nothing is told of what was not asked for."""
        return end_seq if end_seq <= self.stop_seq else self.stop_seq + 1

    cdef int tell_lost(self, Batch batch, uint64_t start_seq, uint64_t end_seq) except -1:
        """Report what was lost from `start_seq` to `end_seq` (not included)."""
        cdef uint64_t seq = start_seq, stop
        while self.store.lost.count:
            seq = self.store.lost.next_present(seq)
            if seq == 0 or seq >= end_seq:
                break
            stop = min(self.store.lost.next_absent(seq), end_seq)
            batch.facts.append(Lost(seq, stop))
            seq = stop
        return 0

    cdef bint take(self, Batch batch, Head* head) except -1:
        """The message that is next belongs into the batch, unless it is beyond the time."""
        if self.by_time and (head.ts_ns < self.stop_ts_ns if self.backward else head.ts_ns > self.stop_ts_ns):
            self.ended = True
            return False
        batch.add(head, self.run)
        if self.backward:
            self.next_seq -= 1
        else:
            self.next_seq += 1
        if self.left > 0:
            self.left -= 1
            self.ended = self.left == 0
        return True

    cdef Head* look(self, uint64_t seq, Py_ssize_t wanted) except? NULL:
        """The message `seq`, or the first one behind it in the same run; NULL: there is none."""
        cdef Run run = self.run
        if run is not None:
            if self.at < run.count and run.head(self.at).seq == seq:
                pass
            elif run.count and run.first_seq() <= seq <= run.last_seq():
                self.at = run.at_least(seq)
            else:
                run = None
        if run is None:
            if wanted == ALONE and self.run is not None and is_near(self.run, seq):
                wanted = 0
            run = (
                self.store.heads_for(seq, wanted, self.backward) if self.bare
                else self.store.run_for(seq, wanted, self.backward)
            )
            self.run = run
            if run is None:
                return NULL
            self.at = run.at_least(seq)
            if self.at == run.count:
                return NULL
        head = run.head(self.at)
        if self.backward:
            self.at = self.at - 1 if self.at else 0
        else:
            self.at += 1
        return head

    # ---- backwards ----

    cdef int read_backward(self, Batch batch, Py_ssize_t most, Py_ssize_t size) except -1:
        cdef uint64_t floor_seq, seq, found
        cdef Py_ssize_t told
        cdef Head* head
        cdef bint walk = True
        while batch.count < most and batch.size < size and not self.ended:
            floor_seq = max(self.stop_seq, self.store.first_seq)
            if self.next_seq < floor_seq or self.next_seq == 0:
                break
            if self.pass_absent_backward(batch):
                continue
            seq = self.next_seq
            if self.selection is not None:
                walk = self.selection.better_walk(seq - floor_seq)
                if not walk or self.store.is_away(seq):
                    found = self.selection.previous(seq, floor_seq)
                    if found != seq:
                        told = len(batch.facts)
                        self.tell_lost(batch, found + 1 if found else floor_seq, seq + 1)
                        batch.facts[told:] = reversed(batch.facts[told:])
                        self.next_seq = found if found else floor_seq - 1
                        continue
            head = self.look(seq, READ_AHEAD if walk else ALONE)
            if head == NULL or head.seq != seq:
                self.store.lose(seq)
                if not self.store.absent(seq):
                    self.next_seq -= 1
                continue
            if self.selection is None or not walk or self.filter.matches(subject_of(head), head.subject_size):
                self.take(batch, head)
            else:
                self.next_seq -= 1
        floor_seq = max(self.stop_seq, self.store.first_seq)
        if not self.ended and (self.next_seq < floor_seq or self.next_seq == 0):
            self.ended = True
            if self.wanted_seq < self.store.first_seq and self.next_seq >= self.wanted_seq:
                batch.facts.append(Trimmed(self.wanted_seq, min(self.next_seq + 1, self.store.first_seq)))
        return 0

    cdef bint pass_absent_backward(self, Batch batch) except -1:
        cdef uint64_t seq = self.next_seq, before
        cdef Store store = self.store
        if store.deleted.count and store.deleted.contains(seq):
            self.next_seq = store.deleted.previous_absent(seq)
            return True
        if store.lost.count and store.lost.contains(seq):
            before = store.lost.previous_absent(seq)
            batch.facts.append(Lost(max(before + 1, store.first_seq, self.stop_seq), seq + 1))
            self.next_seq = before
            return True
        return False
