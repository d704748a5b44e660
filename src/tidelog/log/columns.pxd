"""Door to columns: messages, turned by ninety degrees."""

from libc.stdint cimport int16_t, int32_t, int64_t

from tidelog.log.record cimport Head


cdef class Columns:
    cdef readonly Py_ssize_t count
    cdef readonly bytes seq              # int64
    cdef readonly bytes time_us          # int64, microseconds since the epoch, rounded down
    cdef readonly bytes time_ns          # int16, what is left of the nanoseconds
    cdef readonly bytes expiry_ns        # int64; 0: never
    cdef readonly bytes subject_ends     # int32, one more than messages; likewise below
    cdef readonly bytes subjects
    cdef readonly bytes header_ends
    cdef readonly bytes headers          # header blocks as they are; empty: none
    cdef readonly bytes payload_ends
    cdef readonly bytes payloads
    cdef readonly bint expires           # some do
    cdef readonly bint has_headers       # some have


cdef Columns columns_of(Head** heads, Py_ssize_t count)
