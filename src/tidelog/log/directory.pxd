"""Door to the directory of a long list."""

from libc.stdint cimport uint32_t

from tidelog.log.block cimport Block

cdef enum:
    ALLOCATION_SIZE = 16         # what the C library keeps beside a directory


cdef struct Directory:
    uint32_t start               # blocks[start:end] are in use; they follow this header
    uint32_t end
    uint32_t capacity
    uint32_t known               # `before` is good in blocks[start:known], but for a constant


cdef inline Block* table_of(Directory* directory) noexcept nogil:
    return <Block*>(directory + 1)


cdef inline Py_ssize_t size_for(const Directory* directory) noexcept nogil:
    return sizeof(Directory) + <Py_ssize_t>directory.capacity * sizeof(Block) + ALLOCATION_SIZE


cdef Directory* with_room(Directory* directory, const Block* first) noexcept nogil
cdef Directory* without(Directory* directory, uint32_t index) noexcept nogil
cdef void learn(Directory* directory, uint32_t index) noexcept nogil
cdef void forget(Directory* directory, uint32_t index) noexcept nogil
cdef uint32_t find_nth(Directory* directory, uint32_t n) noexcept nogil
