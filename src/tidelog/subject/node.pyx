"""The blocks of a subject tree: leaves and nodes of four sizes, in one arena.

A block begins at a multiple of eight bytes, and its handle is that number: half the size of a pointer, and still good
when the arena moves. Handle 0 is none, as the first unit holds the handle of the root. A *slot* is the place of a
handle, counted in words of four bytes from the start of the arena, so that slot 0 is that of the root.

    0 value (4)  4 kind (1)  5 run_size (1)  6 run                                            leaf
    0 value (4)  4 kind (1)  5 run_size (1)  6 tally (2)  8 run, filled up to 4  keys  children   node

The run is what all keys below the block have in common from there on; of a leaf, the rest of its key.

    NODE4, NODE16      4 or 16 keys in the order of bytes, as many children
    NODE48             256 bytes: 0, or which of the 48 children; a child of 0 is a free place
    NODE256            256 children; 0 where there is none

A node has two children or more, or one and a key of its own; otherwise it becomes one block with what is below. There
are two exceptions: a chain that a run is too long for, and what there was no memory to put into its proper form.

Memory is asked for before anything is changed (`reserve`), so that a change either happens as a whole or not at all.
Freed blocks wait in a list per size for the next of that size.
"""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

cdef enum:
    # A tree of a few subjects has 512 bytes, doubled up to 64 KiB and then grown by an eighth: large arenas are moved
    # by the kernel without being copied, and an eighth bounds what is asked for in vain.
    FIRST_CAPACITY = 64
    DOUBLED_CAPACITY = 8192
    MOST_CAPACITY = 0xFFFFFFFF

# Of each kind: bytes behind the run, children it has room for, and at how many it becomes one of the kind before.
# These are some below what that one has room for, so that a subject that comes and goes does not rebuild it each time.
cdef uint32_t[KINDS] BODY_SIZES = [0, 4 + 4 * 4, 16 + 16 * 4, 256 + 48 * 4, 256 * 4]
cdef uint32_t[KINDS] ROOM = [0, 4, 16, 48, 256]
cdef uint32_t[KINDS] SHRINK_AT = [0, 0, 3, 12, 40]


cdef bint open_arena(Arena* arena) noexcept nogil:
    """Make the arena empty, and small again. False: there is no memory, which can only be with one that is new."""
    cdef uint64_t* units = <uint64_t*>realloc(arena.units, FIRST_CAPACITY * sizeof(uint64_t))
    cdef uint32_t capacity = FIRST_CAPACITY
    if units == NULL:
        if arena.units == NULL:
            return False
        units = arena.units
        capacity = arena.capacity
    memset(arena, 0, sizeof(Arena))
    arena.units = units
    (<uint32_t*>arena.units)[0] = 0
    arena.end = 1
    arena.capacity = capacity
    return True


cdef void close_arena(Arena* arena) noexcept nogil:
    free(arena.units)
    arena.units = NULL


cdef bint compact_arena(Arena* arena) noexcept nogil:
    """Move all blocks together and give back what is free. False: there is no memory, and nothing has changed.

    Breadth first, which needs no stack: what has been moved is read again for the children that are still to be.
    """
    cdef Arena fresh
    cdef uint32_t pos = 1
    cdef uint32_t* children
    cdef Head* head
    cdef int i, room
    fresh.capacity = max(arena.end - arena.free, <uint32_t>FIRST_CAPACITY)
    fresh.units = <uint64_t*>malloc(fresh.capacity * sizeof(uint64_t))
    if fresh.units == NULL:
        return False
    fresh.end = 1
    (<uint32_t*>fresh.units)[0] = (<uint32_t*>arena.units)[0]
    move_child(arena, &fresh, <uint32_t*>fresh.units)
    while pos < fresh.end:
        head = at(&fresh, pos)
        pos += <uint32_t>units_of(head.kind, head.run_size)
        if head.kind == LEAF:
            continue
        children = children_of(head)
        # The small nodes keep no zeros behind their children.
        room = head.tally & COUNT if head.kind <= NODE16 else ROOM[head.kind]
        for i in range(room):
            move_child(arena, &fresh, children + i)
    free(arena.units)
    arena.units = fresh.units
    arena.end = fresh.end
    arena.capacity = fresh.capacity
    arena.free = 0
    memset(arena.free_lists, 0, sizeof(arena.free_lists))
    return True


