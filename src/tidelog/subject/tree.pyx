"""The index of stored subjects: an adaptive radix tree from byte strings to numbers of 32 bits.

Keys are any bytes, and one may be the beginning of another. The number belongs to the caller, such as the place of a
list of sequences; NO_VALUE stands for none. Literal look-ups, insertion and removal take one descent, whose length is
that of the key at most. `match_until` visits the keys that a filter means and descends only where some may be; both it
and `walk` go in the order of bytes, and stop as soon as the visitor has enough. Nothing here recurses: subjects may
have ten thousands of tokens.

Nodes are blocks in an arena (`subject.node`), about twenty bytes per subject where names are dense. What subjects
leave behind is used again for others; memory goes back to the system when the last one is gone, and with `compact`.

A filter goes by tokens, as everywhere: `*` for one, a last `>` for one or more. Filters and keys are expected to be
valid when they are matched. Keys with empty tokens can be kept and found, and which wildcards mean them is not
promised.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog.subject.node cimport (
    COUNT, LEAF, NODE4, NODE16, OWN, RUN_MOST, Head, at, child_of, children_of, close_arena, close_child,
    compact_arena, give, next_child, open_arena, open_child, remake, reserve, run_of, settle, take, units_of,
    units_of_rest, units_to_open,
)

cdef extern from "compare.h":
    size_t tidelog_common(const char* a, const char* b, size_t size) noexcept nogil
    bint tidelog_same(const char* a, const char* b, size_t size) noexcept nogil
    void tidelog_prefetch(const void* address) noexcept nogil

cdef enum:
    # Room on the stack of a search: enough for usual subjects, beyond it memory is asked for.
    NEAR_KEY = 512
    NEAR_FRAMES = 32

cdef enum Mode:
    IN_LITERAL       # the next byte of the filter has to follow, or the end
    AT_STAR          # before the first byte of a token that `*` means
    IN_STAR          # in or behind it
    AT_REST          # before what `>` means
    IN_REST          # everything that follows is meant


cdef struct State:
    # How far the filter has come. It is known after every byte: tokens are cut the same way on both sides.
    Py_ssize_t pos
    Mode mode


cdef struct Frame:
    # A node whose children are visited one after the other.
    State state
    Py_ssize_t size      # of its key
    uint32_t node
    uint32_t next


cdef struct Search:
    const char* filter
    Py_ssize_t size
    char* key
    Py_ssize_t key_room
    Frame* frames
    Py_ssize_t depth
    Py_ssize_t frame_room
    char[NEAR_KEY] near_key
    Frame[NEAR_FRAMES] near_frames


cdef class SubjectTree:
    def __cinit__(self):
        if not open_arena(&self.arena):
            raise MemoryError

    def __dealloc__(self):
        close_arena(&self.arena)

    cdef uint32_t find(self, const char* key, Py_ssize_t size) noexcept nogil:
        cdef uint32_t handle = (<uint32_t*>self.arena.units)[0]
        cdef const char* end = key + size
        cdef uint32_t* slot
        cdef Head* head
        if handle == 0:
            return NO_VALUE
        while True:
            head = at(&self.arena, handle)
            if head.kind == LEAF:
                if end - key != head.run_size or not tidelog_same(run_of(head), key, head.run_size):
                    return NO_VALUE
                return head.value
            if head.run_size:
                if end - key < head.run_size or not tidelog_same(run_of(head), key, head.run_size):
                    return NO_VALUE
                key += head.run_size
            if key == end:
                return head.value if head.tally & OWN else NO_VALUE
            slot = child_of(head, <uint8_t>key[0])
            if slot == NULL:
                return NO_VALUE
            handle = slot[0]
            key += 1

    cdef uint32_t* place(self, const char* key, Py_ssize_t size) except NULL nogil:
        cdef uint32_t* words = <uint32_t*>self.arena.units
        cdef const char* end = key + size
        cdef size_t slot = 0
        cdef Py_ssize_t common
        cdef uint32_t* child
        cdef Head* head
        if words[0] == 0:
            if not reserve(&self.arena, units_of_rest(size)):
                with gil:
                    raise MemoryError
            return self.plant(0, key, size)
        while True:
            head = at(&self.arena, words[slot])
            if head.run_size:
                common = tidelog_common(run_of(head), key, min(<Py_ssize_t>head.run_size, end - key))
                if common < head.run_size:
                    return self.fork(slot, key, end - key, common)
                key += common
            if head.kind == LEAF:
                return &head.value if key == end else self.branch(slot, key, end - key)
            if key == end:
                if not head.tally & OWN:
                    head.tally |= OWN
                    head.value = NO_VALUE
                    self.count += 1
                return &head.value
            child = child_of(head, <uint8_t>key[0])
            if child == NULL:
                return self.branch(slot, key, end - key)
            slot = child - words
            key += 1

    cdef uint32_t* plant(self, size_t slot, const char* rest, Py_ssize_t size) noexcept nogil:
        """A new key whose `rest` is not in the tree yet, at an empty slot. The room has been reserved."""
        cdef uint32_t* words = <uint32_t*>self.arena.units
        while size > RUN_MOST:
            words[slot] = take(&self.arena, NODE4, rest, RUN_MOST)
            slot = open_child(&self.arena, slot, <uint8_t>rest[RUN_MOST])
            rest += RUN_MOST + 1
            size -= RUN_MOST + 1
        words[slot] = take(&self.arena, LEAF, rest, size)
        self.count += 1
        return &at(&self.arena, words[slot]).value

    cdef uint32_t* branch(self, size_t slot, const char* rest, Py_ssize_t size) except NULL nogil:
        """A new key that goes on with `rest` behind the block of `slot`."""
        cdef size_t units = units_of_rest(size - 1)
        units += units_to_open(at(&self.arena, (<uint32_t*>self.arena.units)[slot]))
        if not reserve(&self.arena, units):
            with gil:
                raise MemoryError
        return self.plant(open_child(&self.arena, slot, <uint8_t>rest[0]), rest + 1, size - 1)

    cdef uint32_t* fork(self, size_t slot, const char* rest, Py_ssize_t size, Py_ssize_t common) except NULL nogil:
        """A new key that leaves, or ends in, the run of the block of `slot` after `common` bytes."""
        cdef uint32_t handle = (<uint32_t*>self.arena.units)[slot]
        cdef Head* head = at(&self.arena, handle)
        cdef int kind = head.kind
        cdef Py_ssize_t left = head.run_size - common - 1
        cdef size_t units = units_of(NODE4, common) + units_of(kind, left)
        cdef size_t old_slot
        if common < size:
            units += units_of_rest(size - common - 1)
        if not reserve(&self.arena, units):
            with gil:
                raise MemoryError
        (<uint32_t*>self.arena.units)[slot] = take(&self.arena, NODE4, rest, common)
        head = at(&self.arena, handle)
        old_slot = open_child(&self.arena, slot, <uint8_t>run_of(head)[common])
        (<uint32_t*>self.arena.units)[old_slot] = handle
        remake(&self.arena, old_slot, kind, run_of(head) + common + 1, left)
        if common < size:
            old_slot = open_child(&self.arena, slot, <uint8_t>rest[common])
            return self.plant(old_slot, rest + common + 1, size - common - 1)
        head = at(&self.arena, (<uint32_t*>self.arena.units)[slot])
        head.tally |= OWN
        self.count += 1
        return &head.value

    cdef bint remove(self, const char* key, Py_ssize_t size) noexcept nogil:
        cdef uint32_t* words = <uint32_t*>self.arena.units
        cdef const char* end = key + size
        # The last node on the way that stays: it has other children, or a key of its own.
        cdef size_t slot = 0, kept = 0
        cdef uint8_t byte = 0
        cdef bint has_kept = False
        cdef uint32_t* child
        cdef Head* head
        if words[0] == 0:
            return False
        while True:
            head = at(&self.arena, words[slot])
            if end - key < head.run_size or not tidelog_same(run_of(head), key, head.run_size):
                return False
            key += head.run_size
            if head.kind == LEAF or key == end:
                break
            child = child_of(head, <uint8_t>key[0])
            if child == NULL:
                return False
            if head.tally != 1:
                has_kept = True
                kept = slot
                byte = <uint8_t>key[0]
            slot = child - words
            key += 1
        if key != end:
            return False
        if head.kind != LEAF:
            if not head.tally & OWN:
                return False
            if head.tally & COUNT:
                head.tally &= COUNT
                self.count -= 1
                settle(&self.arena, slot)
                return True
        self.count -= 1
        if has_kept:
            self.prune(kept, byte)
        else:
            self.clear()
        return True

    cdef void prune(self, size_t slot, uint8_t byte) noexcept nogil:
        """Take what is behind `byte` off the node of `slot`: a leaf, perhaps with a chain before it."""
        cdef Head* head = at(&self.arena, (<uint32_t*>self.arena.units)[slot])
        cdef uint32_t handle = child_of(head, byte)[0], next, below
        close_child(head, byte)
        while handle:
            head = at(&self.arena, handle)
            next = 0
            below = next_child(head, &next, &byte) if head.kind != LEAF else 0
            give(&self.arena, handle)
            handle = below
        settle(&self.arena, slot)

    cdef void clear(self) noexcept nogil:
        """Forget everything, and give the memory back."""
        self.count = 0
        open_arena(&self.arena)

    cdef bint compact(self) noexcept nogil:
        """Give back what subjects have left behind. False: there was no memory for the move, and nothing has changed.

        It takes time in proportion to what is stored (some 20 ms for a million subjects) and that much memory for as
        long, so it is the owner who knows when: best while nobody waits, and `free_size` is most of `memory_size`.
        """
        return compact_arena(&self.arena)

    cdef size_t memory(self) noexcept nogil:
        """The bytes that it has from the system."""
        return self.arena.capacity * sizeof(uint64_t) + sizeof(Arena)

    cdef bint match_until(self, const char* filter, Py_ssize_t size, Visit visit, void* context) except -1 nogil:
        cdef State state
        cdef uint32_t value
        if not has_wildcard(filter, size):
            value = self.find(filter, size)
            return value == NO_VALUE or visit(context, filter, size, value)
        state.pos = 0
        enter_token(filter, size, &state)
        return run_search(&self.arena, filter, size, state, visit, context)

    cdef bint walk(self, Visit visit, void* context) except -1 nogil:
        cdef State state
        state.pos = 0
        state.mode = IN_REST
        return run_search(&self.arena, NULL, 0, state, visit, context)

    # The same from Python, for tests and tools.

    def get(self, bytes key):
        """The value, or None."""
        cdef uint32_t value = self.find(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        return None if value == NO_VALUE else value

    def set(self, bytes key, uint32_t value):
        if value == NO_VALUE:
            raise ValueError("this number stands for no value")
        self.place(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))[0] = value

    def discard(self, bytes key):
        """Remove `key`; tells whether it was there."""
        return self.remove(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))

    def drop_all(self):
        self.clear()

    def give_back(self):
        return self.compact()

    def match(self, bytes filter):
        """What `filter` means, in the order of bytes."""
        return self.match_first(filter, self.count)[0]

    def match_first(self, bytes filter, Py_ssize_t most):
        """The first `most` that `filter` means, and whether these are all."""
        cdef Collector collector = Collector(most)
        done = self.match_until(PyBytes_AS_STRING(filter), PyBytes_GET_SIZE(filter), collect, <void*>collector)
        return collector.result(), done

    def items(self):
        """All, in the order of bytes."""
        cdef Collector collector = Collector(self.count)
        self.walk(collect, <void*>collector)
        return collector.result()

    def blocks(self):
        """How many there are of each kind."""
        names = ["leaf", "node4", "node16", "node48", "node256"]
        return {name: self.arena.kinds[kind] for kind, name in enumerate(names)}

    @property
    def memory_size(self):
        return self.memory()

    @property
    def free_size(self):
        """The part of `memory_size` that subjects have left behind and that waits for others."""
        return self.arena.free * sizeof(uint64_t)

    def __len__(self):
        return self.count

    def __contains__(self, bytes key):
        return self.find(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) != NO_VALUE


cdef class Collector:
    """What a search from Python has found so far."""

    cdef list found
    cdef Py_ssize_t most
    cdef object error

    def __cinit__(self, Py_ssize_t most):
        self.found = []
        self.most = most

    cdef list result(self):
        if self.error is not None:
            raise self.error
        return self.found


cdef bint collect(void* context, const char* key, Py_ssize_t size, uint32_t value) noexcept with gil:
    cdef Collector collector = <Collector>context
    if len(collector.found) >= collector.most:
        return False
    try:
        collector.found.append((PyBytes_FromStringAndSize(key, size), value))
    except MemoryError as error:
        collector.error = error
        return False
    return True


cdef inline bint is_token(const char* filter, Py_ssize_t size, Py_ssize_t pos) noexcept nogil:
    """Whether the byte at `pos` is a whole token."""
    return (pos == 0 or filter[pos - 1] == c".") and (pos + 1 == size or filter[pos + 1] == c".")


cdef bint has_wildcard(const char* filter, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if filter[i] == c"*" and is_token(filter, size, i):
            return True
    return size > 0 and filter[size - 1] == c">" and is_token(filter, size, size - 1)


cdef inline void enter_token(const char* filter, Py_ssize_t size, State* state) noexcept nogil:
    """What the token at `state.pos` asks for."""
    cdef Py_ssize_t pos = state.pos
    state.mode = IN_LITERAL
    if pos < size and is_token(filter, size, pos):
        if filter[pos] == c"*":
            state.mode = AT_STAR
        elif filter[pos] == c">" and pos + 1 == size:
            state.mode = AT_REST


cdef inline bint step(Search* search, State* state, char byte) noexcept nogil:
    """Whether the filter may go on with `byte`, and how far it is then."""
    if state.mode == IN_REST:
        return True
    if state.mode == IN_LITERAL:
        if state.pos == search.size or search.filter[state.pos] != byte:
            return False
        state.pos += 1
        if byte == c".":
            enter_token(search.filter, search.size, state)
        return True
    if state.mode == IN_STAR:
        if byte == c".":
            if state.pos + 1 == search.size:
                return False
            state.pos += 2
            enter_token(search.filter, search.size, state)
        return True
    if byte == c".":
        return False
    state.mode = IN_STAR if state.mode == AT_STAR else IN_REST
    return True


cdef inline bint is_complete(Search* search, State* state) noexcept nogil:
    """Whether the filter means the key that ends here."""
    if state.mode == IN_LITERAL:
        return state.pos == search.size
    return state.mode == IN_REST or (state.mode == IN_STAR and state.pos + 1 == search.size)


cdef bint run_search(
    Arena* arena, const char* filter, Py_ssize_t size, State state, Visit visit, void* context
) except -1 nogil:
    cdef Search search
    cdef int done
    search.filter = filter
    search.size = size
    search.key = search.near_key
    search.key_room = NEAR_KEY
    search.frames = search.near_frames
    search.frame_room = NEAR_FRAMES
    search.depth = 0
    done = descend(arena, &search, state, visit, context)
    if search.key != search.near_key:
        free(search.key)
    if search.frames != search.near_frames:
        free(search.frames)
    if done < 0:
        with gil:
            raise MemoryError
    return done


cdef int descend(Arena* arena, Search* search, State state, Visit visit, void* context) noexcept nogil:
    """Visit what is meant. 1: to the end; 0: stopped; -1: there was no memory to go on."""
    cdef uint32_t handle = (<uint32_t*>arena.units)[0]
    cdef uint32_t* slot
    cdef Py_ssize_t size = 0
    cdef Head* head
    while handle:
        head = at(arena, handle)
        handle = 0
        if follow_run(search, &state, run_of(head), head.run_size):
            if not make_room(search, size + head.run_size + 1):
                return -1
            memcpy(search.key + size, run_of(head), head.run_size)
            size += head.run_size
            if head.value != NO_VALUE and (head.kind == LEAF or head.tally & OWN) and is_complete(search, &state):
                if not visit(context, search.key, size, head.value):
                    return 0
            if head.kind != LEAF:
                if state.mode != IN_LITERAL:
                    push(arena, search, &state, size, head)
                elif state.pos < search.size:
                    # Only one child can be meant, so nothing has to be remembered.
                    search.key[size] = search.filter[state.pos]
                    slot = child_of(head, <uint8_t>search.key[size])
                    if slot != NULL:
                        handle = slot[0]
                        step(search, &state, search.key[size])
                        size += 1
        if handle == 0:
            handle = next_branch(arena, search, &state, &size)
    return 1


cdef inline bint follow_run(Search* search, State* state, const char* run, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if state.mode == IN_REST:
            return True
        if not step(search, state, run[i]):
            return False
    return True


cdef bint make_room(Search* search, Py_ssize_t size) noexcept nogil:
    """For a key of so many bytes, and one more node to remember. False: there is no memory."""
    cdef Py_ssize_t room
    cdef void* larger
    if size > search.key_room:
        room = max(size, 2 * search.key_room)
        larger = malloc(room)
        if larger == NULL:
            return False
        memcpy(larger, search.key, search.key_room)
        if search.key != search.near_key:
            free(search.key)
        search.key = <char*>larger
        search.key_room = room
    if search.depth == search.frame_room:
        room = 2 * search.frame_room
        larger = malloc(room * sizeof(Frame))
        if larger == NULL:
            return False
        memcpy(larger, search.frames, search.frame_room * sizeof(Frame))
        if search.frames != search.near_frames:
            free(search.frames)
        search.frames = <Frame*>larger
        search.frame_room = room
    return True


cdef inline void push(Arena* arena, Search* search, State* state, Py_ssize_t size, Head* node) noexcept nogil:
    """Remember to visit the children of a node, for which there is room."""
    cdef Frame* frame = &search.frames[search.depth]
    cdef uint32_t* children
    cdef int i
    if node.kind == NODE4 or node.kind == NODE16:
        # They were made at different times and lie far apart: fetched together they cost little more than one.
        children = children_of(node)
        for i in range(node.tally & COUNT):
            tidelog_prefetch(at(arena, children[i]))
    frame.state = state[0]
    frame.size = size
    frame.node = <uint32_t>(<uint64_t*>node - arena.units)
    frame.next = 0
    search.depth += 1


cdef inline uint32_t next_branch(Arena* arena, Search* search, State* state, Py_ssize_t* size) noexcept nogil:
    """The next child, of the innermost node that has one left, that the filter may go on with; 0: there is none."""
    cdef Frame* frame
    cdef Head* node
    cdef uint32_t child
    cdef uint8_t byte = 0
    while search.depth:
        frame = &search.frames[search.depth - 1]
        node = at(arena, frame.node)
        child = next_child(node, &frame.next, &byte)
        if child == 0:
            search.depth -= 1
            continue
        state[0] = frame.state
        if step(search, state, <char>byte):
            search.key[frame.size] = <char>byte
            size[0] = frame.size + 1
            return child
    return 0
