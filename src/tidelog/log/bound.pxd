"""Door to bounds."""

from libc.stdint cimport uint64_t

from tidelog.log.store cimport Store


cdef class Bounds:
    cdef Store store
    cdef bint any                      # there are some that an append can meet
    cdef uint64_t max_messages
    cdef uint64_t max_size
    cdef uint64_t uncounted
    cdef readonly uint64_t max_per_subject
    cdef bint discard_new
    cdef bint discard_new_per_subject

    cdef int check(self, const char* subject, Py_ssize_t subject_size, Py_ssize_t size) except -1
    cdef uint64_t counted_size(self) noexcept
    cdef int enforce(self) except -1
