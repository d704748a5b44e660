"""Door to what stands in front of a payload that a consumer delivers."""

from libc.stdint cimport uint64_t

from tidelog.log.record cimport Head

cdef bytes header_of(Head* head)
cdef bytes made_header(Head* head)
cdef bytes with_line(bytes header, bytes line)
cdef Py_ssize_t write_numbers(char* place, Head* head, uint64_t dcount, uint64_t dseq, uint64_t left) noexcept nogil
