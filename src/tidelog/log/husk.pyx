"""Husks: segments of which headers and payloads are elsewhere, and segments made anew from there. docs/formats/log.md.

    husk = strip(data, salt)                                what stays of the plain bytes of a segment
    data = refill(parts, header, salt, start_seq, end_seq)  a segment with the messages of columns

Promises
  * COLD-7: a husk has everything of its segment that the log itself asks for: each message with sequence, time, expiry,
    subject and the size that it had, and every other record as it was. So what was deleted stays deleted, limits and
    ages go on, and an index can be made anew from the husk alone.
  * A message that was stripped and refilled is the record that it was, byte for byte.
  * A husk is of another version: who does not know shells refuses the log, and takes nothing for damage.

Both run without the GIL.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tidelog.base.vector cimport Vector, append, release, reserve
from tidelog.log.columns cimport Columns
from tidelog.log.header import HUSK_VERSION, read_header, segment_header
from tidelog.log.outline cimport SEGMENT_HEADER_SIZE
from tidelog.log.record cimport (
    MESSAGE, SHELL, SHELL_SIZE, Head, encode, encoded_size, front_size, head_at, seal_record, valid
)

cdef int64_t NS_PER_US = 1000


def strip(bytes data not None, uint32_t salt) -> bytes | None:
    """The husk of a segment. None: the segment is damaged, and stays as it is."""
    cdef const char* place = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), pos = SEGMENT_HEADER_SIZE
    cdef Vector out
    cdef bint whole = True, done = True
    found = read_header(data[:SEGMENT_HEADER_SIZE], "")
    header = segment_header(found.log_id, found.base_seq, found.created_ns, found.flags, HUSK_VERSION)
    out.items = NULL
    out.count = out.room = 0
    try:
        if not append(&out, PyBytes_AS_STRING(header), SEGMENT_HEADER_SIZE, 1):
            raise MemoryError
        with nogil:
            while pos < size and done:
                whole = valid(place + pos, size - pos, salt)
                if not whole:
                    break
                done = take(&out, head_at(place + pos), salt)
                pos += head_at(place + pos).size
        if not done:
            raise MemoryError
        return PyBytes_FromStringAndSize(out.items, out.count) if whole else None
    finally:
        release(&out)


cdef bint take(Vector* out, Head* head, uint32_t salt) noexcept nogil:
    """False: there is no memory."""
    cdef Py_ssize_t kept = front_size(head) + head.subject_size
    cdef uint32_t whole = head.size
    cdef Head* shell
    if head.kind != MESSAGE or head.flags & SHELL:
        return append(out, <const char*>head, head.size, 1)
    if not reserve(out, kept + SHELL_SIZE, 1):
        return False
    shell = head_at(out.items + out.count)
    memcpy(shell, head, kept)
    memcpy(<char*>shell + kept, &whole, SHELL_SIZE)
    shell.size = <uint32_t>(kept + SHELL_SIZE)
    shell.flags |= SHELL
    shell.header_size = 0
    seal_record(shell, salt)
    out.count += kept + SHELL_SIZE
    return True


def refill(list parts not None, bytes header not None, uint32_t salt, uint64_t start_seq, uint64_t end_seq) -> bytes:
    """A plain segment with the messages of `parts` that are in [start_seq, end_seq). Their sequences must ascend."""
    cdef Columns columns
    cdef Rows rows
    cdef Vector out
    cdef uint64_t last_seq = 0
    cdef bint done = True
    out.items = NULL
    out.count = out.room = 0
    try:
        if not append(&out, PyBytes_AS_STRING(header), SEGMENT_HEADER_SIZE, 1):
            raise MemoryError
        for columns in parts:
            rows = rows_of(columns)
            with nogil:
                done = put_all(&out, &rows, salt, start_seq, end_seq, &last_seq)
            if not done:
                raise MemoryError
        return PyBytes_FromStringAndSize(out.items, out.count)
    finally:
        release(&out)


cdef struct Rows:
    Py_ssize_t count
    const int64_t* seq
    const int64_t* time_us
    const int16_t* time_ns
    const int64_t* expiry_ns
    const int32_t* subject_ends
    const char* subjects
    const int32_t* header_ends
    const char* headers
    const int32_t* payload_ends
    const char* payloads


cdef Rows rows_of(Columns columns):
    cdef Rows rows
    rows.count = columns.count
    rows.seq = <const int64_t*>PyBytes_AS_STRING(columns.seq)
    rows.time_us = <const int64_t*>PyBytes_AS_STRING(columns.time_us)
    rows.time_ns = <const int16_t*>PyBytes_AS_STRING(columns.time_ns)
    rows.expiry_ns = <const int64_t*>PyBytes_AS_STRING(columns.expiry_ns)
    rows.subject_ends = <const int32_t*>PyBytes_AS_STRING(columns.subject_ends)
    rows.subjects = PyBytes_AS_STRING(columns.subjects)
    rows.header_ends = <const int32_t*>PyBytes_AS_STRING(columns.header_ends)
    rows.headers = PyBytes_AS_STRING(columns.headers)
    rows.payload_ends = <const int32_t*>PyBytes_AS_STRING(columns.payload_ends)
    rows.payloads = PyBytes_AS_STRING(columns.payloads)
    return rows


cdef bint put_all(
    Vector* out, Rows* rows, uint32_t salt, uint64_t start_seq, uint64_t end_seq, uint64_t* last_seq
) noexcept nogil:
    """False: there is no memory. A message that does not ascend is left out, and will be missed."""
    cdef Py_ssize_t i, subject_size, header_size, payload_size, size
    cdef uint64_t seq
    for i in range(rows.count):
        seq = <uint64_t>rows.seq[i]
        if seq < start_seq or seq >= end_seq or seq <= last_seq[0]:
            continue
        last_seq[0] = seq
        subject_size = rows.subject_ends[i + 1] - rows.subject_ends[i]
        header_size = rows.header_ends[i + 1] - rows.header_ends[i]
        payload_size = rows.payload_ends[i + 1] - rows.payload_ends[i]
        size = encoded_size(subject_size, header_size, payload_size, rows.expiry_ns[i] != 0)
        if not reserve(out, size, 1):
            return False
        encode(
            out.items + out.count, salt, seq, rows.time_us[i] * NS_PER_US + rows.time_ns[i], rows.expiry_ns[i],
            rows.subjects + rows.subject_ends[i], subject_size, rows.headers + rows.header_ends[i], header_size,
            rows.payloads + rows.payload_ends[i], payload_size,
        )
        out.count += size
    return True
