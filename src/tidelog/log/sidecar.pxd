"""Door to sidecars: where things are in a segment, and a walk over its subjects while its index is loaded."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.base.varint cimport take_varint
from tidelog.log.outline cimport Outline, Sample


cdef class RowCursor:
    cdef bytes data             # an index file, or rows alone
    cdef const unsigned char* place
    cdef const unsigned char* end
    cdef uint64_t offset_most   # no sequence is further from the base
    cdef uint64_t messages      # there are, and no more stand in the rows
    cdef readonly uint64_t base_seq
    cdef readonly uint64_t rows     # that are still to come
    cdef readonly bint broken
    cdef const char* before     # the subject of the row before
    cdef Py_ssize_t before_size

    cdef void begin(
        self, bytes data, const unsigned char* place, const unsigned char* end, uint64_t rows, Outline* outline
    )
    # Deltas are `count - 1` varints, the distances of the sequences behind `first_seq`; what is handed out is checked.
    cdef bint next_row(
        self, const char** subject, Py_ssize_t* subject_size, uint64_t* first_seq, uint64_t* count,
        const unsigned char** deltas, Py_ssize_t* deltas_size
    ) noexcept nogil
    cdef bint read_row(
        self, const char** subject, Py_ssize_t* subject_size, uint64_t* first_seq, uint64_t* count,
        const unsigned char** deltas, Py_ssize_t* deltas_size
    ) noexcept nogil


cdef class Sidecar:
    cdef Outline outline        # its arrays may be read by anybody, and move when something is noted
    cdef RowCursor cursor       # until somebody takes it

    cpdef int note(self, uint64_t seq, uint64_t pos, int64_t ts_ns, uint64_t size) except -1
    cpdef int note_expiry(self, uint64_t seq, int64_t expiry_ns) except -1
    cpdef int note_control(self, uint64_t pos, uint64_t size) except -1
    cpdef RowCursor take_rows(self)

    cdef Py_ssize_t sample_before(self, uint64_t seq) noexcept nogil
    cdef Py_ssize_t sample_at_time(self, int64_t ts_ns) noexcept nogil

    cdef inline Sample* sample(self, Py_ssize_t i) noexcept nogil:
        return <Sample*>self.outline.samples.items + i

    cdef inline uint32_t control(self, Py_ssize_t i) noexcept nogil:
        return (<uint32_t*>self.outline.controls.items)[i]


# What a delete record has for each range.
cdef struct Range:
    uint64_t first
    uint64_t count
    uint64_t size           # of the records, in bytes

cdef inline const unsigned char* take_range(
    const unsigned char* place, const unsigned char* end, uint64_t floor, Range* found
) noexcept nogil:
    """Read the range at `place`; the place behind it, or NULL when there is none before `end`.

    `floor`: one behind the last sequence of the range before; 0 for the first range.
    """
    cdef uint64_t distance
    place = take_varint(place, end, &distance)
    if place == NULL:
        return NULL
    place = take_varint(place, end, &found.count)
    if place == NULL:
        return NULL
    place = take_varint(place, end, &found.size)
    if place == NULL:
        return NULL
    found.first = floor + distance
    if found.count == 0 or found.first < floor or found.first + found.count < found.first:
        return NULL
    return place
