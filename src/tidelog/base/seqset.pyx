"""A compact set of sequences: what was deleted inside a log, what was lost.

Promises
  * Members are sequences from 1 to 2**64 - 2. 0 means "none" in answers, and the one that is left out at the far end
    keeps half-open ranges and "the next one" inside 64 bits. `add` and `add_range` raise ValueError for others.
  * A member costs at most a bitmap of 2,048 bits that it has for itself, a bit in dense neighbourhoods, and nothing
    in a range: a run of full bitmaps is one entry, however long.
  * Questions are searches over the entries, and need no search where the last one was answered. A new entry at the end
    and dropping entries at the front are O(1); in the middle the entries behind move, 32 bytes each.
  * When memory is missing, the set is as it was, or as far as `remove_below` and `add_range` had come.

How it works
    A sorted array of containers. A container is a bitmap for the 2,048 sequences with the same `seq >> 11`, or a run:
    as many of those in a row, all of them full, without bitmaps. Runs that touch are one. Counts in front of a
    container are kept lazily: they are good up to `known` and are added up again from there when somebody asks.

It does not know why a sequence is in it.
"""

cimport cython
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

cdef extern from *:
    int __builtin_popcountll(unsigned long long) nogil
    int __builtin_ctzll(unsigned long long) nogil
    int __builtin_clzll(unsigned long long) nogil

cdef enum:
    SHIFT = 11
    BITS = 1 << SHIFT            # one bitmap is 256 bytes: four cache lines, eight times its entry
    MASK = BITS - 1
    WORDS = BITS // 64
    FIRST_CAPACITY = 4           # most sets have a few deletes
    SHRINK_CAPACITY = 64         # below this many entries nothing is worth giving back
    ALLOCATION_SIZE = 16         # what the allocator keeps beside a bitmap

cdef uint64_t ALL = 0xFFFFFFFFFFFFFFFF


cdef inline uint64_t span(const Container* container) noexcept nogil:
    """How many keys it covers."""
    return 1 if container.bits != NULL else container.count >> SHIFT


cdef inline bint covers(const Container* container, uint64_t key) noexcept nogil:
    return container.key <= key and key - container.key < span(container)


cdef int find_bit(const uint64_t* bits, int offset, uint64_t flip) noexcept nogil:
    """The first set bit from `offset` on (with `flip` ALL: the first clear one), or BITS."""
    cdef int i = offset >> 6
    cdef uint64_t word = (bits[i] ^ flip) & (ALL << (offset & 63))
    while word == 0:
        i += 1
        if i == WORDS:
            return BITS
        word = bits[i] ^ flip
    return (i << 6) + __builtin_ctzll(word)


cdef int find_clear_back(const uint64_t* bits, int offset) noexcept nogil:
    """The last clear bit up to and with `offset`, or -1."""
    cdef int i = offset >> 6
    cdef uint64_t word = ~bits[i] & (ALL >> (63 - (offset & 63)))
    while word == 0:
        if i == 0:
            return -1
        i -= 1
        word = ~bits[i]
    return (i << 6) + 63 - __builtin_clzll(word)


cdef int count_bits(const uint64_t* bits, int high) noexcept nogil:
    """Set bits below `high`."""
    cdef int i, found = 0
    for i in range(high >> 6):
        found += __builtin_popcountll(bits[i])
    if high & 63:
        found += __builtin_popcountll(bits[high >> 6] & ~(ALL << (high & 63)))
    return found


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError


cdef int not_a_sequence(uint64_t seq) except -1 nogil:
    with gil:
        raise ValueError(f"{seq} is not between 1 and 2**64 - 2")