cdef void move_child(Arena* old, Arena* fresh, uint32_t* slot) noexcept nogil:
    """Copy the block that a slot of the new arena names in the old one, if any."""
    cdef Head* head
    cdef size_t units
    if slot[0] == 0:
        return
    head = at(old, slot[0])
    units = units_of(head.kind, head.run_size)
    slot[0] = fresh.end
    fresh.end += <uint32_t>units
    memcpy(at(fresh, slot[0]), head, units * sizeof(uint64_t))


cdef bint reserve(Arena* arena, size_t units) noexcept nogil:
    """Make room for blocks of so many units together. False: there is none. Blocks may move."""
    cdef size_t needed = arena.end + units, capacity = arena.capacity
    cdef uint64_t* moved
    if needed <= capacity:
        return True
    if needed > MOST_CAPACITY:
        return False
    capacity += capacity if capacity < DOUBLED_CAPACITY else capacity >> 3
    capacity = min(max(capacity, needed), <size_t>MOST_CAPACITY)
    moved = <uint64_t*>realloc(arena.units, capacity * sizeof(uint64_t))
    if moved == NULL:
        return False
    arena.units = moved
    arena.capacity = <uint32_t>capacity
    return True


cdef size_t units_of(int kind, Py_ssize_t run_size) noexcept nogil:
    cdef size_t size = 6 + run_size if kind == LEAF else 8 + ((run_size + 3) & ~3) + BODY_SIZES[kind]
    return (size + 7) >> 3


cdef size_t units_of_rest(Py_ssize_t size) noexcept nogil:
    """What a leaf takes for so many bytes, with the chain before it."""
    cdef size_t units = 0
    while size > RUN_MOST:
        units += units_of(NODE4, RUN_MOST)
        size -= RUN_MOST + 1
    return units + units_of(LEAF, size)


cdef size_t units_to_open(Head* head) noexcept nogil:
    """What has to be reserved for another child of this block."""
    if <uint32_t>(head.tally & COUNT) < ROOM[head.kind] and head.kind != LEAF:
        return 0
    return units_of(head.kind + 1, head.run_size)


cdef uint32_t take(Arena* arena, int kind, const char* run, Py_ssize_t run_size) noexcept nogil:
    """A block without value and children. The room has been reserved."""
    cdef size_t units = units_of(kind, run_size)
    cdef uint32_t handle = arena.free_lists[units]
    cdef Head* head
    if handle:
        arena.free_lists[units] = at(arena, handle).value
        arena.free -= <uint32_t>units
    else:
        handle = arena.end
        arena.end += <uint32_t>units
    head = at(arena, handle)
    head.value = NO_VALUE
    head.kind = <uint8_t>kind
    head.run_size = <uint8_t>run_size
    head.tally = 0
    memcpy(<char*>run_of(head), run, run_size)
    if kind != LEAF:
        memset(keys_of(head), 0, BODY_SIZES[kind])
    arena.kinds[kind] += 1
    return handle


cdef void give(Arena* arena, uint32_t handle) noexcept nogil:
    """The block is free."""
    cdef Head* head = at(arena, handle)
    cdef size_t units = units_of(head.kind, head.run_size)
    arena.kinds[head.kind] -= 1
    arena.free += <uint32_t>units
    head.value = arena.free_lists[units]
    arena.free_lists[units] = handle


cdef uint32_t remake(Arena* arena, size_t slot, int kind, const char* run, Py_ssize_t run_size) noexcept nogil:
    """Put the block of `slot` into another form: same value and children. The room has been reserved."""
    cdef uint32_t old_handle = (<uint32_t*>arena.units)[slot]
    cdef uint32_t handle = take(arena, kind, run, run_size), next = 0, child
    cdef Head* old = at(arena, old_handle)
    cdef Head* new = at(arena, handle)
    cdef uint8_t byte = 0
    new.value = old.value
    if old.kind == LEAF:
        if kind != LEAF:
            new.tally = OWN
    elif kind != LEAF:
        if kind == old.kind:
            memcpy(keys_of(new), keys_of(old), BODY_SIZES[kind])
        else:
            while True:
                child = next_child(old, &next, &byte)
                if child == 0:
                    break
                append(new, byte, child)
        new.tally = old.tally
    give(arena, old_handle)
    (<uint32_t*>arena.units)[slot] = handle
    return handle


