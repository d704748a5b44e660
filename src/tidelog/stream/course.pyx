"""A consumer's course through its stream: which messages are still to come, and exactly how many.

    course = Course(log, filter, start_seq, skips)
    head = course.load(most)        the next message, and as many behind it as will be wanted; NULL: there is none now
    course.awaited                  or it is in the cold tier, and on its way
    course.take(), course.head()    go over it; the one behind it
    course.release()                what was loaded and not taken is still to come

Promises
  * CONSUMER-1: every committed message from the start that matches comes once, in order, but those that have gone.
  * CONSUMER-11: backwards, every message from the start down comes once, in order, and then the course has `ended`.
  * CONSUMER-2: `pending` is the number of messages that would come now. While messages are taken it costs nothing; it
    is counted anew, from the index, only when something from the middle of what was counted has gone.

With `skips` (deliver policy last per subject) these messages come first, and behind them what is newer than all of them.
"""

from libc.stdlib cimport free, malloc

from tidelog.base import limits
from tidelog.log.fact import Awaited
from tidelog.log.store cimport ALONE, REMOVALS_KEPT, Store

cdef Py_ssize_t LOAD_SIZE = limits.CONSUMER_LOAD_SIZE
cdef uint64_t COUNT_WALK = limits.CONSUMER_COUNT_WALK


