"""Door to stretches: the checksum of any stretch of the same bytes, at about the same cost however long it is."""

from libc.stdint cimport uint32_t

from tidelog.base.vector cimport Vector


cdef class Stretch:
    cdef Vector registers       # uint32_t: after each block, begun with zeros

    cdef uint32_t crc(self, const char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    cdef bint extend(self, const char* data, Py_ssize_t blocks) noexcept nogil