@cython.final
cdef class SequenceSet:
    def __dealloc__(self):
        self.clear()

    cpdef bint add(self, uint64_t seq) except -1 nogil:
        """Tells whether it is new."""
        cdef uint64_t key = seq >> SHIFT, bit = <uint64_t>1 << (seq & 63)
        cdef Container* container
        cdef uint64_t* word
        cdef Py_ssize_t i
        if seq == 0 or seq == ALL:
            return not_a_sequence(seq)
        i = self.place(key)
        if i < 0:
            return no_memory()
        container = &self.items[i]
        if container.bits == NULL:
            return False
        word = &container.bits[(seq & MASK) >> 6]
        if word[0] & bit:
            return False
        word[0] |= bit
        self.changed(i, 1)
        if container.count == BITS:
            self.fill(i)
        return True

    cpdef int add_range(self, uint64_t start_seq, uint64_t end_seq) except -1 nogil:
        """Add everything in [start_seq, end_seq). It takes no longer for a long one."""
        cdef uint64_t start_key = start_seq >> SHIFT, end_key = end_seq >> SHIFT
        if start_seq >= end_seq:
            return 0
        if start_seq == 0:
            return not_a_sequence(start_seq)
        if start_key == end_key:
            return self.add_part(start_key, start_seq & MASK, end_seq & MASK)
        if start_seq & MASK:
            self.add_part(start_key, start_seq & MASK, BITS)
            start_key += 1
        if start_key < end_key:
            self.add_whole(start_key, end_key)
        if end_seq & MASK:
            self.add_part(end_key, 0, end_seq & MASK)
        return 0

    cpdef bint remove(self, uint64_t seq) except -1 nogil:
        """Tells whether it was there."""
        cdef uint64_t key = seq >> SHIFT, bit = <uint64_t>1 << (seq & 63)
        cdef Py_ssize_t i = self.locate(key)
        cdef uint64_t* word
        if i == self.end or self.items[i].key > key:
            return False
        if self.items[i].bits == NULL:
            i = self.open_run(i, key)
            if i < 0:
                return no_memory()
        word = &self.items[i].bits[(seq & MASK) >> 6]
        if not word[0] & bit:
            return False
        word[0] &= ~bit
        self.changed(i, -1)
        if self.items[i].count == 0:
            free(self.items[i].bits)
            self.bitmaps -= 1
            self.splice(i, 1, 0)
        return True

    cpdef uint64_t remove_below(self, uint64_t seq) except? 0xFFFFFFFFFFFFFFFF nogil:
        """Remove everything smaller than `seq`, and tell how many that were."""
        cdef uint64_t key = seq >> SHIFT, before = self.count, whole, edge
        cdef int low = seq & MASK
        cdef Py_ssize_t gone = 0
        cdef Container* first
        while self.start + gone < self.end:
            first = &self.items[self.start + gone]
            if first.key + span(first) > key:
                break
            self.count -= first.count
            if first.bits != NULL:
                free(first.bits)
                self.bitmaps -= 1
            gone += 1
        self.drop_front(gone)
        if self.start == self.end or self.items[self.start].key > key:
            return before - self.count
        first = &self.items[self.start]
        if first.bits == NULL:
            whole = key - first.key
            first.key = key
            self.changed(self.start, -<int64_t>(whole << SHIFT))
            if low == 0:
                return before - self.count
            if self.open_run(self.start, key) < 0:
                return no_memory()
            first = &self.items[self.start]
        edge = count_bits(first.bits, low)
        memset(first.bits, 0, (low >> 6) * 8)
        first.bits[low >> 6] &= ALL << (low & 63)
        self.changed(self.start, -<int64_t>edge)
        if first.count == 0:
            free(first.bits)
            self.bitmaps -= 1
            self.drop_front(1)
        return before - self.count

    cpdef bint contains(self, uint64_t seq) noexcept nogil:
        cdef uint64_t key = seq >> SHIFT
        cdef Py_ssize_t i = self.locate(key)
        if i == self.end or self.items[i].key > key:
            return False
        if self.items[i].bits == NULL:
            return True
        return self.items[i].bits[(seq & MASK) >> 6] >> (seq & 63) & 1

    cpdef uint64_t count_range(self, uint64_t start_seq, uint64_t end_seq) noexcept nogil:
        """Members in [start_seq, end_seq)."""
        if start_seq >= end_seq or self.count == 0:
            return 0
        return self.count_below(end_seq) - self.count_below(start_seq)

    cpdef uint64_t next_absent(self, uint64_t seq) noexcept nogil:
        """The smallest sequence >= `seq` that is not a member. There always is one."""
        cdef Py_ssize_t i = self.locate(seq >> SHIFT)
        cdef int offset
        # At most three steps: a bitmap's end, a run, and the next bitmap, which is not full.
        while i < self.end and self.items[i].key <= seq >> SHIFT:
            if self.items[i].bits == NULL:
                seq = (self.items[i].key + span(&self.items[i])) << SHIFT
            else:
                offset = find_bit(self.items[i].bits, seq & MASK, ALL)
                seq = (seq & ~<uint64_t>MASK) + offset
                if offset < BITS:
                    return seq
            i += 1
        return seq

    cpdef uint64_t previous_absent(self, uint64_t seq) noexcept nogil:
        """The largest sequence <= `seq` that is not a member; 0 when there is none."""
        cdef uint64_t key = seq >> SHIFT
        cdef Py_ssize_t i = self.locate(key)
        cdef int offset
        if i == self.end:
            return seq
        # 0 is never a member, so this ends before the keys do.
        while covers(&self.items[i], seq >> SHIFT):
            if self.items[i].bits != NULL:
                offset = find_clear_back(self.items[i].bits, seq & MASK)
                if offset >= 0:
                    return (seq & ~<uint64_t>MASK) + offset
            seq = (self.items[i].key << SHIFT) - 1
            if i == self.start:
                break
            i -= 1
        return seq

    cpdef uint64_t next_present(self, uint64_t seq) noexcept nogil:
        """The smallest member >= `seq`; 0 when there is none."""
        cdef uint64_t key = seq >> SHIFT
        cdef Py_ssize_t i = self.locate(key)
        cdef int offset
        if i < self.end and self.items[i].key <= key:
            if self.items[i].bits == NULL:
                return seq
            offset = find_bit(self.items[i].bits, seq & MASK, 0)
            if offset < BITS:
                return (seq & ~<uint64_t>MASK) + offset
            i += 1
        if i == self.end:
            return 0
        seq = self.items[i].key << SHIFT
        return seq if self.items[i].bits == NULL else seq + find_bit(self.items[i].bits, 0, 0)

    cpdef SequenceSet copy(self, uint64_t start_seq, uint64_t end_seq):
        """A set of its own with the members in [start_seq, end_seq), for somebody in another thread."""
        cdef SequenceSet found = SequenceSet()
        cdef uint64_t seq = self.next_present(start_seq), stop
        cdef Py_ssize_t i, at
        while seq and seq < end_seq:
            i = self.locate(seq >> SHIFT)
            stop = ((seq >> SHIFT) + 1) << SHIFT
            if self.items[i].bits != NULL and start_seq <= stop - BITS and stop <= end_seq:
                at = found.place(seq >> SHIFT)
                if at < 0:
                    no_memory()
                memcpy(found.items[at].bits, self.items[i].bits, WORDS * 8)
                found.changed(at, <int64_t>self.items[i].count)
            else:
                stop = min(self.next_absent(seq), end_seq)
                found.add_range(seq, stop)
            seq = self.next_present(stop)
        return found

    cpdef void clear(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.start, self.end):
            free(self.items[i].bits)
        free(self.items)
        self.items = NULL
        self.start = self.end = self.capacity = self.recent = self.known = self.bitmaps = 0
        self.count = 0

    cpdef Py_ssize_t memory_size(self) noexcept nogil:
        """Bytes, with what the allocator adds, without the object itself."""
        return self.capacity * sizeof(Container) + self.bitmaps * (WORDS * 8 + ALLOCATION_SIZE)

    # Inside.

    cdef Py_ssize_t locate(self, uint64_t key) noexcept nogil:
        """The first container that reaches to `key` or beyond it, or `end`."""
        cdef Py_ssize_t low = self.start, high = self.end, middle
        if low == high:
            return high
        if low <= self.recent < high and covers(&self.items[self.recent], key):
            return self.recent
        if self.items[high - 1].key <= key:
            if not covers(&self.items[high - 1], key):
                return high
            low = high - 1
        while low < high:
            middle = (low + high) >> 1
            if self.items[middle].key + span(&self.items[middle]) <= key:
                low = middle + 1
            else:
                high = middle
        self.recent = low
        return low

    cdef bint reserve(self, Py_ssize_t more) noexcept nogil:
        """Room for `more` containers at the end. Indexes are others afterwards: by what `start` was."""
        cdef Py_ssize_t used = self.end - self.start, capacity = self.capacity
        cdef Container* items
        if self.start and self.start >= used:
            memmove(self.items, self.items + self.start, used * sizeof(Container))
            self.recent -= self.start
            self.known -= self.start
            self.start = 0
            self.end = used
        if self.end + more <= capacity:
            return True
        capacity = max(<Py_ssize_t>FIRST_CAPACITY, capacity + capacity // 2, self.end + more)
        items = <Container*>realloc(self.items, capacity * sizeof(Container))
        if items == NULL:
            return False
        self.items = items
        self.capacity = capacity
        return True

    cdef Py_ssize_t splice(self, Py_ssize_t at, Py_ssize_t gone, Py_ssize_t fresh) noexcept nogil:
        """Replace `gone` containers by `fresh` unset ones. Returns where they are; -1 when memory is missing."""
        if fresh == 0 and at == self.start:
            self.drop_front(gone)
            return self.start
        if self.end + fresh - gone > self.capacity:
            at -= self.start
            if not self.reserve(fresh - gone):
                return -1
            at += self.start
        memmove(
            self.items + at + fresh, self.items + at + gone, (self.end - at - gone) * sizeof(Container)
        )
        self.end += fresh - gone
        self.known = min(self.known, at)
        self.recent = at
        return at

    cdef void drop_front(self, Py_ssize_t gone) noexcept nogil:
        cdef Container* items
        cdef Py_ssize_t used, capacity
        self.start += gone
        self.known = max(self.known, self.start)
        used = self.end - self.start
        if used == 0:
            self.start = self.end = self.known = 0
        if gone and self.capacity > SHRINK_CAPACITY and used < self.capacity // 4:
            memmove(self.items, self.items + self.start, used * sizeof(Container))
            self.known -= self.start
            self.start = 0
            self.end = used
            capacity = max(<Py_ssize_t>FIRST_CAPACITY, used * 2)
            items = <Container*>realloc(self.items, capacity * sizeof(Container))
            if items != NULL:
                self.items = items
                self.capacity = capacity

    cdef Py_ssize_t place(self, uint64_t key) noexcept nogil:
        """The container of `key`, made now if there is none; -1 when memory is missing."""
        cdef Py_ssize_t i = self.locate(key)
        cdef uint64_t* bits
        if i < self.end and self.items[i].key <= key:
            return i
        bits = <uint64_t*>calloc(WORDS, 8)
        if bits == NULL:
            return -1
        i = self.splice(i, 0, 1)
        if i < 0:
            free(bits)
            return -1
        self.items[i].key = key
        self.items[i].count = 0
        self.items[i].bits = bits
        self.bitmaps += 1
        return i

    cdef Py_ssize_t open_run(self, Py_ssize_t at, uint64_t key) noexcept nogil:
        """Give one key of a run a bitmap of its own. Returns where it is; -1 when memory is missing."""
        cdef uint64_t first_key = self.items[at].key
        cdef uint64_t left = key - first_key, right = span(&self.items[at]) - left - 1
        cdef uint64_t* bits = <uint64_t*>malloc(WORDS * 8)
        if bits == NULL:
            return -1
        at = self.splice(at, 1, 1 + (left > 0) + (right > 0))
        if at < 0:
            free(bits)
            return -1
        memset(bits, 0xFF, WORDS * 8)
        self.bitmaps += 1
        if left > 0:
            self.items[at].key = first_key
            self.items[at].count = left << SHIFT
            self.items[at].bits = NULL
            at += 1
        self.items[at].key = key
        self.items[at].count = BITS
        self.items[at].bits = bits
        if right > 0:
            self.items[at + 1].key = key + 1
            self.items[at + 1].count = right << SHIFT
            self.items[at + 1].bits = NULL
        self.recent = at
        return at

    cdef int add_part(self, uint64_t key, int low, int high) except -1 nogil:
        """Add the sequences with offsets in [low, high) of one key; some, and not all of them."""
        cdef Py_ssize_t i = self.place(key)
        cdef uint64_t* bits
        cdef uint64_t mask, fresh
        cdef int word, added = 0
        if i < 0:
            return no_memory()
        bits = self.items[i].bits
        if bits == NULL:
            return 0
        for word in range(low >> 6, (high + 63) >> 6):
            mask = ALL
            if word == low >> 6:
                mask &= ALL << (low & 63)
            if word == high >> 6:
                mask &= ~(ALL << (high & 63))
            fresh = mask & ~bits[word]
            bits[word] |= fresh
            added += __builtin_popcountll(fresh)
        self.changed(i, added)
        if self.items[i].count == BITS:
            self.fill(i)
        return 0

    cdef int add_whole(self, uint64_t start_key, uint64_t end_key) except -1 nogil:
        """Add every sequence of the keys in [start_key, end_key)."""
        cdef Py_ssize_t i = self.locate(start_key), j = i
        cdef uint64_t members = 0
        cdef Container* container
        while j < self.end and self.items[j].key < end_key:
            container = &self.items[j]
            members += container.count
            if container.bits != NULL:
                free(container.bits)
                self.bitmaps -= 1
            else:
                start_key = min(start_key, container.key)
                end_key = max(end_key, container.key + span(container))
            j += 1
        i = self.splice(i, j - i, 1)
        if i < 0:
            return no_memory()
        self.items[i].key = start_key
        self.items[i].count = (end_key - start_key) << SHIFT
        self.items[i].bits = NULL
        self.count += self.items[i].count - members
        self.join(i)
        return 0

    cdef void fill(self, Py_ssize_t at) noexcept nogil:
        """A bitmap has become full: it needs none any more."""
        free(self.items[at].bits)
        self.items[at].bits = NULL
        self.bitmaps -= 1
        self.join(at)

    cdef void join(self, Py_ssize_t at) noexcept nogil:
        """Make one of a run and those that it touches."""
        cdef Container* run = &self.items[at]
        cdef Container* left = run - 1
        if at + 1 < self.end and run[1].bits == NULL and run[1].key == run.key + span(run):
            run.count += run[1].count
            self.splice(at + 1, 1, 0)
        if at > self.start and left.bits == NULL and run.key == left.key + span(left):
            left.count += run.count
            self.splice(at, 1, 0)
            at -= 1
        self.recent = at

    cdef void changed(self, Py_ssize_t at, int64_t difference) noexcept nogil:
        """Account for members that came to or left one container."""
        self.items[at].count += difference
        self.count += difference
        if at == self.start and self.known > at:
            # Only differences of `before` matter, so the front can move instead of everything behind it.
            self.items[at].before -= difference
        else:
            self.known = min(self.known, at + 1)

    cdef uint64_t count_below(self, uint64_t seq) noexcept nogil:
        cdef uint64_t key = seq >> SHIFT, before
        cdef Py_ssize_t i = self.locate(key)
        cdef Container* items = self.items
        if i == self.end:
            return self.count
        if self.known <= self.start:
            items[self.start].before = 0
            self.known = self.start + 1
        while self.known <= i:
            items[self.known].before = items[self.known - 1].before + items[self.known - 1].count
            self.known += 1
        before = items[i].before - items[self.start].before
        if items[i].key > key:
            return before
        if items[i].bits == NULL:
            return before + seq - (items[i].key << SHIFT)
        return before + count_bits(items[i].bits, seq & MASK)

    # From Python, for tests and for rooms off the hot path; so is every other door.

    def ranges(self) -> list[tuple[int, int]]:
        """The members as ranges, half-open, ascending, as long as they can be."""
        found = []
        cdef uint64_t start_seq = self.next_present(0), end_seq
        while start_seq:
            end_seq = self.next_absent(start_seq)
            found.append((start_seq, end_seq))
            start_seq = self.next_present(end_seq)
        return found

    def __contains__(self, uint64_t seq) -> bool:
        return self.contains(seq)
