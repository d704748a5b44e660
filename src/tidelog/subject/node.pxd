"""Door to what a subject tree is made of: blocks in an arena. What is asked on every step of a descent is inline."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "compare.h":
    int tidelog_find_in_4(const uint8_t* keys, uint8_t byte, unsigned count) noexcept nogil
    int tidelog_find_in_16(const uint8_t* keys, uint8_t byte, unsigned count) noexcept nogil

cdef extern from *:
    """
    #define TIDELOG_NO_VALUE 0xFFFFFFFFu
    """
    const uint32_t NO_VALUE "TIDELOG_NO_VALUE"    # of a key that is absent, or has not got one yet

cdef enum:
    LEAF = 0
    NODE4 = 1
    NODE16 = 2
    NODE48 = 3
    NODE256 = 4
    KINDS = 5

    # Bytes of a key in one block; what is longer goes through a chain of them. So a leaf has 256 bytes at most, and
    # every size of block can have a free list of its own.
    RUN_MOST = 250
    # Units of the largest block, a NODE256 with a full run, and one.
    CLASSES = 162

    OWN = 0x8000          # in `tally`: a key ends at this node
    COUNT = 0x7FFF        # in `tally`: the children


cdef struct Head:         # of a block; `node.pyx` says what comes behind it
    uint32_t value
    uint8_t kind
    uint8_t run_size
    uint16_t tally        # of a node; in a leaf the run begins here


cdef struct Arena:
    uint64_t* units       # the first holds the handle of the root
    uint32_t end          # units that are blocks, in use or free
    uint32_t capacity
    uint32_t free         # units in the free lists
    uint32_t free_lists[CLASSES]
    uint32_t kinds[KINDS]     # blocks in use


cdef inline Head* at(Arena* arena, uint32_t handle) noexcept nogil:
    return <Head*>(arena.units + handle)


cdef inline const char* run_of(Head* head) noexcept nogil:
    return <const char*>head + (6 if head.kind == LEAF else 8)


cdef inline uint8_t* keys_of(Head* node) noexcept nogil:
    """Where the keys of a node begin, or the children of a NODE256."""
    return <uint8_t*>node + 8 + ((node.run_size + 3) & ~3)


cdef inline uint32_t* children_of(Head* node) noexcept nogil:
    cdef uint8_t* keys = keys_of(node)
    if node.kind == NODE16:
        keys += 16
    elif node.kind == NODE4:
        keys += 4
    elif node.kind == NODE48:
        keys += 256
    return <uint32_t*>keys


cdef inline uint32_t* child_of(Head* node, uint8_t byte) noexcept nogil:
    """The slot of the child behind `byte`, or NULL."""
    cdef uint8_t* keys = keys_of(node)
    cdef int i
    if node.kind == NODE16:
        i = tidelog_find_in_16(keys, byte, node.tally & COUNT)
        return <uint32_t*>(keys + 16) + i if i >= 0 else NULL
    if node.kind == NODE4:
        i = tidelog_find_in_4(keys, byte, node.tally & COUNT)
        return <uint32_t*>(keys + 4) + i if i >= 0 else NULL
    if node.kind == NODE48:
        i = keys[byte]
        return <uint32_t*>(keys + 256) + (i - 1) if i else NULL
    return <uint32_t*>keys + byte if (<uint32_t*>keys)[byte] else NULL


cdef inline uint32_t next_child(Head* node, uint32_t* next, uint8_t* byte) noexcept nogil:
    """The first child from place `next` on, in the order of bytes, and its byte; 0 when there is none."""
    cdef uint8_t* keys = keys_of(node)
    cdef uint32_t i = next[0]
    if node.kind == NODE4 or node.kind == NODE16:
        if i >= <uint32_t>(node.tally & COUNT):
            return 0
        next[0] = i + 1
        byte[0] = keys[i]
        return (<uint32_t*>(keys + (4 if node.kind == NODE4 else 16)))[i]
    if node.kind == NODE48:
        while i < 256 and keys[i] == 0:
            i += 1
    else:
        while i < 256 and (<uint32_t*>keys)[i] == 0:
            i += 1
    if i == 256:
        next[0] = i
        return 0
    next[0] = i + 1
    byte[0] = <uint8_t>i
    return (<uint32_t*>(keys + 256))[keys[i] - 1] if node.kind == NODE48 else (<uint32_t*>keys)[i]


cdef bint open_arena(Arena* arena) noexcept nogil
cdef void close_arena(Arena* arena) noexcept nogil
cdef bint compact_arena(Arena* arena) noexcept nogil
cdef bint reserve(Arena* arena, size_t units) noexcept nogil
cdef size_t units_of(int kind, Py_ssize_t run_size) noexcept nogil
cdef size_t units_of_rest(Py_ssize_t size) noexcept nogil
cdef size_t units_to_open(Head* head) noexcept nogil
cdef uint32_t take(Arena* arena, int kind, const char* run, Py_ssize_t run_size) noexcept nogil
cdef void give(Arena* arena, uint32_t handle) noexcept nogil
cdef uint32_t remake(Arena* arena, size_t slot, int kind, const char* run, Py_ssize_t run_size) noexcept nogil
cdef size_t open_child(Arena* arena, size_t slot, uint8_t byte) noexcept nogil
cdef void close_child(Head* node, uint8_t byte) noexcept nogil
cdef void settle(Arena* arena, size_t slot) noexcept nogil
