"""Door to the table of what a consumer has delivered and is not done with."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct Item:
    # What is known of one message; seq 0: a free place.
    uint64_t seq
    uint64_t dseq          # the consumer sequence of its first delivery
    int64_t ts_ns          # when it was delivered, or worked on, last; monotonic
    int64_t due_ns         # when it will be delivered again; 0: it waits in the queue, or for nothing
    uint32_t count         # deliveries after the first
    uint8_t pending        # an acknowledgement is waited for
    uint8_t queued         # it is to be delivered again as soon as somebody takes it


cdef struct Ring:
    uint64_t* items
    Py_ssize_t room        # a power of two, or 0
    Py_ssize_t start
    Py_ssize_t count


cdef struct Due:
    int64_t due_ns
    uint64_t seq


cdef class PendingTable:
    cdef Item* items
    cdef Py_ssize_t mask
    cdef readonly Py_ssize_t count         # items
    cdef readonly Py_ssize_t pending       # of them wait for an acknowledgement
    cdef readonly Py_ssize_t redelivered   # of them were delivered more than once
    cdef readonly Py_ssize_t queued
    cdef Ring order                        # sequences in the order of their first delivery; some have gone
    cdef Ring queue                        # sequences to be delivered again; some have gone
    cdef Due* heap                         # some have gone
    cdef Py_ssize_t heap_room
    cdef Py_ssize_t heap_count

    cdef Item* find(self, uint64_t seq) noexcept nogil
    cdef Item* place(self, uint64_t seq) except NULL
    cdef int discard(self, uint64_t seq) except -1
    cdef int track(self, uint64_t seq, uint64_t dseq, int64_t now_ns, int64_t due_ns) except -1
    cdef int untrack(self, uint64_t seq) except -1
    cdef int put_off(self, Item* item, int64_t due_ns) except -1
    cdef int settle(self, Item* item) except -1
    cdef int give_up(self, Item* item, uint32_t count) except -1
    cdef int count_up(self, Item* item, int by) except -1
    cdef int enqueue(self, Item* item) except -1
    cdef uint64_t first_queued(self) noexcept
    cdef int64_t next_due(self) noexcept
    cdef int64_t latest_due(self) noexcept
    cdef uint64_t pop_due(self, int64_t now_ns) noexcept
    cdef Item* front(self) noexcept
    cdef int push_due(self, int64_t due_ns, uint64_t seq) except -1
    cdef int grow(self) except -1
    cdef void drop_due(self) noexcept
    cdef void sift_down(self, Py_ssize_t i, Due due) noexcept
    cdef void tidy_heap(self) noexcept
    cdef void tidy_order(self) noexcept
    cdef void tidy_queue(self) noexcept
    cdef list sequences(self)
    cdef bytes pack(self, int64_t now_ns)
    cdef int unpack(self, bytes data, int64_t now_ns) except -1
