"""Blocks of S2 and Snappy, read: one block of compressed bytes becomes what it was made of.

    decode(block, most) -> bytes        ValueError: it is none, is damaged, or would become more than `most` bytes

Whatever the bytes are, nothing outside the block and what has come of it is read or written.

A block is the number of its bytes, as a varint, and then literals and copies of what came before. S2 is Snappy with one
thing more: a short copy whose offset is 0 repeats the last offset, with a length that may be longer.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef struct Part:
    Py_ssize_t at            # behind the tag and its numbers
    Py_ssize_t size
    uint64_t offset          # of the last copy: how far back; 0: there was none


cdef inline uint64_t number(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """Of so many bytes, the lowest first."""
    cdef uint64_t value = 0
    cdef Py_ssize_t i
    for i in range(size):
        value |= <uint64_t>data[i] << (8 * i)
    return value


cdef bint next_part(const unsigned char* data, Py_ssize_t size, Part* part) noexcept nogil:
    """The literal or copy at `part.at`; `part.offset` is that of the last copy. False: it is cut short."""
    cdef Py_ssize_t at = part.at, more = 0
    cdef int tag = data[at], kind = tag & 3
    cdef uint64_t offset
    at += 1
    if kind == 0:
        part.size = tag >> 2
        if part.size >= 60:
            more = part.size - 59
            if at + more > size:
                return False
            part.size = <Py_ssize_t>number(data + at, more)
        part.size += 1
        part.at = at + more
        return True
    if kind == 1:
        if at + 1 > size:
            return False
        offset = <uint64_t>(tag & 0xE0) << 3 | data[at]
        part.size = tag >> 2 & 7
        at += 1
        if offset:
            part.offset = offset
        elif part.size > 4:
            more = part.size - 4
            if at + more > size:
                return False
            # Four, 256 or 65,536 more than the number in so many bytes says.
            part.size = <Py_ssize_t>number(data + at, more) + (4 if more == 1 else 1 << 8 * (more - 1))
        part.size += 4
        part.at = at + more
        return True
    more = 2 if kind == 2 else 4
    if at + more > size:
        return False
    part.size = (tag >> 2) + 1
    part.offset = number(data + at, more)
    part.at = at + more
    return True


def decode(bytes block not None, Py_ssize_t most) -> bytes:
    """What was compressed. Raises ValueError."""
    cdef const unsigned char* data = <const unsigned char*>PyBytes_AS_STRING(block)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(block), end = 0, done = 0, i
    cdef int shift = 0
    cdef uint64_t wanted = 0
    cdef Part part
    cdef bytes made
    cdef char* out
    part.at = 0
    part.offset = 0
    while True:
        if part.at == size or shift > 28:
            raise ValueError("the size of a block is damaged")
        wanted |= <uint64_t>(data[part.at] & 0x7F) << shift
        part.at += 1
        if data[part.at - 1] < 0x80:
            break
        shift += 7
    if wanted > <uint64_t>most:
        raise ValueError(f"a block of {wanted} bytes is too large")
    end = <Py_ssize_t>wanted
    made = PyBytes_FromStringAndSize(NULL, end)
    out = PyBytes_AS_STRING(made)
    while part.at < size:
        i = data[part.at] & 3
        if not next_part(data, size, &part) or part.size > end - done:
            raise ValueError("a block is damaged")
        if i == 0:
            if part.size > size - part.at:
                raise ValueError("a block is cut short")
            memcpy(out + done, data + part.at, part.size)
            part.at += part.size
            done += part.size
            continue
        if part.offset == 0 or part.offset > <uint64_t>done:
            raise ValueError("a block is damaged")
        if part.offset >= <uint64_t>part.size:
            memcpy(out + done, out + done - part.offset, part.size)
            done += part.size
        else:
            # What is copied begins with what the copy itself makes.
            for i in range(part.size):
                out[done] = out[done - <Py_ssize_t>part.offset]
                done += 1
    if done != end:
        raise ValueError("a block is cut short")
    return made
