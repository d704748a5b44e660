"""Door to varints: LEB128, seven bits a byte, the lowest first, in the shortest form and no other.

Inline and without a module behind it. `take_varint` reads what strangers may have written: it stays within its bounds and
refuses numbers of more than 64 bits and needless bytes, so that a number has one form.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

cdef enum:
    VARINT_SIZE_MOST = 10

cdef inline Py_ssize_t varint_size(uint64_t value) noexcept nogil:
    cdef Py_ssize_t size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size

cdef inline unsigned char* put_varint(unsigned char* place, uint64_t value) noexcept nogil:
    """Write `value` at `place`, which has room for it; the place behind it."""
    while value >= 128:
        place[0] = <unsigned char>(value | 128)
        value >>= 7
        place += 1
    place[0] = <unsigned char>value
    return place + 1

cdef inline const unsigned char* take_varint(
    const unsigned char* place, const unsigned char* end, uint64_t* value
) noexcept nogil:
    """Read the number at `place`; the place behind it, or NULL when there is none before `end`."""
    cdef uint64_t total = 0
    cdef int shift = 0
    cdef unsigned char byte
    while place < end and shift < 64:
        byte = place[0]
        place += 1
        if shift == 63 and byte > 1:
            return NULL
        total |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            if byte == 0 and shift:
                return NULL
            value[0] = total
            return place
        shift += 7
    return NULL
