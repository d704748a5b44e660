"""Where a consumer stands in its stream: what it has delivered, what of that it is done with, and what comes next.

Promises
  * CONSUMER-5: a message that is not acknowledged comes again when its time is up, at most `max_deliver` times in all,
    and never again once it is acknowledged.
  * CONSUMER-6: no more than `max_ack_pending` messages wait for an acknowledgement; the oldest of them is the floor.
  * A message that goes from the stream is not waited for any more; that is found out when the consumer is looked at.
  * No object is made for an acknowledgement.

What it does not do: deliver, or know when time passes. `Consumer` does both.
"""

from tidelog.log.store cimport REMOVALS_KEPT, Store
from tidelog.stream import consumer_event
from tidelog.stream.ack import nak_delay_ns
from tidelog.stream.consumer_check import sample_percent
from tidelog.stream.consumer_config import ACK_ALL, ACK_FLOW_CONTROL, ACK_NONE


cdef class Position:
    def __init__(self, Stream stream not None, str name not None, keeper, Course course not None) -> None:
        self.stream = stream
        self.name = name
        self.keeper = keeper
        self.course = course
        self.filter = course.filter
        self.clock = stream.account.engine.clock
        self.table = PendingTable()
        self.now_ns = self.clock.monotonic_ns()
        self.delivered_seq = self.floor_seq = course.next_seq() - 1
        self.removals = stream.log.store.removals

    def take_policies(self, config) -> None:
        """Note what a message can meet of the configuration."""
        self.config = config
        self.acks = config.ack_policy != ACK_NONE
        self.acks_all = config.ack_policy in (ACK_ALL, ACK_FLOW_CONTROL)
        self.flows = config.flow_control
        self.max_pending = config.max_ack_pending if self.acks else 0
        self.max_deliver = config.max_deliver
        self.ack_wait_ns = config.ack_wait
        self.backoff = config.backoff
        self.sample_percent = sample_percent(config)

    cpdef int pump(self) except -1:
        """Deliver what can be delivered now."""
        raise NotImplementedError

    cdef int remember(self, int64_t due_ns) except -1:
        """Something is due then, in monotonic time."""
        raise NotImplementedError

    cdef int changed(self) except -1:
        """There is something new to be kept."""
        if not self.dirty:
            self.dirty = True
            self.keeper.changed(self)
        return 0

    cdef int64_t wait_ns(self, uint32_t count):
        """How long an acknowledgement is waited for, of a message that was delivered `count` times before; 0: for ever."""
        if self.backoff:
            return self.backoff[min(<Py_ssize_t>count, len(self.backoff) - 1)]
        return self.ack_wait_ns

    cdef bint removes(self) noexcept:
        """Whether the stream may remove what this is done with."""
        return self.stream.by_interest or self.stream.work_queue

    # ---- what clients say ----

    cdef bint done(self, AckSubject* about, bint sampled) except -1:
        """The client is done with a message. Tells whether it may be told that this was seen."""
        cdef Item* item
        cdef bint full = self.max_pending > 0 and self.table.pending >= self.max_pending
        cdef uint64_t seq
        if about.seq < 0 or self.closed:
            return False
        seq = <uint64_t>about.seq
        if seq >= self.course.next_seq() and not self.flows:
            # It was not delivered.
            return False
        if not self.acks:
            return self.removes()
        if self.acks_all:
            return self.done_all(seq, <uint64_t>max(about.dseq, 0))
        item = self.table.find(seq)
        if item != NULL:
            if item.pending and sampled and self.sample_percent:
                self.sample(seq, about.dseq, about.count, item.ts_ns)
            self.settle(item)
        self.acked_ns = self.clock.now_ns()
        self.changed()
        if self.removes():
            self.stream.acked(self, seq)
        if full:
            self.pump()
        return True

    cdef int settle(self, Item* item) except -1:
        """Forget a message, and move the floor if nothing in front of it is waited for."""
        cdef uint64_t dseq = item.dseq
        cdef bint pending = item.pending
        cdef Item* front
        self.table.discard(item.seq)
        if pending and self.table.pending == 0:
            self.floor_dseq = self.dseq
            self.floor_seq = self.delivered_seq
        elif pending and dseq == self.floor_dseq + 1:
            front = self.table.front()
            self.floor_dseq = front.dseq - 1
            self.floor_seq = front.seq - 1
        return 0

    cdef bint done_all(self, uint64_t seq, uint64_t dseq) except -1:
        """The client is done with a message and with all before it."""
        cdef bint full = self.max_pending > 0 and self.table.pending >= self.max_pending
        cdef Item* item
        cdef uint64_t oldest
        if dseq <= self.floor_dseq or seq <= self.floor_seq:
            return True
        self.floor_dseq = dseq
        self.floor_seq = seq
        while True:
            item = self.table.front()
            if item == NULL or item.seq > seq:
                break
            oldest = item.seq
            self.table.discard(oldest)
            if self.removes():
                self.stream.acked(self, oldest)
        self.acked_ns = self.clock.now_ns()
        self.changed()
        if full:
            self.pump()
        return True

    def sample(self, seq: int, dseq: int, count: int, ts_ns: int) -> None:
        if self.sample_percent >= 100 or self.stream.account.chance.integer(100) < self.sample_percent:
            consumer_event.acknowledged(self, seq, dseq, count, self.clock.monotonic_ns() - ts_ns)

    cdef int nak(self, AckSubject* about, bytes body) except -1:
        """The client wants a message again."""
        cdef Item* item = self.table.find(about.seq) if about.seq > 0 else NULL
        if item == NULL or not item.pending or about.dseq > <int64_t>self.dseq:
            return 0
        consumer_event.refused(self, about.seq, about.dseq, about.count)
        delay_ns = nak_delay_ns(body)
        item = self.table.find(about.seq)
        if item == NULL or not item.pending:
            return 0
        self.changed()
        if delay_ns:
            self.now_ns = self.clock.monotonic_ns()
            self.table.put_off(item, self.now_ns + max(delay_ns, 1))
            self.remember(item.due_ns)
            return 0
        self.table.enqueue(item)
        self.pump()
        return 0

    cdef int progress(self, uint64_t seq) except -1:
        """The client is working on a message."""
        cdef Item* item = self.table.find(seq) if seq else NULL
        if item != NULL and item.pending and self.ack_wait_ns:
            self.now_ns = self.clock.monotonic_ns()
            item.ts_ns = self.now_ns
            self.table.put_off(item, self.now_ns + self.wait_ns(item.count))
            self.remember(item.due_ns)
            self.changed()
        return 0

    # ---- what happens without them ----

    cdef int expire(self) except -1:
        """What has not been acknowledged in time is to be delivered again."""
        cdef list late = []
        cdef uint64_t seq
        while (seq := self.table.pop_due(self.now_ns)):
            late.append(seq)
        if late:
            late.sort()
            self.give_again(late)
        return 0

    def give_again(self, seqs: list[int]) -> None:
        """These are to be delivered again, but those that were delivered as often as they may be."""
        cdef Item* item
        for seq in seqs:
            item = self.table.find(seq)
            if item == NULL or not item.pending or item.queued:
                continue
            if self.max_deliver > 0 and item.count + 1 >= <uint64_t>self.max_deliver:
                self.exceeded(item, item.count + 1)
            else:
                self.table.enqueue(item)
        self.changed()

    def give_all_again(self) -> None:
        """Whatever is not acknowledged is to be delivered again, now."""
        self.give_again(self.table.sequences())

    def count_time_anew(self) -> None:
        """The time to wait has changed: it holds for what was delivered, too."""
        cdef Item* item
        for seq in self.table.sequences():
            item = self.table.find(seq)
            if item.pending and not item.queued and self.ack_wait_ns:
                self.table.put_off(item, item.ts_ns + self.wait_ns(item.count))
        self.remember(self.table.next_due())

    cdef int exceeded(self, Item* item, uint32_t deliveries) except -1:
        """A message was delivered as often as it may be. It stays in the stream, and is remembered here."""
        cdef uint64_t seq = item.seq
        self.table.give_up(item, deliveries)
        self.changed()
        consumer_event.delivered_too_often(self, seq, deliveries)
        return 0

    cdef int follow_removals(self) except -1:
        """Let go of messages that have gone from the stream."""
        cdef Store store = self.stream.log.store
        cdef uint64_t i, seq
        cdef list found = []
        if self.removals == store.removals:
            return 0
        if self.table.count:
            if store.removals - self.removals > REMOVALS_KEPT:
                found = [seq for seq in self.table.sequences() if store.absent(seq)]
            else:
                for i in range(self.removals, store.removals):
                    seq = store.removed[i & (REMOVALS_KEPT - 1)]
                    if self.table.find(seq) != NULL:
                        found.append(seq)
        self.removals = store.removals
        for seq in found:
            self.gone(seq)
        return 0

    cdef int gone(self, uint64_t seq) except -1:
        """A message is not in the stream any more."""
        cdef Item* item = self.table.find(seq)
        cdef uint64_t dseq
        cdef uint32_t count
        if item == NULL:
            return 0
        dseq = item.dseq
        count = item.count
        if not item.pending:
            self.table.discard(seq)
            return 0
        self.settle(item)
        self.acked_ns = self.clock.now_ns()
        self.changed()
        if not self.quiet:
            consumer_event.terminated(self, seq, dseq, count + 1, consumer_event.UNACKNOWLEDGED_GONE)
        return 0

    cdef bint wait_warm(self) except -1:
        """The next message is in the cold tier. Nobody is told meanwhile that there is none. Returns False."""
        self.held = True
        self.stream.log.when_warm(self.pump)
        return False

    # ---- figures ----

    def needs(self, uint64_t seq) -> bool:
        """Whether this is not done with a message that it wants."""
        cdef Item* item = self.table.find(seq)
        if item != NULL:
            return True
        if not self.acks or self.acks_all:
            return seq > self.floors()[1]
        return seq >= self.course.next_seq()

    def floors(self) -> tuple:
        """Consumer and stream sequence up to which everything is done."""
        if not self.acks:
            return self.dseq, self.delivered_seq
        return self.floor_dseq, self.floor_seq

    @property
    def next_seq(self) -> int:
        return self.course.next_seq()

    def num_pending(self) -> int:
        """How many messages are still to come."""
        return self.course.pending()

    def look(self) -> None:
        """Find out what has happened to the stream."""
        self.follow_removals()

    def purged(self, uint64_t first_seq) -> None:
        """The stream was purged, and begins with `first_seq` now."""
        self.quiet = True
        self.follow_removals()
        self.quiet = False
        if self.course.next_seq() < first_seq and not self.course.backward:
            self.course.move_to(first_seq)
        if self.delivered_seq < first_seq - 1:
            self.delivered_seq = first_seq - 1
        if self.floor_seq < first_seq - 1:
            self.floor_seq = first_seq - 1
        if self.table.pending == 0:
            self.floor_dseq = self.dseq
            self.floor_seq = self.delivered_seq
        self.changed()

    def move_to(self, uint64_t seq) -> None:
        """Begin anew with `seq`, as if nothing had been delivered."""
        self.table.clear()
        self.course.move_to(seq)
        self.dseq = self.floor_dseq = 0
        self.delivered_seq = self.floor_seq = seq - 1
        self.delivered_ns = self.acked_ns = 0
        self.changed()

    # ---- in files ----

    def pack(self) -> tuple:
        """Where this stands, as `consumer_state.State` has it, without its number."""
        return (
            self.course.reader.next_seq, self.dseq, self.delivered_seq, self.floor_dseq, self.floor_seq,
            self.delivered_ns, self.acked_ns, self.clock.now_ns(), self.table.pack(self.clock.monotonic_ns()),
            self.course.pack_skips(),
        )

    def restore(self, state) -> None:
        """Stand where this stood before, as far as the stream still has what there was."""
        cdef uint64_t last_seq = self.stream.log.store.last_seq
        self.dseq = state.dseq
        self.delivered_seq = min(state.delivered_seq, last_seq)
        self.floor_dseq = state.floor_dseq
        self.floor_seq = min(state.floor_seq, last_seq)
        self.delivered_ns = state.delivered_ns
        self.acked_ns = state.acked_ns
        # Time has passed for what waits; none, if the clock says that it went back.
        self.table.unpack(state.items, self.now_ns - max(self.clock.now_ns() - state.written_ns, 0))
        for seq in self.table.sequences():
            if self.stream.log.store.absent(seq):
                self.table.discard(seq)