cdef void append(Head* node, uint8_t byte, uint32_t child) noexcept nogil:
    """Add a child to a node that has only such with smaller bytes, and room."""
    cdef uint8_t* keys = keys_of(node)
    cdef uint32_t count = node.tally
    node.tally += 1
    if node.kind == NODE256:
        children_of(node)[byte] = child
        return
    children_of(node)[count] = child
    if node.kind == NODE48:
        keys[byte] = <uint8_t>(count + 1)
    else:
        keys[count] = byte


cdef size_t open_child(Arena* arena, size_t slot, uint8_t byte) noexcept nogil:
    """A new child of the block of `slot`: the slot where its handle belongs. The room has been reserved."""
    cdef Head* head = at(arena, (<uint32_t*>arena.units)[slot])
    cdef uint8_t* keys
    cdef uint32_t* children
    cdef uint32_t count, i
    if units_to_open(head):
        head = at(arena, remake(arena, slot, head.kind + 1, run_of(head), head.run_size))
    keys = keys_of(head)
    count = head.tally & COUNT
    head.tally += 1
    children = children_of(head)
    if head.kind == NODE256:
        return (children + byte) - <uint32_t*>arena.units
    if head.kind == NODE48:
        i = 0
        while children[i]:
            i += 1
        keys[byte] = <uint8_t>(i + 1)
        return (children + i) - <uint32_t*>arena.units
    i = count
    while i > 0 and keys[i - 1] > byte:
        i -= 1
    memmove(keys + i + 1, keys + i, count - i)
    memmove(children + i + 1, children + i, (count - i) * sizeof(uint32_t))
    keys[i] = byte
    return (children + i) - <uint32_t*>arena.units


cdef void close_child(Head* node, uint8_t byte) noexcept nogil:
    """Take the child behind `byte`, which there is, out of a node. The child itself stays as it is."""
    cdef uint8_t* keys = keys_of(node)
    cdef uint32_t* slot = child_of(node, byte)
    cdef uint32_t i, behind
    node.tally -= 1
    slot[0] = 0
    if node.kind == NODE48:
        keys[byte] = 0
    elif node.kind != NODE256:
        i = <uint32_t>(slot - children_of(node))
        behind = (node.tally & COUNT) - i
        memmove(keys + i, keys + i + 1, behind)
        memmove(slot, slot + 1, behind * sizeof(uint32_t))


cdef void settle(Arena* arena, size_t slot) noexcept nogil:
    """Put a node that has lost something into its proper form. Without memory for that it stays, as good as before."""
    cdef Head* head = at(arena, (<uint32_t*>arena.units)[slot])
    cdef uint32_t count = head.tally & COUNT
    cdef int kind = head.kind
    if count == 1 and not head.tally & OWN:
        if join(arena, slot):
            return
    if count == 0:
        kind = LEAF
    else:
        while count <= SHRINK_AT[kind]:
            kind -= 1
    if kind != head.kind and reserve(arena, units_of(kind, head.run_size)):
        head = at(arena, (<uint32_t*>arena.units)[slot])
        remake(arena, slot, kind, run_of(head), head.run_size)


cdef bint join(Arena* arena, size_t slot) noexcept nogil:
    """Make one block of a node and its only child, if their runs fit into it and there is memory."""
    cdef uint32_t handle = (<uint32_t*>arena.units)[slot], next = 0, child
    cdef Head* head = at(arena, handle)
    cdef Head* below
    cdef uint8_t byte = 0
    cdef char[RUN_MOST] run
    cdef int size = head.run_size
    child = next_child(head, &next, &byte)
    below = at(arena, child)
    if size + 1 + below.run_size > RUN_MOST:
        return False
    memcpy(run, run_of(head), size)
    run[size] = <char>byte
    memcpy(run + size + 1, run_of(below), below.run_size)
    size += 1 + below.run_size
    if not reserve(arena, units_of(below.kind, size)):
        return False
    give(arena, handle)
    (<uint32_t*>arena.units)[slot] = child
    remake(arena, slot, at(arena, child).kind, run, size)
    return True
