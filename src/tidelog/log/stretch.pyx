"""The checksum of any stretch of the same bytes, at about the same cost however long it is.

A search for records behind damage asks at each position whether the bytes from there on have the checksum that stands
there. Bytes may have been chosen so that they claim to be a record of many megabytes at each of a million positions.

How: a CRC is linear. The registers at the ends of all blocks before (`extend`, once per block) say what the middle of a
stretch does to a register, but for the zeros that have to be put behind what was there at its beginning; for a power of
two of blocks of zeros that is one multiplication by a matrix. The two ends, less than a block each, are read.

A stretch belongs to one run of bytes, which does not change: it remembers nothing else about them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base.vector cimport push, release

cdef extern from "crc32c.h":
    void tidelog_crc32c_prepare() nogil
    uint32_t tidelog_crc32c_register(uint32_t crc, const void* data, size_t size) nogil

cdef enum:
    BLOCK_BITS = 10         # reading a block takes about as long as a few multiplications
    BLOCK_SIZE = 1024
    POWERS = 54             # of two, blocks: more than a size can have
    ONES = 0xFFFF_FFFF
    POLYNOMIAL = 0x82F6_3B78

# What 2 ** i blocks of zeros make of each bit of a register.
cdef uint32_t[POWERS][32] zeros


cdef uint32_t times(uint32_t* matrix, uint32_t register) noexcept nogil:
    cdef uint32_t total = 0
    while register:
        total ^= matrix[0] & (0 - (register & 1))
        register >>= 1
        matrix += 1
    return total


cdef void square(uint32_t* matrix, uint32_t* out) noexcept nogil:
    cdef int bit
    for bit in range(32):
        out[bit] = times(matrix, matrix[bit])


cdef void prepare() noexcept:
    """From one bit of zeros to a block, and on."""
    cdef uint32_t[32] one
    cdef uint32_t[32] two
    cdef int bit, power
    tidelog_crc32c_prepare()
    one[0] = POLYNOMIAL
    for bit in range(1, 32):
        one[bit] = <uint32_t>1 << (bit - 1)
    for power in range(BLOCK_BITS + 3):
        square(one, two)
        one = two
    zeros[0] = one
    for power in range(1, POWERS):
        square(zeros[power - 1], zeros[power])


prepare()


cdef class Stretch:
    def __dealloc__(self):
        release(&self.registers)

    cdef uint32_t crc(self, const char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
        """Of `data` from `start` to `end`. Without memory for the registers it is read from end to end."""
        cdef Py_ssize_t first = (start + BLOCK_SIZE - 1) >> BLOCK_BITS, last = end >> BLOCK_BITS, blocks, power = 0
        cdef uint32_t* registers
        cdef uint32_t register
        if last - first < 2 or not self.extend(data, last):
            return ~tidelog_crc32c_register(ONES, data + start, end - start)
        registers = <uint32_t*>self.registers.items
        register = tidelog_crc32c_register(ONES, data + start, first * BLOCK_SIZE - start)
        if first:
            register ^= registers[first - 1]
        blocks = last - first
        while blocks:
            if blocks & 1:
                register = times(zeros[power], register)
            blocks >>= 1
            power += 1
        register ^= registers[last - 1]
        return ~tidelog_crc32c_register(register, data + last * BLOCK_SIZE, end - last * BLOCK_SIZE)

    cdef bint extend(self, const char* data, Py_ssize_t blocks) noexcept nogil:
        """Know the registers at the ends of so many blocks. False: there is no memory."""
        cdef uint32_t register = 0
        cdef uint32_t* place
        if self.registers.count:
            register = (<uint32_t*>self.registers.items)[self.registers.count - 1]
        while self.registers.count < blocks:
            register = tidelog_crc32c_register(register, data + self.registers.count * BLOCK_SIZE, BLOCK_SIZE)
            place = <uint32_t*>push(&self.registers, sizeof(uint32_t))
            if place == NULL:
                return False
            place[0] = register
        return True


def checksums(bytes data not None, stretches not None) -> list:
    """Those of several stretches of `data`, for tests."""
    cdef Stretch stretch = Stretch()
    cdef Py_ssize_t start, end
    found = []
    for start, end in stretches:
        if not 0 <= start <= end <= PyBytes_GET_SIZE(data):
            raise ValueError(f"no stretch of these bytes: {start} to {end}")
        found.append(stretch.crc(PyBytes_AS_STRING(data), start, end))
    return found