cdef class Course:
    def __init__(self, Log log not None, Filter filter not None, uint64_t start_seq, list skips=None, bint backward=False) -> None:
        cdef Py_ssize_t i
        self.log = log
        self.filter = filter
        if skips:
            self.skips = <uint64_t*>malloc(len(skips) * sizeof(uint64_t))
            if self.skips == NULL:
                raise MemoryError
            for i in range(len(skips)):
                self.skips[i] = skips[i]
            self.skip_count = len(skips)
        self.backward = backward
        self.reader = log.reader(filter, start_seq=start_seq, backward=backward)
        self.counted_from = 0

    def __dealloc__(self):
        free(self.skips)

    cdef uint64_t next_seq(self) noexcept:
        """Nothing in front of this will come."""
        if self.batch is not None and self.at < self.batch.count:
            return self.batch.heads[self.at].seq
        if self.skip_at < self.skip_count:
            return self.skips[self.skip_at]
        return self.reader.next_seq

    # ---- going ----

    cdef Head* load(self, Py_ssize_t most) except? NULL:
        cdef Store store = self.log.store
        cdef Head* head
        self.awaited = False
        while self.skip_at < self.skip_count:
            if not store.absent(self.skips[self.skip_at]):
                try:
                    head = self.reader.look(self.skips[self.skip_at], ALONE)
                except Awaited:
                    self.awaited = True
                    return NULL
                if head != NULL and head.seq == self.skips[self.skip_at]:
                    self.count()
                    return head
                store.lose(self.skips[self.skip_at])
            self.skip_at += 1
        self.batch = self.reader.read(most, LOAD_SIZE)
        self.at = 0
        if self.batch.count == 0:
            self.awaited = self.batch.awaited
            return NULL
        self.count()
        return self.batch.heads[0]

    cdef Head* again(self, uint64_t seq) except? NULL:
        """A message that has come before, good until the next is asked for; NULL: it is not there any more, or `awaited`."""
        cdef Py_ssize_t at = 0
        self.awaited = False
        try:
            self.repeated = self.log.store.near(seq, ALONE) if not self.log.store.absent(seq) else None
        except Awaited:
            self.awaited = True
            return NULL
        at = self.repeated.at_least(seq) if self.repeated is not None else 0
        if self.repeated is None or at == self.repeated.count or self.repeated.head(at).seq != seq:
            return NULL
        return self.repeated.head(at)

    cdef Head* head(self) except? NULL:
        """The message that comes next, if it is loaded; NULL: `load` says whether there is one."""
        if self.batch is not None and self.at < self.batch.count:
            return self.batch.heads[self.at]
        return NULL

    cdef int take(self) noexcept:
        """The message that comes next has come."""
        if self.batch is not None and self.at < self.batch.count:
            self.at += 1
        elif self.skip_at < self.skip_count:
            self.skip_at += 1
        if self.counted:
            self.counted -= 1
        return 0

    cdef int release(self) except -1:
        if self.batch is not None:
            if self.at < self.batch.count:
                self.reader.next_seq = self.batch.heads[self.at].seq
                self.reader.ended = False
            self.batch = None
        self.reader.run = self.repeated = None
        if self.counted_from and self.log.store.removals == self.removals:
            self.counted_from = self.next_seq()
        return 0

    cdef bint ended(self) noexcept:
        """Whether nothing will come any more."""
        return self.backward and self.reader.ended and (self.batch is None or self.at == self.batch.count)

    cdef int move_to(self, uint64_t seq) except -1:
        """Go on from `seq`, forwards or back."""
        self.release()
        self.skip_at = self.skip_count
        self.reader.next_seq = seq
        self.reader.ended = False
        self.counted_from = 0
        return 0

    cdef int change(self, Filter filter) except -1:
        """Go on with another filter from where this stands."""
        self.release()
        self.filter = filter
        self.reader = self.log.reader(filter, start_seq=self.reader.next_seq, backward=self.backward)
        self.counted_from = 0
        return 0

    cdef bytes pack_skips(self):
        """The sequences that still come first."""
        if self.skip_at == self.skip_count:
            return b""
        return (<char*>&self.skips[self.skip_at])[:(self.skip_count - self.skip_at) * <Py_ssize_t>sizeof(uint64_t)]

    # ---- counting ----

    cdef uint64_t pending(self) except? 0:
        """How many messages are still to come now."""
        self.count()
        return self.counted

    cdef int count(self) except -1:
        """Make `counted` right for what is committed now."""
        cdef Store store = self.log.store
        cdef uint64_t last_seq = self.log.horizon.committed_seq, seq = self.next_seq()
        cdef Py_ssize_t i
        if self.counted_from and last_seq == self.counted_seq and store.removals == self.removals:
            return 0
        if self.backward:
            last_seq = min(last_seq, seq)
            self.counted = 0 if self.ended() else self.count_between(store.first_seq, last_seq)
        elif self.batch is not None and self.reader.next_seq > last_seq and self.skip_at == self.skip_count:
            # All that there is has been loaded.
            self.counted = self.batch.count - self.at
        elif self.skip_at < self.skip_count:
            self.counted = self.count_between(self.reader.next_seq, last_seq)
            for i in range(self.skip_at, self.skip_count):
                self.counted += not store.absent(self.skips[i])
        elif (
            self.filter.everything or self.filter.literal or self.counted_from == 0 or seq > self.counted_seq
            or self.disturbed()
        ):
            self.counted = self.count_between(seq, last_seq)
        elif last_seq > self.counted_seq:
            self.counted += self.count_between(self.counted_seq + 1, last_seq)
        self.counted_seq = self.log.horizon.committed_seq
        self.counted_from = max(seq, 1)
        self.removals = store.removals
        return 0

    cdef bint disturbed(self) noexcept:
        """Whether something that was counted, and had not come then, may have gone."""
        cdef Store store = self.log.store
        cdef uint64_t i, gone
        if store.removals - self.removals > REMOVALS_KEPT:
            return True
        for i in range(self.removals, store.removals):
            gone = store.removed[i & (REMOVALS_KEPT - 1)]
            if self.counted_from <= gone <= self.counted_seq:
                return True
        return False

    cdef uint64_t count_between(self, uint64_t start_seq, uint64_t last_seq) except? 0:
        """Matches from `start_seq` to `last_seq`."""
        cdef Store store = self.log.store
        cdef Reader reader
        cdef Batch batch
        cdef uint64_t count = 0, distance
        start_seq = max(start_seq, store.first_seq)
        if start_seq > last_seq:
            return 0
        if self.filter.everything:
            count = last_seq + 1 - start_seq
            count -= store.deleted.count_range(start_seq, last_seq + 1)
            return count - store.lost.count_range(start_seq, last_seq + 1)
        distance = last_seq - start_seq
        if self.filter.literal or (distance > COUNT_WALK and not self.reader.selection.better_walk(distance)):
            return store.index.count_from(self.filter, start_seq) - store.index.count_from(self.filter, last_seq + 1)
        reader = self.log.reader(self.filter, start_seq=start_seq, stop_seq=last_seq).heads_only()
        while not reader.ended:
            batch = reader.read(4096, LOAD_SIZE)
            count += batch.count
        return count
