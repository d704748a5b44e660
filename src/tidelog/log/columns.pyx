"""Messages as columns: the buffers of Arrow arrays, without Arrow and without an object per message.

    columns = batch_columns(batch)                                 of what a reader has read
    columns = segment_columns(data, salt, dead, start_seq, end_seq)    of the plain bytes of a segment
    columns = buffers_as_columns(count, seq, ...)                  of Arrow arrays

Promises
  * Every message is there once, in the given order, with all that the log has of it: `record.encode` of a row gives
    the record again, byte for byte.
  * Of a segment, what is `dead` or outside of the bounds is left out, what is erased or in a husk, and what is damaged:
    `damaged` says how many bytes.
  * The bytes of all texts together, and those of all payloads, are below 2 GiB, or it is a `ValueError`: offsets are
    what Arrow's plain types have.
  * Filling runs without the GIL.

What it does not do: filter by subject, or know about files and Arrow.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from tidelog.base.seqset cimport SequenceSet
from tidelog.base.vector cimport Vector, push, release
from tidelog.log.outline cimport SEGMENT_HEADER_SIZE
from tidelog.log.read cimport Batch
from tidelog.log.record cimport ERASED, MESSAGE, SHELL, body_of, body_size, expiry_of, head_at, resync, subject_of, valid

cdef int64_t MOST = 0x7FFF_FFFF
cdef int64_t NS_PER_US = 1000


cdef class Columns:
    """Buffers, little-endian, in the layout of Arrow; the texts of message i lie between its end and that of the one before."""


cdef Columns columns_of(Head** heads, Py_ssize_t count):
    cdef Columns columns = Columns.__new__(Columns)
    cdef int64_t subject_size = 0, header_size = 0, payload_size = 0
    cdef Py_ssize_t i
    cdef Filling filling
    for i in range(count):
        subject_size += heads[i].subject_size
        header_size += heads[i].header_size
        payload_size += body_size(heads[i]) - heads[i].header_size
    if max(subject_size, header_size, payload_size) > MOST:
        raise ValueError(f"{count} messages with {subject_size + header_size + payload_size} bytes are too much for one block of columns")
    columns.count = count
    columns.seq = room(count * 8, <void**>&filling.seq)
    columns.time_us = room(count * 8, <void**>&filling.time_us)
    columns.time_ns = room(count * 2, <void**>&filling.time_ns)
    columns.expiry_ns = room(count * 8, <void**>&filling.expiry_ns)
    columns.subject_ends = room((count + 1) * 4, <void**>&filling.subject_ends)
    columns.subjects = room(subject_size, <void**>&filling.subjects)
    columns.header_ends = room((count + 1) * 4, <void**>&filling.header_ends)
    columns.headers = room(header_size, <void**>&filling.headers)
    columns.payload_ends = room((count + 1) * 4, <void**>&filling.payload_ends)
    columns.payloads = room(payload_size, <void**>&filling.payloads)
    columns.has_headers = header_size > 0
    filling.expires = False
    with nogil:
        fill(&filling, heads, count)
    columns.expires = filling.expires
    return columns


cdef bytes room(Py_ssize_t size, void** place):
    """Bytes that are still to be filled, which begin at `place`."""
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    place[0] = PyBytes_AS_STRING(data)
    return data


cdef struct Filling:
    int64_t* seq
    int64_t* time_us
    int16_t* time_ns
    int64_t* expiry_ns
    int32_t* subject_ends
    char* subjects
    int32_t* header_ends
    char* headers
    int32_t* payload_ends
    char* payloads
    bint expires


cdef void fill(Filling* to, Head** heads, Py_ssize_t count) noexcept nogil:
    cdef int32_t subject_end = 0, header_end = 0, payload_end = 0
    cdef Py_ssize_t i, size
    cdef Head* head
    cdef int64_t us
    cdef const char* body
    to.subject_ends[0] = to.header_ends[0] = to.payload_ends[0] = 0
    for i in range(count):
        head = heads[i]
        body = body_of(head)
        us = head.ts_ns / NS_PER_US
        if us * NS_PER_US > head.ts_ns:
            # Division truncates, and what is before the epoch must be rounded down, too.
            us -= 1
        to.seq[i] = <int64_t>head.seq
        to.time_us[i] = us
        to.time_ns[i] = <int16_t>(head.ts_ns - us * NS_PER_US)
        to.expiry_ns[i] = expiry_of(head)
        to.expires = to.expires or to.expiry_ns[i] != 0
        memcpy(to.subjects + subject_end, subject_of(head), head.subject_size)
        subject_end += head.subject_size
        memcpy(to.headers + header_end, body, head.header_size)
        header_end += <int32_t>head.header_size
        size = body_size(head) - head.header_size
        memcpy(to.payloads + payload_end, body + head.header_size, size)
        payload_end += <int32_t>size
        to.subject_ends[i + 1] = subject_end
        to.header_ends[i + 1] = header_end
        to.payload_ends[i + 1] = payload_end


def buffers_as_columns(
    Py_ssize_t count, bytes seq not None, bytes time_us not None, bytes time_ns not None, bytes expiry_ns not None,
    bytes subject_ends not None, bytes subjects not None, bytes header_ends not None, bytes headers not None,
    bytes payload_ends not None, bytes payloads not None,
) -> Columns:
    """Columns that came from elsewhere. Raises ValueError if they do not fit each other."""
    cdef Columns columns = Columns.__new__(Columns)
    cdef const int64_t* expiries = <const int64_t*>PyBytes_AS_STRING(expiry_ns)
    cdef Py_ssize_t i
    for data, width in ((seq, 8), (time_us, 8), (time_ns, 2), (expiry_ns, 8)):
        if len(data) != count * width:
            raise ValueError(f"{count} values of {width} bytes have not {len(data)}")
    for ends, texts in ((subject_ends, subjects), (header_ends, headers), (payload_ends, payloads)):
        check_ends(ends, PyBytes_GET_SIZE(texts), count)
    columns.count = count
    columns.seq, columns.time_us, columns.time_ns, columns.expiry_ns = seq, time_us, time_ns, expiry_ns
    columns.subject_ends, columns.subjects = subject_ends, subjects
    columns.header_ends, columns.headers = header_ends, headers
    columns.payload_ends, columns.payloads = payload_ends, payloads
    columns.has_headers = PyBytes_GET_SIZE(headers) > 0
    for i in range(count):
        columns.expires = columns.expires or expiries[i] != 0
    return columns


cdef int check_ends(bytes ends, Py_ssize_t size, Py_ssize_t count) except -1:
    cdef const int32_t* place = <const int32_t*>PyBytes_AS_STRING(ends)
    cdef Py_ssize_t i
    if PyBytes_GET_SIZE(ends) != (count + 1) * 4 or place[0] != 0 or place[count] != size:
        raise ValueError(f"the ends of {count} texts do not fit {size} bytes")
    for i in range(count):
        if place[i] > place[i + 1]:
            raise ValueError("the ends of texts do not ascend")
    return 0


def batch_columns(Batch batch not None) -> Columns:
    """Of the messages that a reader has read, in its order."""
    return columns_of(batch.heads, batch.count)


def segment_columns(
    bytes data not None, uint32_t salt, SequenceSet dead not None, uint64_t start_seq, uint64_t end_seq
) -> tuple:
    """Of the messages of a segment that are in `[start_seq, end_seq)` and not `dead`, and how many bytes are damaged."""
    cdef const char* place = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), damaged
    cdef Vector heads
    heads.items = NULL
    heads.count = heads.room = 0
    try:
        with nogil:
            damaged = collect(&heads, place, size, salt, dead, start_seq, end_seq)
        if damaged < 0:
            raise MemoryError
        return columns_of(<Head**>heads.items, heads.count), damaged
    finally:
        release(&heads)


cdef Py_ssize_t collect(
    Vector* heads, const char* data, Py_ssize_t size, uint32_t salt, SequenceSet dead, uint64_t start_seq, uint64_t end_seq
) noexcept nogil:
    """Note where the wanted messages begin. Returns how many bytes are no record; -1: there is no memory."""
    cdef Py_ssize_t pos = SEGMENT_HEADER_SIZE, found, damaged = 0
    cdef uint64_t seen = 0
    cdef Head* head
    cdef Head** place
    while pos < size:
        if not valid(data + pos, size - pos, salt):
            found = resync(data, size, pos + 1, salt, seen + 1, end_seq)
            damaged += (found if found >= 0 else size) - pos
            if found < 0:
                break
            pos = found
        head = head_at(data + pos)
        if head.kind == MESSAGE and head.seq > seen:
            seen = head.seq
            if start_seq <= head.seq < end_seq and not head.flags & (ERASED | SHELL) and not dead.contains(head.seq):
                place = <Head**>push(heads, sizeof(Head*))
                if place == NULL:
                    return -1
                place[0] = head
        pos += head.size
    return damaged
