"""Door to blocks of ascending sequences."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from tidelog.log.arena cimport PAGE_SIZE, Arena

cdef enum:
    BLOCK_SIZE = PAGE_SIZE       # the largest piece of the arena: a walk of at most 257 members
    INLINE_SIZE = 8              # deltas in the place of the pointer to them


cdef struct Block:
    uint64_t base                # its first member
    unsigned char* data          # the deltas; up to INLINE_SIZE bytes of them stand here instead
    uint32_t before              # the owner's; here for its alignment
    uint16_t count
    uint16_t size                # bytes of the deltas


cdef struct Place:
    uint64_t at            # the member that was found; 0: all members of the block are smaller
    uint64_t below         # the one in front of it; 0: none in this block
    int index              # how many stand in front of it in its block
    int start              # where its delta starts and ends
    int end


cdef inline uint64_t ALL() noexcept nogil:
    return 0xFFFFFFFFFFFFFFFF


cdef inline unsigned char* bytes_of(Block* block) noexcept nogil:
    return <unsigned char*>&block.data if block.size <= INLINE_SIZE else block.data


cdef inline uint32_t find_block(const Block* blocks, uint32_t count, uint64_t seq) noexcept nogil:
    """The last block that begins with `seq` or in front of it. The first one does."""
    cdef uint32_t low = 0, high = count, middle
    while high - low > 1:
        middle = (low + high) >> 1
        if blocks[middle].base <= seq:
            low = middle
        else:
            high = middle
    return low


cdef inline const unsigned char* read(const unsigned char* data, uint64_t* value) noexcept nogil:
    cdef uint64_t digit = data[0]
    cdef int shift = 7
    data += 1
    value[0] = digit & 0x7F
    while digit & 0x80:
        digit = data[0]
        data += 1
        value[0] |= (digit & 0x7F) << shift
        shift += 7
    return data


cdef inline unsigned char* write(unsigned char* out, uint64_t value) noexcept nogil:
    while value >= 0x80:
        out[0] = <unsigned char>(value | 0x80)
        out += 1
        value >>= 7
    out[0] = <unsigned char>value
    return out + 1


cdef inline int size_of(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef void seek(Block* block, uint64_t seq, Place* place) noexcept nogil
cdef void seek_last(Block* block, uint64_t last, Place* place) noexcept nogil
cdef uint64_t last_of(Block* block) noexcept nogil
cdef bint resize(Arena arena, Block* block, int size) noexcept nogil
cdef void cut(Arena arena, Block* block, const Place* place) noexcept nogil
cdef bint absorb(Arena arena, Block* left, Block* right, int most) noexcept nogil
cdef bint check_run(uint64_t seq, const unsigned char* data, Py_ssize_t size, uint32_t count) noexcept nogil
