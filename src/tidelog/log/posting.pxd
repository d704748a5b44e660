"""Door to the posting table."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.log.arena cimport Arena
from tidelog.log.block cimport Block

cdef struct Slot:
    # `before` is the number of members, and `base` the first one, always. With `size` LONG, `data` is a Directory,
    # and the blocks are there. A free slot holds the next free one in `base`.
    Block head
    uint64_t last


cdef class PostingTable:
    cdef Arena arena
    cdef Slot* slots
    cdef uint32_t capacity
    cdef uint32_t used             # slots below were used
    cdef uint32_t free_slot        # the free slot to use first, or NO_SLOT
    cdef readonly uint32_t count   # slots in use
    cdef int block_size
    cdef Py_ssize_t directory_size

    cpdef uint32_t new(self) except? 0xFFFFFFFF nogil
    cpdef void free(self, uint32_t slot) noexcept nogil
    cpdef void clear(self) noexcept nogil
    cpdef int push(self, uint32_t slot, uint64_t seq) except -1 nogil
    cpdef bint remove(self, uint32_t slot, uint64_t seq) noexcept nogil
    cpdef uint64_t first(self, uint32_t slot) noexcept nogil
    cpdef uint64_t last(self, uint32_t slot) noexcept nogil
    cpdef uint32_t size(self, uint32_t slot) noexcept nogil
    cpdef bint contains(self, uint32_t slot, uint64_t seq) noexcept nogil
    cpdef uint64_t next(self, uint32_t slot, uint64_t seq) noexcept nogil
    cpdef uint64_t previous(self, uint32_t slot, uint64_t seq) noexcept nogil
    cpdef uint64_t rank(self, uint32_t slot, uint64_t seq) noexcept nogil
    cpdef uint64_t nth(self, uint32_t slot, uint64_t n) noexcept nogil
    cdef Py_ssize_t gather(
        self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, uint64_t* out, Py_ssize_t room
    ) noexcept nogil
    cdef Py_ssize_t gather_back(
        self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, uint64_t* out, Py_ssize_t room
    ) noexcept nogil
    cdef int extend(
        self, uint32_t slot, uint64_t first_seq, const unsigned char* deltas, Py_ssize_t size, uint32_t count
    ) except -1 nogil
    cdef Py_ssize_t encode(self, uint32_t slot, unsigned char* out) noexcept nogil
    cpdef Py_ssize_t encoded_room(self, uint32_t slot) noexcept nogil
    cpdef Py_ssize_t memory_size(self) noexcept nogil

    cdef void empty(self, Slot* slot) noexcept nogil
    cdef bint add_block(self, Slot* slot, uint64_t seq) noexcept nogil
    cdef void remove_block(self, Slot* slot, uint32_t index) noexcept nogil
    cdef void merge(self, Slot* slot, uint32_t index) noexcept nogil
    cdef list collect(self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, Py_ssize_t room, bint back)
