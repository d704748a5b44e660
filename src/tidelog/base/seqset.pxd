"""Door to the set of sequences."""

from libc.stdint cimport int64_t, uint64_t

cdef struct Container:
    uint64_t key       # of its first sequence: seq >> 11
    uint64_t count     # members
    uint64_t* bits     # NULL: `count >> 11` keys in a row of which every sequence is a member
    uint64_t before    # members in front of this container, but for a constant; good below `known`


cdef class SequenceSet:
    cdef Container* items
    cdef Py_ssize_t start        # items[start:end] are in use
    cdef Py_ssize_t end
    cdef Py_ssize_t capacity
    cdef Py_ssize_t recent       # the container that was met last
    cdef Py_ssize_t known
    cdef Py_ssize_t bitmaps
    cdef readonly uint64_t count

    cpdef bint add(self, uint64_t seq) except -1 nogil
    cpdef int add_range(self, uint64_t start_seq, uint64_t end_seq) except -1 nogil
    cpdef bint remove(self, uint64_t seq) except -1 nogil
    cpdef uint64_t remove_below(self, uint64_t seq) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef bint contains(self, uint64_t seq) noexcept nogil
    cpdef uint64_t count_range(self, uint64_t start_seq, uint64_t end_seq) noexcept nogil
    cpdef uint64_t next_absent(self, uint64_t seq) noexcept nogil
    cpdef uint64_t previous_absent(self, uint64_t seq) noexcept nogil
    cpdef uint64_t next_present(self, uint64_t seq) noexcept nogil
    cpdef SequenceSet copy(self, uint64_t start_seq, uint64_t end_seq)
    cpdef void clear(self) noexcept nogil
    cpdef Py_ssize_t memory_size(self) noexcept nogil

    cdef Py_ssize_t locate(self, uint64_t key) noexcept nogil
    cdef Py_ssize_t splice(self, Py_ssize_t at, Py_ssize_t gone, Py_ssize_t fresh) noexcept nogil
    cdef bint reserve(self, Py_ssize_t more) noexcept nogil
    cdef void drop_front(self, Py_ssize_t gone) noexcept nogil
    cdef Py_ssize_t place(self, uint64_t key) noexcept nogil
    cdef Py_ssize_t open_run(self, Py_ssize_t at, uint64_t key) noexcept nogil
    cdef int add_part(self, uint64_t key, int low, int high) except -1 nogil
    cdef int add_whole(self, uint64_t start_key, uint64_t end_key) except -1 nogil
    cdef void fill(self, Py_ssize_t at) noexcept nogil
    cdef void join(self, Py_ssize_t at) noexcept nogil
    cdef void changed(self, Py_ssize_t at, int64_t difference) noexcept nogil
    cdef uint64_t count_below(self, uint64_t seq) noexcept nogil
