"""Door to surveys: everything that the bytes of a segment say, for its index and for recovery."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.base.vector cimport Vector
from tidelog.log.outline cimport Outline
from tidelog.log.record cimport Head
from tidelog.log.roster cimport Roster
from tidelog.log.stretch cimport Stretch

cdef struct Damage:
    uint64_t pos
    uint64_t size


cdef class Survey:
    cdef Outline outline        # its size is the end of the last record
    cdef Roster roster
    cdef Stretch stretch
    cdef Vector damaged         # Damage, in their order
    cdef uint64_t seen          # the last sequence that a record has named
    cdef uint64_t seq_most
    cdef uint32_t salt
    cdef readonly Py_ssize_t torn_size

    cdef bint run(self, const char* data, Py_ssize_t size, Py_ssize_t expected_end) noexcept nogil
    cdef bint in_order(self, Head* head) noexcept nogil
    cdef bint take(self, Head* head, Py_ssize_t pos) noexcept nogil
    cdef Py_ssize_t search(
        self, const char* data, Py_ssize_t size, Py_ssize_t pos, Py_ssize_t expected_end
    ) noexcept nogil
    cdef bint note_damage(self, Py_ssize_t pos, Py_ssize_t size) noexcept nogil
    cdef uint64_t index_size(self) noexcept nogil
    cdef void write_index(self, unsigned char* place) noexcept nogil
    cdef bytes row_bytes(self)
