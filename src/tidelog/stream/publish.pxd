"""Door to publish headers: what a publisher asks of the stream, found in place."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum Name:
    MSG_ID
    EXPECTED_STREAM
    EXPECTED_LAST_SEQ
    EXPECTED_LAST_MSG_ID
    EXPECTED_LAST_SUBJECT_SEQ
    EXPECTED_LAST_SUBJECT_SEQ_SUBJECT
    ROLLUP
    TTL
    INCR
    COUNTER_SOURCES
    BATCH_ID
    BATCH_SEQ
    BATCH_COMMIT
    SCHEDULE
    SCHEDULE_TTL
    SCHEDULE_TARGET
    SCHEDULE_SOURCE
    SCHEDULE_ROLLUP
    SCHEDULE_TIME_ZONE
    SCHEDULE_NEXT
    SCHEDULER
    STREAM_SOURCE
    REQUEST_INFO
    TRACE_DEST
    REQUIRED_API_LEVEL
    NAMES          # how many there are

cdef struct Fields:
    # Values lie in the header block. Only those that `found` says are set.
    const char* values[NAMES]
    Py_ssize_t sizes[NAMES]
    uint32_t found             # a bit for each name
    Py_ssize_t status_size     # bytes between the version and its line's end: they are not stored


cdef inline bint has(Fields* fields, int name) noexcept nogil:
    """Whether there is a value that is not empty."""
    return fields.found >> name & 1 and fields.sizes[name] > 0


cdef inline bint schedules(Fields* fields) noexcept nogil:
    """Whether a header says something of schedules."""
    return fields.found & (
        <uint32_t>1 << <int>SCHEDULE | <uint32_t>1 << <int>SCHEDULE_NEXT | <uint32_t>1 << <int>SCHEDULER
    ) != 0


cdef int find_fields(const char* block, Py_ssize_t size, Fields* fields) noexcept nogil
cdef uint64_t sequence_of(Fields* fields, int name) noexcept nogil
cdef bytes value_of(Fields* fields, int name)
cdef bytes without_status(const char* block, Py_ssize_t size, Fields* fields)
cdef bytes without_line(bytes block, bytes name)
cdef int64_t ttl_seconds(bytes text) except? -2
