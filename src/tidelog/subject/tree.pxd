"""Door to the subject tree: which subjects are stored, each with a number that belongs to the caller."""

from libc.stdint cimport uint8_t, uint32_t

from tidelog.subject.node cimport NO_VALUE, Arena

# Told of a subject; False: enough. It may look into the tree and must not change it. The key is good until it returns.
ctypedef bint (*Visit)(void* context, const char* key, Py_ssize_t size, uint32_t value) noexcept nogil


cdef class SubjectTree:
    cdef Arena arena
    cdef readonly Py_ssize_t count

    # The value, or NO_VALUE.
    cdef uint32_t find(self, const char* key, Py_ssize_t size) noexcept nogil
    # Where the value stands, until the next change. A new key has NO_VALUE.
    cdef uint32_t* place(self, const char* key, Py_ssize_t size) except NULL nogil
    # Whether the key was there.
    cdef bint remove(self, const char* key, Py_ssize_t size) noexcept nogil
    # What the filter means, or everything, in the order of bytes, but for keys without a value. False when `visit`
    # had enough.
    cdef bint match_until(self, const char* filter, Py_ssize_t size, Visit visit, void* context) except -1 nogil
    cdef bint walk(self, Visit visit, void* context) except -1 nogil
    cdef void clear(self) noexcept nogil
    # Give back what subjects have left behind, in time in proportion to what is stored. False: no memory for it.
    cdef bint compact(self) noexcept nogil
    cdef size_t memory(self) noexcept nogil

    cdef uint32_t* plant(self, size_t slot, const char* rest, Py_ssize_t size) noexcept nogil
    cdef uint32_t* branch(self, size_t slot, const char* rest, Py_ssize_t size) except NULL nogil
    cdef uint32_t* fork(self, size_t slot, const char* rest, Py_ssize_t size, Py_ssize_t common) except NULL nogil
    cdef void prune(self, size_t slot, uint8_t byte) noexcept nogil
