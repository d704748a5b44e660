"""A block of ascending sequences: the first one, and how far each of the others is from the one in front of it.

Promises
  * Deltas are in base 128, low digits first, all but the last digit with the high bit (LEB128), in as few bytes as can
    be. None of them is zero. 257 neighbours take up 280 bytes with the block itself.
  * A block owns no memory while its deltas fit into 8 bytes. Beyond that it has a piece of the arena; how large a piece
    follows from the bytes in it, so no capacity is stored.
  * Taking a member away cannot fail: two deltas become one that is not longer than both.
  * What comes from a file is believed only after `check_run`.

It does not know which list it belongs to, nor in which order blocks are.
"""

from libc.string cimport memcpy, memmove

from tidelog.log.arena cimport UNIT_SIZE

cdef uint64_t LAST = 0xFFFFFFFFFFFFFFFF

# Units of the arena for a number of bytes, in eighths: 0 is inline. Steps of a third to a half keep moves rare.
cdef enum:
    EIGHTHS = BLOCK_SIZE // 8 + 1

cdef unsigned char UNITS[EIGHTHS]
cdef int eighths, step
for eighths in range(EIGHTHS):
    for step in (0, 1, 2, 3, 4, 6, 8, 12, 16):
        if eighths * 8 <= (step * UNIT_SIZE or INLINE_SIZE):
            UNITS[eighths] = step
            break


cdef int units_of(int size) noexcept nogil:
    return UNITS[(size + 7) >> 3]


cdef void seek(Block* block, uint64_t seq, Place* place) noexcept nogil:
    """The smallest member >= `seq` of a block that begins with `seq` or in front of it."""
    cdef const unsigned char* data = bytes_of(block)
    cdef const unsigned char* end = data + block.size
    cdef const unsigned char* p = data
    cdef const unsigned char* start = data
    cdef uint64_t delta, at = block.base, below = 0
    cdef int index = 0
    while at < seq:
        below = at
        index += 1
        if p == end:
            at = 0
            break
        start = p
        p = read(p, &delta)
        at += delta
    place.at = at
    place.below = below
    place.index = index
    place.start = <int>(start - data)
    place.end = <int>(p - data)


cdef void seek_last(Block* block, uint64_t last, Place* place) noexcept nogil:
    """The last member of a block, when it is known which one that is: from behind."""
    cdef const unsigned char* data = bytes_of(block)
    cdef uint64_t delta = 0
    cdef int start = block.size
    if start > 0:
        start -= 1
        while start > 0 and data[start - 1] & 0x80:
            start -= 1
        read(data + start, &delta)
    place.at = last
    place.below = last - delta if block.size else 0
    place.index = block.count - 1
    place.start = start
    place.end = block.size


cdef uint64_t last_of(Block* block) noexcept nogil:
    cdef Place place
    seek(block, LAST, &place)
    return place.below


cdef bint resize(Arena arena, Block* block, int size) noexcept nogil:
    """Keep the first `size` bytes, or make room for as many. False when memory is missing: only if it grows."""
    cdef int old = units_of(block.size), new = units_of(size)
    cdef unsigned char* piece = block.data
    if new == 0 and old > 0:
        memcpy(&block.data, piece, size)
        arena.give(piece, old)
    elif new < old:
        arena.trim(piece, old, new)
    elif new > old:
        piece = <unsigned char*>arena.take(new)
        if piece == NULL:
            return False
        memcpy(piece, bytes_of(block), block.size)
        if old > 0:
            arena.give(block.data, old)
        block.data = piece
    block.size = size
    return True


cdef void cut(Arena arena, Block* block, const Place* place) noexcept nogil:
    """Take the member at `place` away. It is not the only one."""
    cdef unsigned char* data = bytes_of(block)
    cdef unsigned char* out = data + place.start
    cdef const unsigned char* rest = data + place.end
    cdef const unsigned char* end = data + block.size
    cdef uint64_t delta
    if rest < end:
        rest = read(rest, &delta)
        if place.index == 0:
            block.base += delta
        else:
            out = write(out, place.at + delta - place.below)
        memmove(out, rest, end - rest)
    block.count -= 1
    resize(arena, block, <int>(out - data + (end - rest)))


cdef bint absorb(Arena arena, Block* left, Block* right, int most) noexcept nogil:
    """Add the members of the next block, if at most `most` bytes come of it."""
    cdef uint64_t delta = right.base - last_of(left)
    cdef int old = left.size, size = old + size_of(delta) + right.size
    cdef unsigned char* out
    if size > most or not resize(arena, left, size):
        return False
    out = write(bytes_of(left) + old, delta)
    memcpy(out, bytes_of(right), right.size)
    left.count += right.count
    resize(arena, right, 0)
    right.count = 0
    return True


cdef bint check_run(uint64_t seq, const unsigned char* data, Py_ssize_t size, uint32_t count) noexcept nogil:
    """Whether that many ascending sequences are in a run, and nothing else."""
    cdef const unsigned char* end = data + size
    cdef uint64_t delta, digit
    cdef int shift
    for _ in range(count - 1):
        delta = 0
        shift = 0
        digit = 0x80
        while digit & 0x80:
            if data == end or shift > 63:
                return False
            digit = data[0]
            data += 1
            if shift == 63 and digit > 1:
                return False
            delta |= (digit & 0x7F) << shift
            shift += 7
        if delta == 0 or delta >= LAST - seq or (digit == 0 and shift > 7):
            return False
        seq += delta
    return data == end
