"""Door to the loops over logs."""

from libc.stdint cimport uint64_t


cdef class Mix:
    cdef readonly tuple common
    cdef readonly tuple rare
    cdef readonly uint64_t every
    cdef readonly Py_ssize_t size
    cdef const char** texts
    cdef Py_ssize_t* sizes
    cdef char* payload

    cdef Py_ssize_t subject_at(self, uint64_t number) noexcept nogil
