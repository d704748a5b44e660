"""Door to filters: which subjects a reader wants."""

cdef class Filter:
    cdef readonly tuple patterns
    cdef readonly bint everything
    cdef readonly bint literal      # one pattern, without wildcards
    cdef char** texts
    cdef Py_ssize_t* sizes
    cdef Py_ssize_t count

    cdef bint matches(self, const char* subject, Py_ssize_t size) noexcept nogil
    cdef bint matches_before(self, Py_ssize_t index, const char* subject, Py_ssize_t size) noexcept nogil


cdef bint pattern_matches(
    const char* pattern, Py_ssize_t pattern_size, const char* subject, Py_ssize_t size
) noexcept nogil
