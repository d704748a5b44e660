"""The blocks of a long list, in one array, and how many members are in front of each.

Promises
  * A block is appended and the first one is dropped in constant time, amortised; one in the middle moves those behind.
  * Counts in front of blocks are kept lazily: they are good up to `known` and are added up from there when somebody
    asks. Only their differences matter, so a change near the front is made up for in front of it.
  * Taking a block out cannot fail.

It does not look into blocks, and it does not own what they own.
"""

from libc.stdlib cimport malloc, realloc
from libc.string cimport memmove

cdef enum:
    FIRST_BLOCKS = 3             # with its header exactly what the C library hands out for it
    SHRINK_BLOCKS = 16           # a directory below this is not worth making smaller
    NEAR_FRONT = 16              # so many blocks are recounted at once after a removal


cdef Directory* with_room(Directory* directory, const Block* first) noexcept nogil:
    """A directory with room for one more block; NULL when memory is missing. Made of `first` if there is none."""
    if directory == NULL:
        directory = <Directory*>malloc(sizeof(Directory) + FIRST_BLOCKS * sizeof(Block))
        if directory != NULL:
            directory.start = directory.known = 0
            directory.end = 1
            directory.capacity = FIRST_BLOCKS
            table_of(directory)[0] = first[0]
        return directory
    if directory.end < directory.capacity:
        return directory
    if directory.start >= directory.end - directory.start:
        to_front(directory)
        return directory
    # By a quarter: a list of millions has little room to spare.
    return with_capacity(directory, directory.capacity + directory.capacity // 4 + 2)


cdef Directory* with_capacity(Directory* directory, uint32_t capacity) noexcept nogil:
    directory = <Directory*>realloc(directory, sizeof(Directory) + capacity * sizeof(Block))
    if directory != NULL:
        directory.capacity = capacity
    return directory


cdef Directory* without(Directory* directory, uint32_t index) noexcept nogil:
    """The directory without one of its blocks, counted from the first one."""
    cdef Block* table = table_of(directory)
    cdef uint32_t at = directory.start + index, used
    cdef Directory* smaller = NULL
    if index == 0:
        directory.start += 1
        directory.known = max(directory.known, directory.start)
    else:
        memmove(table + at, table + at + 1, (directory.end - at - 1) * sizeof(Block))
        directory.end -= 1
        directory.known = min(directory.known, at)
    used = directory.end - directory.start
    if directory.capacity > SHRINK_BLOCKS and used < directory.capacity // 4:
        to_front(directory)
        smaller = with_capacity(directory, used * 2)
    return smaller if smaller != NULL else directory


cdef void to_front(Directory* directory) noexcept nogil:
    """Move the blocks to where the first ones were dropped."""
    cdef uint32_t used = directory.end - directory.start
    memmove(table_of(directory), table_of(directory) + directory.start, used * sizeof(Block))
    directory.known = max(directory.known, directory.start) - directory.start
    directory.start = 0
    directory.end = used


cdef void learn(Directory* directory, uint32_t index) noexcept nogil:
    """Add up the counts in front of blocks, up to one of them."""
    cdef Block* table = table_of(directory)
    cdef uint32_t i = directory.known
    if i <= directory.start:
        table[directory.start].before = 0
        i = directory.start + 1
    while i <= index:
        table[i].before = table[i - 1].before + table[i - 1].count
        i += 1
    directory.known = i


cdef void forget(Directory* directory, uint32_t index) noexcept nogil:
    """A block has one member less: correct the counts near the front, or add those behind it up again later."""
    cdef Block* table = table_of(directory)
    cdef uint32_t i
    if directory.known <= index + 1:
        return
    if index - directory.start >= NEAR_FRONT:
        directory.known = index + 1
        return
    # Only differences of `before` matter.
    for i in range(directory.start, index + 1):
        table[i].before += 1


cdef uint32_t find_nth(Directory* directory, uint32_t n) noexcept nogil:
    """The block of the member with `n` in front of it, counted from the first block."""
    cdef Block* blocks = table_of(directory) + directory.start
    cdef uint32_t low = 0, high = directory.end - directory.start, middle
    learn(directory, directory.end - 1)
    while high - low > 1:
        middle = (low + high) >> 1
        if blocks[middle].before - blocks[0].before <= n:
            low = middle
        else:
            high = middle
    return low
