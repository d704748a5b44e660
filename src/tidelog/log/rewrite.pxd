"""Door to the rewriting of segments."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.base.seqset cimport SequenceSet
from tidelog.base.vector cimport Vector
from tidelog.log.outline cimport Hole
from tidelog.log.record cimport Head
from tidelog.log.sidecar cimport Sidecar

# What is not in a segment in front.
cdef struct Earlier:
    uint64_t base_seq
    uint64_t last_seq
    Hole* holes
    Py_ssize_t count


cdef class Rewriting:
    cdef uint64_t base_seq
    cdef uint64_t end_seq
    cdef uint32_t salt
    cdef SequenceSet dead
    cdef uint64_t floor_seq
    cdef uint64_t seen          # the last sequence that a record has named
    cdef int64_t last_ts_ns
    cdef bint damaged
    cdef Vector out             # char
    cdef Vector ranges          # char: of the delete record that is being made
    cdef uint64_t ranges_end
    cdef Vector earlier         # Earlier, ascending

    cdef int add_earlier(self, Sidecar side) except -1
    cdef bint run(self, const char* data, Py_ssize_t size) noexcept nogil
    cdef bint take_delete(self, Head* head) noexcept nogil
    cdef bint is_hole(self, uint64_t seq, uint64_t count) noexcept nogil
    cdef bint say_dead(self) noexcept nogil
    cdef bint say_floor(self) noexcept nogil
    cdef bint add_range(self, uint64_t first, uint64_t count, uint64_t size, uint64_t seq, int64_t ts_ns) noexcept nogil
    cdef bint put_ranges(self, uint64_t seq, int64_t ts_ns) noexcept nogil
    cdef bint put(self, int kind, uint64_t seq, int64_t ts_ns, const char* payload, Py_ssize_t size) noexcept nogil
