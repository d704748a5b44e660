"""What a consumer has delivered and is not done with, in a few blocks of memory.

Promises
  * No object is made per message: an item is 48 bytes in an open table, its place in the order of delivery eight, its
    deadline sixteen.
  * Delivering, acknowledging and putting off cost the same however many messages wait.
  * `front` is the oldest message that waits for an acknowledgement, which says where the floor of a consumer is.

How it works: the table is asked by sequence. The order of first deliveries, the queue of redeliveries and the heap of
deadlines only name sequences; one that is not so any more is passed over when its turn comes. When more than half of
their entries are such, they are cleaned up, so each entry is moved a bounded number of times.

An item that does not wait for an acknowledgement remembers that a message was delivered as often as it may be.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

cdef enum:
    FIRST_ROOM = 16
    SLACK = 64             # entries that have gone are not worth a clean-up before there are so many
    IS_PENDING = 1
    IS_QUEUED = 2

cdef packed struct Kept:
    # An item in a file. Machines that we run on are little-endian.
    uint64_t seq
    uint64_t dseq
    int64_t left_ns        # to its deadline
    uint32_t count
    uint32_t flags


cdef inline uint64_t spread(uint64_t seq) noexcept nogil:
    return (seq * <uint64_t>0x9E3779B97F4A7C15) >> 20


cdef int ring_push(Ring* ring, uint64_t seq) except -1:
    cdef uint64_t* grown
    cdef Py_ssize_t room, i
    if ring.count == ring.room:
        room = ring.room * 2 if ring.room else FIRST_ROOM
        grown = <uint64_t*>malloc(room * sizeof(uint64_t))
        if grown == NULL:
            raise MemoryError
        for i in range(ring.count):
            grown[i] = ring.items[(ring.start + i) & (ring.room - 1)]
        free(ring.items)
        ring.items = grown
        ring.room = room
        ring.start = 0
    ring.items[(ring.start + ring.count) & (ring.room - 1)] = seq
    ring.count += 1
    return 0


cdef inline uint64_t ring_first(Ring* ring) noexcept nogil:
    return ring.items[ring.start]


cdef inline void ring_drop(Ring* ring) noexcept nogil:
    ring.start = (ring.start + 1) & (ring.room - 1)
    ring.count -= 1


cdef void ring_clear(Ring* ring) noexcept nogil:
    free(ring.items)
    memset(ring, 0, sizeof(Ring))


cdef class PendingTable:
    def __cinit__(self):
        self.mask = FIRST_ROOM - 1
        self.items = <Item*>calloc(FIRST_ROOM, sizeof(Item))
        if self.items == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.items)
        free(self.heap)
        ring_clear(&self.order)
        ring_clear(&self.queue)

    def clear(self) -> None:
        """Forget everything."""
        self.count = self.pending = self.redelivered = self.queued = self.heap_count = 0
        memset(self.items, 0, (self.mask + 1) * sizeof(Item))
        ring_clear(&self.order)
        ring_clear(&self.queue)

    # ---- the table ----

    cdef Item* find(self, uint64_t seq) noexcept nogil:
        """The item of a sequence; NULL: there is none."""
        cdef Py_ssize_t i = <Py_ssize_t>(spread(seq) & <uint64_t>self.mask)
        while self.items[i].seq:
            if self.items[i].seq == seq:
                return &self.items[i]
            i = (i + 1) & self.mask
        return NULL

    cdef Item* place(self, uint64_t seq) except NULL:
        """The item of a sequence, made now if there is none. Good until the next one is made or discarded."""
        cdef Py_ssize_t i
        if 4 * (self.count + 1) > 3 * (self.mask + 1):
            self.grow()
        i = <Py_ssize_t>(spread(seq) & <uint64_t>self.mask)
        while self.items[i].seq:
            if self.items[i].seq == seq:
                return &self.items[i]
            i = (i + 1) & self.mask
        memset(&self.items[i], 0, sizeof(Item))
        self.items[i].seq = seq
        self.count += 1
        return &self.items[i]

    cdef int grow(self) except -1:
        cdef Py_ssize_t room = (self.mask + 1) * 2, i, j
        cdef Item* grown = <Item*>calloc(room, sizeof(Item))
        if grown == NULL:
            raise MemoryError
        for i in range(self.mask + 1):
            if self.items[i].seq:
                j = <Py_ssize_t>(spread(self.items[i].seq) & <uint64_t>(room - 1))
                while grown[j].seq:
                    j = (j + 1) & (room - 1)
                grown[j] = self.items[i]
        free(self.items)
        self.items = grown
        self.mask = room - 1
        return 0

    cdef int discard(self, uint64_t seq) except -1:
        """Forget a sequence, if it is known."""
        cdef Item* item = self.find(seq)
        cdef Py_ssize_t i, j, home
        if item == NULL:
            return 0
        self.settle(item)
        self.redelivered -= item.count > 0
        self.count -= 1
        # Whoever stands behind it moves up, so that no search ends too early.
        i = item - self.items
        j = i
        while True:
            j = (j + 1) & self.mask
            if self.items[j].seq == 0:
                break
            home = <Py_ssize_t>(spread(self.items[j].seq) & <uint64_t>self.mask)
            if ((j - home) & self.mask) >= ((j - i) & self.mask):
                self.items[i] = self.items[j]
                i = j
        self.items[i].seq = 0
        return 0

    # ---- what happens to a message ----

    cdef int track(self, uint64_t seq, uint64_t dseq, int64_t now_ns, int64_t due_ns) except -1:
        """A message was delivered; `due_ns`: when again, if nothing is heard of it (0: never)."""
        cdef Item* item = self.place(seq)
        if not item.pending:
            item.pending = True
            item.dseq = dseq
            self.pending += 1
            ring_push(&self.order, seq)
            if self.order.count > 2 * self.pending + SLACK:
                self.tidy_order()
        item.ts_ns = now_ns
        self.put_off(item, due_ns)
        return 0

    cdef int untrack(self, uint64_t seq) except -1:
        """Nobody took the message that was tracked last, for the first time."""
        self.discard(seq)
        if self.order.count and self.order.items[(self.order.start + self.order.count - 1) & (self.order.room - 1)] == seq:
            self.order.count -= 1
        return 0

    cdef int put_off(self, Item* item, int64_t due_ns) except -1:
        """It is not to be delivered again before `due_ns`."""
        if item.queued:
            item.queued = False
            self.queued -= 1
            # It must not have its place back when it is queued again.
            if ring_first(&self.queue) == item.seq:
                ring_drop(&self.queue)
            else:
                self.tidy_queue()
        item.due_ns = due_ns
        if due_ns:
            self.push_due(due_ns, item.seq)
        return 0

    cdef int settle(self, Item* item) except -1:
        """Nothing is waited for any more."""
        if item.queued:
            item.queued = False
            self.queued -= 1
        if item.pending:
            item.pending = False
            self.pending -= 1
            if self.pending == 0:
                ring_clear(&self.order)
                self.heap_count = 0
        item.due_ns = 0
        return 0

    cdef int give_up(self, Item* item, uint32_t count) except -1:
        """It was delivered as often as it may be: it is remembered, and not waited for."""
        self.settle(item)
        self.redelivered += (count > 0) - (item.count > 0)
        item.count = count
        return 0

    cdef int count_up(self, Item* item, int by) except -1:
        """It is delivered once more, or that came to nothing."""
        self.redelivered -= item.count > 0
        item.count += by
        self.redelivered += item.count > 0
        return 0

    cdef int enqueue(self, Item* item) except -1:
        """To be delivered again as soon as somebody takes it."""
        if not item.queued:
            item.queued = True
            item.due_ns = 0
            self.queued += 1
            ring_push(&self.queue, item.seq)
            if self.queue.count > 2 * self.queued + SLACK:
                self.tidy_queue()
        return 0

    cdef uint64_t first_queued(self) noexcept:
        """Who is delivered again next; 0: nobody. `put_off` or `settle` takes it away."""
        cdef Item* item
        while self.queue.count:
            item = self.find(ring_first(&self.queue))
            if item != NULL and item.queued:
                return item.seq
            ring_drop(&self.queue)
        ring_clear(&self.queue)
        return 0

    # ---- deadlines and order ----

    cdef int64_t next_due(self) noexcept:
        """The earliest deadline; 0: there is none."""
        cdef Item* item
        while self.heap_count:
            item = self.find(self.heap[0].seq)
            if item != NULL and item.pending and item.due_ns == self.heap[0].due_ns:
                return item.due_ns
            self.drop_due()
        return 0

    cdef int64_t latest_due(self) noexcept:
        """The last deadline; 0: there is none."""
        cdef Py_ssize_t i
        cdef int64_t latest_ns = 0
        for i in range(self.mask + 1):
            if self.items[i].seq and self.items[i].pending:
                latest_ns = max(latest_ns, self.items[i].due_ns)
        return latest_ns

    cdef uint64_t pop_due(self, int64_t now_ns) noexcept:
        """Whose deadline has passed, the earliest first; 0: nobody's."""
        cdef int64_t due_ns = self.next_due()
        cdef Item* item
        if due_ns == 0 or due_ns > now_ns:
            return 0
        item = self.find(self.heap[0].seq)
        item.due_ns = 0
        self.drop_due()
        return item.seq

    cdef Item* front(self) noexcept:
        """The oldest message that waits for an acknowledgement; NULL: none does."""
        cdef Item* item
        while self.order.count:
            item = self.find(ring_first(&self.order))
            if item != NULL and item.pending:
                return item
            ring_drop(&self.order)
        return NULL

    cdef int push_due(self, int64_t due_ns, uint64_t seq) except -1:
        cdef Py_ssize_t i, above
        cdef Due* grown
        if self.heap_count > 2 * self.pending + SLACK:
            self.tidy_heap()
        if self.heap_count == self.heap_room:
            i = self.heap_room * 2 if self.heap_room else FIRST_ROOM
            grown = <Due*>realloc(self.heap, i * sizeof(Due))
            if grown == NULL:
                raise MemoryError
            self.heap = grown
            self.heap_room = i
        i = self.heap_count
        self.heap_count += 1
        while i:
            above = (i - 1) >> 1
            if self.heap[above].due_ns <= due_ns:
                break
            self.heap[i] = self.heap[above]
            i = above
        self.heap[i].due_ns = due_ns
        self.heap[i].seq = seq
        return 0

    cdef void drop_due(self) noexcept:
        """Take the first one out of the heap."""
        self.heap_count -= 1
        if self.heap_count:
            self.sift_down(0, self.heap[self.heap_count])

    cdef void sift_down(self, Py_ssize_t i, Due due) noexcept:
        cdef Py_ssize_t below
        while True:
            below = 2 * i + 1
            if below >= self.heap_count:
                break
            if below + 1 < self.heap_count and self.heap[below + 1].due_ns < self.heap[below].due_ns:
                below += 1
            if due.due_ns <= self.heap[below].due_ns:
                break
            self.heap[i] = self.heap[below]
            i = below
        self.heap[i] = due

    cdef void tidy_heap(self) noexcept:
        """Let go of deadlines that are none any more."""
        cdef Py_ssize_t i, kept = 0
        cdef Item* item
        for i in range(self.heap_count):
            item = self.find(self.heap[i].seq)
            if item != NULL and item.pending and item.due_ns == self.heap[i].due_ns:
                self.heap[kept] = self.heap[i]
                kept += 1
        self.heap_count = kept
        for i in range(kept // 2 - 1, -1, -1):
            self.sift_down(i, self.heap[i])

    cdef void tidy_order(self) noexcept:
        cdef Py_ssize_t i, kept = 0
        cdef uint64_t seq
        cdef Item* item
        for i in range(self.order.count):
            seq = self.order.items[(self.order.start + i) & (self.order.room - 1)]
            item = self.find(seq)
            if item != NULL and item.pending:
                self.order.items[(self.order.start + kept) & (self.order.room - 1)] = seq
                kept += 1
        self.order.count = kept

    cdef void tidy_queue(self) noexcept:
        cdef Py_ssize_t i, kept = 0
        cdef uint64_t seq
        cdef Item* item
        for i in range(self.queue.count):
            seq = self.queue.items[(self.queue.start + i) & (self.queue.room - 1)]
            item = self.find(seq)
            if item != NULL and item.queued:
                self.queue.items[(self.queue.start + kept) & (self.queue.room - 1)] = seq
                kept += 1
        self.queue.count = kept

    cdef list sequences(self):
        """Of all items, ascending."""
        cdef Py_ssize_t i
        cdef list found = []
        for i in range(self.mask + 1):
            if self.items[i].seq:
                found.append(self.items[i].seq)
        found.sort()
        return found

    # ---- in files ----

    cdef bytes pack(self, int64_t now_ns):
        """All items, in no order."""
        cdef bytes data = PyBytes_FromStringAndSize(NULL, self.count * sizeof(Kept))
        cdef Kept* kept = <Kept*>PyBytes_AS_STRING(data)
        cdef Item* item
        cdef Py_ssize_t i
        for i in range(self.mask + 1):
            item = &self.items[i]
            if item.seq:
                kept.seq = item.seq
                kept.dseq = item.dseq
                kept.left_ns = item.due_ns - now_ns if item.due_ns else 0
                kept.count = item.count
                kept.flags = (IS_PENDING if item.pending else 0) | (IS_QUEUED if item.queued else 0)
                kept += 1
        return data

    cdef int unpack(self, bytes data, int64_t now_ns) except -1:
        """Take over items, into a table that is empty. Deadlines go on from where they were."""
        cdef Py_ssize_t i, count = PyBytes_GET_SIZE(data) // <Py_ssize_t>sizeof(Kept)
        cdef Kept* kept
        cdef Item* item
        cdef list places = sorted(range(count), key=lambda i: int.from_bytes(data[32 * i:32 * i + 8], "little"))
        for i in places:
            kept = <Kept*>(PyBytes_AS_STRING(data) + i * sizeof(Kept))
            if kept.seq == 0:
                continue
            if kept.flags & IS_PENDING:
                self.track(kept.seq, kept.dseq, now_ns, max(now_ns + kept.left_ns, 1) if kept.left_ns else 0)
            item = self.place(kept.seq)
            self.count_up(item, <int>kept.count)
            if kept.flags & IS_PENDING and kept.flags & IS_QUEUED:
                self.enqueue(item)
        return 0
