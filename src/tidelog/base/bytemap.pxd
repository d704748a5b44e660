"""Door to the byte map."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef struct Entry:
    uint64_t hash
    PyObject* key      # bytes; NULL: free
    PyObject* value


cdef class ByteMap:
    cdef Entry* entries
    cdef Py_ssize_t mask
    cdef readonly Py_ssize_t count
    cdef uint64_t seed
    cdef Py_ssize_t shed_end     # places from here on are free: of a map that is being shed

    cdef Entry* find(self, const char* key, Py_ssize_t size, uint64_t hash) noexcept
    cdef PyObject* look_up(self, const char* key, Py_ssize_t size) noexcept
    cdef int store(self, bytes key, object value) except -1
    cdef bint discard(self, const char* key, Py_ssize_t size)
    cdef void clear(self)
    cdef void release(self)
    cdef int grow(self) except -1
    cdef bint shed(self, Py_ssize_t places)
