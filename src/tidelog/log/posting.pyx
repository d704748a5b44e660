"""The sequences of every subject: millions of short ascending lists, and some very long ones, in one table.

Promises
  * A list is a slot of 32 bytes, addressed by number, and bytes in an arena: none for a list of one, and none while
    its deltas fit into 8 bytes. No Python object, and no allocation for what is in the slot.
  * `push` at the end and `remove` at either end take constant time, amortised; every other question is a search over
    the blocks of the list and a walk through one of them. After a removal in the middle, far from the front, the next
    `rank` or `nth` behind it adds up the counts of the blocks again.
  * Members are sequences from 1 to 2**64 - 2, so 0 means "none". What does not ascend is refused with ValueError.
  * Removing cannot fail. When memory is missing, `push` leaves the list as it was; `extend` as far as it had come.

How it works
    A list is a run of deltas (`block`). A run in a file is the same: first member, count, and `count - 1` deltas.
    Short list: the slot is the only block. Long list, when the deltas exceed the block size: a directory, an array of
    blocks that begin anew with a whole sequence each. Blocks that shrink are merged, a directory of one block goes.

It does not know subjects, and it trusts slot numbers: who keeps one must not use it after `free`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from tidelog.log.arena cimport Arena, UNIT_SIZE
from tidelog.log.block cimport (
    ALL,
    BLOCK_SIZE,
    INLINE_SIZE,
    Place,
    absorb,
    bytes_of,
    check_run,
    cut,
    find_block,
    last_of,
    read,
    resize,
    seek,
    seek_last,
    size_of,
    write,
)
from tidelog.log.directory cimport Directory, find_nth, forget, learn, size_for, table_of, with_room, without

cdef enum:
    SMALLEST_BLOCK_SIZE = 16     # for tests; the longest delta has 10 bytes
    LONG = 0xFFFF                # in place of a size: there is a directory
    FIRST_SLOTS = 16             # a stream with few subjects

cdef uint32_t NO_SLOT = 0xFFFFFFFF
cdef uint32_t MOST = 0xFFFFFFFF

cdef inline Directory* directory_of(Slot* slot) noexcept nogil:
    return <Directory*>slot.head.data


cdef inline Block* blocks_of(Slot* slot, uint32_t* count) noexcept nogil:
    """The blocks of a list that has members."""
    cdef Directory* directory
    if slot.head.size != LONG:
        count[0] = 1
        return &slot.head
    directory = directory_of(slot)
    count[0] = directory.end - directory.start
    return table_of(directory) + directory.start


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError


cdef int refuse(const char* reason) except -1 nogil:
    with gil:
        raise ValueError(reason.decode())


@cython.final
cdef class PostingTable:
    def __cinit__(self, int block_size=BLOCK_SIZE):
        if not SMALLEST_BLOCK_SIZE <= block_size <= BLOCK_SIZE:
            raise ValueError(f"no block size: {block_size}")
        self.arena = Arena()
        self.block_size = block_size
        self.free_slot = NO_SLOT

    def __dealloc__(self):
        self.clear()

    cpdef uint32_t new(self) except? 0xFFFFFFFF nogil:
        """An empty list."""
        cdef uint32_t slot = self.free_slot
        cdef uint64_t capacity
        cdef Slot* slots
        if slot != NO_SLOT:
            self.free_slot = <uint32_t>self.slots[slot].head.base
            self.slots[slot].head.base = 0
            self.count += 1
            return slot
        if self.used == self.capacity:
            capacity = max(<uint64_t>FIRST_SLOTS, self.capacity + <uint64_t>self.capacity // 2)
            capacity = min(capacity, <uint64_t>NO_SLOT)
            if self.used == capacity:
                no_memory()
            slots = <Slot*>realloc(self.slots, capacity * sizeof(Slot))
            if slots == NULL:
                no_memory()
            self.slots = slots
            self.capacity = <uint32_t>capacity
        slot = self.used
        memset(&self.slots[slot], 0, sizeof(Slot))
        self.used += 1
        self.count += 1
        return slot

    cpdef void free(self, uint32_t slot) noexcept nogil:
        """Forget a list; its number is used again."""
        cdef Slot* s = &self.slots[slot]
        self.empty(s)
        s.head.base = self.free_slot
        self.free_slot = slot
        self.count -= 1

    cpdef void clear(self) noexcept nogil:
        """Forget every list."""
        cdef uint32_t i
        for i in range(self.used):
            if self.slots[i].head.size == LONG:
                free(self.slots[i].head.data)
        free(self.slots)
        self.slots = NULL
        self.capacity = self.used = self.count = 0
        self.free_slot = NO_SLOT
        self.directory_size = 0
        if self.arena is not None:
            self.arena.clear()

    cpdef int push(self, uint32_t slot, uint64_t seq) except -1 nogil:
        """Add a member behind the last one."""
        cdef Slot* s = &self.slots[slot]
        cdef Block* tail = &s.head
        cdef uint64_t delta = seq - s.last
        cdef int size, grown
        cdef unsigned char* out
        if seq <= s.last or seq == ALL():
            return refuse(b"sequences do not ascend")
        if tail.before == 0:
            tail.base = seq
            tail.count = 1
        else:
            if tail.before == MOST:
                return refuse(b"a list cannot be longer")
            if tail.size == LONG:
                tail = table_of(directory_of(s)) + directory_of(s).end - 1
            size = tail.size
            grown = size + (1 if delta < 0x80 else size_of(delta))
            if grown > self.block_size:
                if not self.add_block(s, seq):
                    return no_memory()
            else:
                if size > INLINE_SIZE and (grown - 1) // UNIT_SIZE == (size - 1) // UNIT_SIZE:
                    tail.size = grown
                elif not resize(self.arena, tail, grown):
                    return no_memory()
                out = bytes_of(tail) + size
                if delta < 0x80:
                    out[0] = <unsigned char>delta
                else:
                    write(out, delta)
                tail.count += 1
        s.head.before += 1
        s.last = seq
        return 0

    cpdef bint remove(self, uint32_t slot, uint64_t seq) noexcept nogil:
        """Tells whether it was there."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i
        cdef Block* blocks
        cdef Place place
        if s.head.before == 0 or seq < s.head.base or seq > s.last:
            return False
        if s.head.before == 1:
            self.empty(s)
            return True
        blocks = blocks_of(s, &count)
        i = 0 if seq == s.head.base else find_block(blocks, count, seq)
        if seq == s.last:
            seek_last(&blocks[i], seq, &place)
        else:
            seek(&blocks[i], seq, &place)
            if place.at != seq:
                return False
        s.head.before -= 1
        if seq == s.last:
            s.last = place.below if place.index else last_of(&blocks[i - 1])
        if count == 1:
            cut(self.arena, blocks, &place)
            return True
        if blocks[i].count == 1:
            self.remove_block(s, i)
        else:
            forget(directory_of(s), directory_of(s).start + i)
            cut(self.arena, &blocks[i], &place)
            self.merge(s, i)
        if s.head.size == LONG:
            s.head.base = table_of(directory_of(s))[directory_of(s).start].base
        return True

    cpdef uint64_t first(self, uint32_t slot) noexcept nogil:
        return self.slots[slot].head.base

    cpdef uint64_t last(self, uint32_t slot) noexcept nogil:
        return self.slots[slot].last

    cpdef uint32_t size(self, uint32_t slot) noexcept nogil:
        """How many members it has."""
        return self.slots[slot].head.before

    cpdef bint contains(self, uint32_t slot, uint64_t seq) noexcept nogil:
        return seq != 0 and self.next(slot, seq) == seq

    cpdef uint64_t next(self, uint32_t slot, uint64_t seq) noexcept nogil:
        """The smallest member >= `seq`; 0 when there is none."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i
        cdef Block* blocks
        cdef Place place
        if seq > s.last:
            return 0
        if seq <= s.head.base:
            return s.head.base
        blocks = blocks_of(s, &count)
        i = find_block(blocks, count, seq)
        seek(&blocks[i], seq, &place)
        return place.at if place.at else blocks[i + 1].base

    cpdef uint64_t previous(self, uint32_t slot, uint64_t seq) noexcept nogil:
        """The largest member <= `seq`; 0 when there is none."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i
        cdef Block* blocks
        cdef Place place
        if seq < s.head.base:
            return 0
        if seq >= s.last:
            return s.last
        blocks = blocks_of(s, &count)
        i = find_block(blocks, count, seq)
        seek(&blocks[i], seq, &place)
        return seq if place.at == seq else place.below

    cpdef uint64_t rank(self, uint32_t slot, uint64_t seq) noexcept nogil:
        """How many members are >= `seq`."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i, before = 0
        cdef Block* blocks
        cdef Place place
        if seq > s.last:
            return 0
        if seq <= s.head.base:
            return s.head.before
        blocks = blocks_of(s, &count)
        i = find_block(blocks, count, seq)
        if i > 0:
            learn(directory_of(s), directory_of(s).start + i)
            before = blocks[i].before - blocks[0].before
        seek(&blocks[i], seq, &place)
        return s.head.before - before - place.index

    cpdef uint64_t nth(self, uint32_t slot, uint64_t n) noexcept nogil:
        """The member with `n` in front of it; 0 when there are not that many."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i = 0
        cdef uint64_t at, delta
        cdef Block* blocks
        cdef const unsigned char* data
        if n >= s.head.before:
            return 0
        if n == s.head.before - 1:
            return s.last
        blocks = blocks_of(s, &count)
        if n >= blocks[0].count:
            i = find_nth(directory_of(s), <uint32_t>n)
            n -= blocks[i].before - blocks[0].before
        at = blocks[i].base
        data = bytes_of(&blocks[i])
        for _ in range(n):
            data = read(data, &delta)
            at += delta
        return at

    cdef Py_ssize_t gather(
        self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, uint64_t* out, Py_ssize_t room
    ) noexcept nogil:
        """Members in [start_seq, end_seq), ascending, as many as there is room for."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i = 0
        cdef Py_ssize_t found = 0
        cdef uint64_t at, delta
        cdef Block* blocks
        cdef const unsigned char* data
        cdef const unsigned char* end
        if s.head.before == 0 or start_seq > s.last or end_seq <= s.head.base or room <= 0:
            return 0
        blocks = blocks_of(s, &count)
        if start_seq > s.head.base:
            i = find_block(blocks, count, start_seq)
        while i < count:
            at = blocks[i].base
            data = bytes_of(&blocks[i])
            end = data + blocks[i].size
            while True:
                if at >= end_seq:
                    return found
                if at >= start_seq:
                    out[found] = at
                    found += 1
                    if found == room:
                        return found
                if data == end:
                    break
                data = read(data, &delta)
                at += delta
            i += 1
        return found

    cdef Py_ssize_t gather_back(
        self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, uint64_t* out, Py_ssize_t room
    ) noexcept nogil:
        """Members in [start_seq, end_seq), descending, as many as there is room for."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i
        cdef int members, j
        cdef Py_ssize_t found = 0
        cdef uint64_t delta
        cdef uint64_t decoded[BLOCK_SIZE + 1]
        cdef Block* blocks
        cdef const unsigned char* data
        if s.head.before == 0 or start_seq > s.last or end_seq <= s.head.base or room <= 0:
            return 0
        blocks = blocks_of(s, &count)
        i = find_block(blocks, count, end_seq - 1)
        while True:
            members = blocks[i].count
            data = bytes_of(&blocks[i])
            decoded[0] = blocks[i].base
            for j in range(1, members):
                data = read(data, &delta)
                decoded[j] = decoded[j - 1] + delta
            for j in range(members - 1, -1, -1):
                if decoded[j] < start_seq:
                    return found
                if decoded[j] < end_seq:
                    out[found] = decoded[j]
                    found += 1
                    if found == room:
                        return found
            if i == 0:
                return found
            i -= 1

    cdef int extend(
        self, uint32_t slot, uint64_t first_seq, const unsigned char* deltas, Py_ssize_t size, uint32_t count
    ) except -1 nogil:
        """Add a run: `count` members, the first one, and the deltas of the others, `size` bytes of them."""
        cdef Slot* s = &self.slots[slot]
        cdef const unsigned char* end = deltas + size
        cdef const unsigned char* fit
        cdef const unsigned char* after
        cdef Block* tail
        cdef uint64_t at = first_seq, delta
        cdef int room, members, old
        if count == 0 or first_seq == ALL() or not check_run(first_seq, deltas, size, count):
            return refuse(b"not a run of sequences")
        if count > MOST - s.head.before:
            return refuse(b"a list cannot be longer")
        self.push(slot, first_seq)
        while deltas < end:
            tail = &s.head
            if tail.size == LONG:
                tail = table_of(directory_of(s)) + directory_of(s).end - 1
            old = tail.size
            room = self.block_size - old
            members = 0
            fit = deltas
            while fit < end:
                after = read(fit, &delta)
                if after - deltas > room:
                    break
                fit = after
                at += delta
                members += 1
            if members:
                if not resize(self.arena, tail, old + <int>(fit - deltas)):
                    return no_memory()
                memcpy(bytes_of(tail) + old, deltas, fit - deltas)
                tail.count += members
                s.head.before += members
                s.last = at
                deltas = fit
            if deltas < end:
                deltas = read(deltas, &delta)
                at += delta
                if not self.add_block(s, at):
                    return no_memory()
                s.head.before += 1
                s.last = at
        return 0

    cdef Py_ssize_t encode(self, uint32_t slot, unsigned char* out) noexcept nogil:
        """Write the deltas of a list as `extend` reads them. Returns how many bytes; `encoded_room` is enough."""
        cdef Slot* s = &self.slots[slot]
        cdef unsigned char* start = out
        cdef uint32_t count, i
        cdef Block* blocks
        if s.head.before == 0:
            return 0
        blocks = blocks_of(s, &count)
        for i in range(count):
            if i > 0:
                out = write(out, blocks[i].base - last_of(&blocks[i - 1]))
            memcpy(out, bytes_of(&blocks[i]), blocks[i].size)
            out += blocks[i].size
        return out - start

    cpdef Py_ssize_t encoded_room(self, uint32_t slot) noexcept nogil:
        """Bytes that the deltas of a list take up at most."""
        cdef Slot* s = &self.slots[slot]
        cdef uint32_t count, i
        cdef Py_ssize_t size = 0
        cdef Block* blocks
        if s.head.before == 0:
            return 0
        blocks = blocks_of(s, &count)
        for i in range(1, count):
            size += blocks[i - 1].size + size_of(blocks[i].base - blocks[i - 1].base)
        return size + blocks[count - 1].size

    cpdef Py_ssize_t memory_size(self) noexcept nogil:
        """Bytes that were written to: slots, arena and directories, with what the C library adds."""
        return self.used * <Py_ssize_t>sizeof(Slot) + self.arena.memory_size() + self.directory_size

    # Inside.

    cdef void empty(self, Slot* slot) noexcept nogil:
        cdef uint32_t count, i
        cdef Block* blocks
        if slot.head.before:
            blocks = blocks_of(slot, &count)
            for i in range(count):
                resize(self.arena, &blocks[i], 0)
            if slot.head.size == LONG:
                self.directory_size -= size_for(directory_of(slot))
                free(slot.head.data)
        memset(slot, 0, sizeof(Slot))

    cdef bint add_block(self, Slot* slot, uint64_t seq) noexcept nogil:
        """Begin a new block with `seq`. False when memory is missing."""
        cdef Directory* directory = NULL
        cdef Block* block
        if slot.head.size == LONG:
            directory = directory_of(slot)
            self.directory_size -= size_for(directory)
        directory = with_room(directory, &slot.head)
        if directory == NULL:
            if slot.head.size == LONG:
                self.directory_size += size_for(directory_of(slot))
            return False
        self.directory_size += size_for(directory)
        slot.head.size = LONG
        slot.head.data = <unsigned char*>directory
        block = table_of(directory) + directory.end
        directory.end += 1
        block.base = seq
        block.count = 1
        block.size = 0
        return True

    cdef void remove_block(self, Slot* slot, uint32_t index) noexcept nogil:
        """Take a block without bytes out of the directory, and the directory away when one block is left."""
        cdef Directory* directory = directory_of(slot)
        cdef uint32_t members = slot.head.before
        self.directory_size -= size_for(directory)
        directory = without(directory, index)
        if directory.end - directory.start == 1:
            slot.head = table_of(directory)[directory.start]
            slot.head.before = members
            free(directory)
        else:
            slot.head.data = <unsigned char*>directory
            self.directory_size += size_for(directory)

    cdef void merge(self, Slot* slot, uint32_t index) noexcept nogil:
        """Join a block that has become smaller with a neighbour, if both fill one no more than three quarters."""
        cdef uint32_t count
        cdef Block* blocks = blocks_of(slot, &count)
        cdef int most = self.block_size * 3 // 4
        if index + 1 < count and blocks[index].size + blocks[index + 1].size < most:
            pass
        elif index > 0 and blocks[index - 1].size + blocks[index].size < most:
            index -= 1
        else:
            return
        if absorb(self.arena, &blocks[index], &blocks[index + 1], most):
            self.remove_block(slot, index + 1)

    # From Python, for tests and for rooms off the hot path; so is every door without a pointer.

    def members(self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, Py_ssize_t room) -> list[int]:
        """What `gather` finds."""
        return self.collect(slot, start_seq, end_seq, room, False)

    def members_back(self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, Py_ssize_t room) -> list[int]:
        """What `gather_back` finds."""
        return self.collect(slot, start_seq, end_seq, room, True)

    cdef list collect(self, uint32_t slot, uint64_t start_seq, uint64_t end_seq, Py_ssize_t room, bint back):
        cdef uint64_t* out
        cdef Py_ssize_t found, i
        room = min(room, <Py_ssize_t>self.size(slot))
        out = <uint64_t*>malloc(max(room, 1) * sizeof(uint64_t))
        if out == NULL:
            raise MemoryError
        if back:
            found = self.gather_back(slot, start_seq, end_seq, out, room)
        else:
            found = self.gather(slot, start_seq, end_seq, out, room)
        answer = [out[i] for i in range(found)]
        free(out)
        return answer

    def load(self, uint32_t slot, uint64_t first_seq, bytes deltas, uint32_t count) -> None:
        """`extend` with the deltas in `deltas`."""
        self.extend(slot, first_seq, <const unsigned char*>PyBytes_AS_STRING(deltas), len(deltas), count)

    def dump(self, uint32_t slot) -> bytes:
        """What `encode` writes."""
        cdef bytes room = PyBytes_FromStringAndSize(NULL, self.encoded_room(slot))
        cdef Py_ssize_t size = self.encode(slot, <unsigned char*>PyBytes_AS_STRING(room))
        return room[:size]
