"""Door to chance."""

from libc.stdint cimport uint64_t

cdef class Chance:
    cdef uint64_t state
    cdef uint64_t next(self) noexcept
    cdef Py_ssize_t below(self, Py_ssize_t bound) noexcept
