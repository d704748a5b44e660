"""Which sequences each subject has, and the next or previous message of any filter, without looking at messages.

Promises
  * INDEX-1: `next`, `previous` and `count_from` answer as a scan over all messages would, whatever was deleted.
  * A literal filter costs one descent and a search in one list. A wildcard looks at the subjects that match and stops
    as soon as nothing better can come.
  * Who asks again and again (`Selection`) pays once per window of matches, not once per match.

How a selection works: it gathers the sequences of all matching subjects in one window, sorts them, and serves from there.
The window ends where its room does; room grows with the number of subjects that match, up to a bound, so that the
cost of a gathering is shared by about as many matches.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from tidelog.base import limits
from tidelog.subject.node cimport NO_VALUE

cdef Py_ssize_t ROOM_FIRST = limits.SELECTION_ROOM_FIRST
cdef Py_ssize_t ROOM_MOST = limits.SELECTION_ROOM_MOST
cdef uint64_t WALK_ALWAYS = limits.SELECTION_WALK_ALWAYS
cdef uint64_t NEVER = <uint64_t>-1


cdef class SubjectIndex:
    def __init__(self) -> None:
        self.tree = SubjectTree()
        self.lists = PostingTable()

    cdef uint32_t add(self, const char* subject, Py_ssize_t size, uint64_t seq) except 0xFFFFFFFF:
        """`seq` is a new message, newer than all others. Returns the number of its list."""
        cdef uint32_t* place = self.tree.place(subject, size)
        if place[0] == NO_VALUE:
            place[0] = self.lists.new()
        self.lists.push(place[0], seq)
        self.count += 1
        return place[0]

    cdef bint remove(self, const char* subject, Py_ssize_t size, uint64_t seq) except -1:
        """Forget a message; tells whether it was known."""
        cdef uint32_t slot = self.tree.find(subject, size)
        if slot == NO_VALUE or not self.lists.remove(slot, seq):
            return False
        self.count -= 1
        if self.lists.size(slot) == 0:
            self.tree.remove(subject, size)
            self.lists.free(slot)
        return True

    cdef int extend(
        self, const char* subject, Py_ssize_t size, uint64_t first_seq, uint64_t count,
        const unsigned char* deltas, Py_ssize_t deltas_size,
    ) except -1 nogil:
        """Many messages of one subject at once, as an index file has them; newer than those that it has."""
        cdef uint32_t* place = self.tree.place(subject, size)
        if place[0] == NO_VALUE:
            place[0] = self.lists.new()
        self.lists.extend(place[0], first_seq, deltas, deltas_size, count)
        self.count += count
        return 0

    cdef int each(self, Filter filter, Visit visit, void* context) except -1:
        """Visit every subject that matches, once."""
        cdef Py_ssize_t i
        cdef Distinct distinct
        if filter.everything:
            self.tree.walk(visit, context)
            return 0
        for i in range(filter.count):
            if i == 0:
                if not self.tree.match_until(filter.texts[0], filter.sizes[0], visit, context):
                    return 0
                continue
            distinct.filter = <PyObject*>filter
            distinct.before = i
            distinct.visit = visit
            distinct.context = context
            if not self.tree.match_until(filter.texts[i], filter.sizes[i], visit_distinct, &distinct):
                return 0
        return 0

    cdef uint64_t next(self, Filter filter, uint64_t seq) except? 0:
        """The smallest match that is at least `seq`; 0: none."""
        cdef Nearest nearest
        nearest.lists = <PyObject*>self.lists
        nearest.seq = seq
        nearest.best = NEVER
        self.each(filter, visit_next, &nearest)
        return nearest.best if nearest.best != NEVER else 0

    cdef uint64_t previous(self, Filter filter, uint64_t seq) except? 0:
        """The largest match that is at most `seq`; 0: none."""
        cdef Nearest nearest
        nearest.lists = <PyObject*>self.lists
        nearest.seq = seq
        nearest.best = 0
        self.each(filter, visit_previous, &nearest)
        return nearest.best

    cdef uint64_t count_from(self, Filter filter, uint64_t seq) except? 0:
        """How many matches are at least `seq`."""
        cdef Nearest nearest
        if filter.everything and seq <= 1:
            return self.count
        nearest.lists = <PyObject*>self.lists
        nearest.seq = seq
        nearest.best = 0
        self.each(filter, visit_count, &nearest)
        return nearest.best

    def forget(self, uint64_t seq) -> bool:
        """`remove` by somebody who does not know the subject: looks at all of them."""
        cdef Owner owner
        owner.lists = <PyObject*>self.lists
        owner.seq = seq
        owner.subject = NULL
        self.tree.walk(visit_owner, &owner)
        if owner.subject == NULL:
            return False
        try:
            return self.remove(owner.subject, owner.size, seq)
        finally:
            free(owner.subject)

    def last_per_subject(self, Filter filter not None, uint64_t last_seq) -> list:
        """The newest message of every subject that is not newer than `last_seq`, oldest first."""
        cdef Rows rows
        cdef list found = []
        rows.lists = <PyObject*>self.lists
        rows.found = <PyObject*>found
        rows.seq = last_seq
        self.each(filter, visit_last, &rows)
        found.sort()
        return found

    def subjects(self, Filter filter not None) -> list:
        """`(subject, count, first, last)` of all that match, in the order of bytes."""
        cdef Rows rows
        cdef list found = []
        rows.lists = <PyObject*>self.lists
        rows.found = <PyObject*>found
        rows.seq = 0
        self.each(filter, visit_row, &rows)
        if filter.count > 1:
            # Each pattern by itself goes through the tree in order.
            found.sort()
        return found

    def memory_size(self) -> int:
        return self.tree.memory() + self.lists.memory_size()


cdef struct Distinct:
    PyObject* filter
    Py_ssize_t before
    Visit visit
    void* context

cdef struct Nearest:
    PyObject* lists
    uint64_t seq
    uint64_t best

cdef struct Owner:
    PyObject* lists
    uint64_t seq
    char* subject
    Py_ssize_t size

cdef struct Rows:
    PyObject* lists
    PyObject* found
    uint64_t seq

cdef struct Probing:
    uint64_t found
    uint64_t most

cdef struct Gathering:
    PyObject* lists
    uint64_t* seqs
    Py_ssize_t room
    Py_ssize_t count
    Py_ssize_t subjects
    uint64_t start_seq
    uint64_t end_seq
    bint forward
    bint failed


cdef bint visit_distinct(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    """Pass on what no pattern in front of this one has met."""
    cdef Distinct* distinct = <Distinct*>context
    if (<Filter>distinct.filter).matches_before(distinct.before, key, size):
        return True
    return distinct.visit(distinct.context, key, size, slot)


cdef bint visit_next(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Nearest* nearest = <Nearest*>context
    cdef uint64_t seq = (<PostingTable>nearest.lists).next(slot, nearest.seq)
    if seq and seq < nearest.best:
        nearest.best = seq
    return nearest.best != nearest.seq


cdef bint visit_previous(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Nearest* nearest = <Nearest*>context
    cdef uint64_t seq = (<PostingTable>nearest.lists).previous(slot, nearest.seq)
    if seq > nearest.best:
        nearest.best = seq
    return nearest.best != nearest.seq


cdef bint visit_count(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Nearest* nearest = <Nearest*>context
    nearest.best += (<PostingTable>nearest.lists).rank(slot, nearest.seq)
    return True


cdef bint visit_probe(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Probing* probing = <Probing*>context
    probing.found += 1
    return probing.found < probing.most


cdef bint visit_owner(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Owner* owner = <Owner*>context
    if not (<PostingTable>owner.lists).contains(slot, owner.seq):
        return True
    owner.subject = <char*>malloc(max(1, size))
    owner.size = size
    if owner.subject != NULL:
        memcpy(owner.subject, key, size)
    return False


cdef bint visit_last(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept with gil:
    cdef Rows* rows = <Rows*>context
    cdef uint64_t seq = (<PostingTable>rows.lists).previous(slot, rows.seq)
    if seq:
        (<list>rows.found).append(seq)
    return True


cdef bint visit_row(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept with gil:
    cdef Rows* rows = <Rows*>context
    cdef PostingTable lists = <PostingTable>rows.lists
    (<list>rows.found).append((key[:size], lists.size(slot), lists.first(slot), lists.last(slot)))
    return True


cdef bint visit_gather(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Gathering* into = <Gathering*>context
    cdef uint64_t start_seq = into.start_seq, end_seq = into.end_seq
    cdef Py_ssize_t got
    into.subjects += 1
    while start_seq < end_seq:
        if into.forward:
            got = (<PostingTable>into.lists).gather(
                slot, start_seq, end_seq, into.seqs + into.count, into.room - into.count
            )
        else:
            got = (<PostingTable>into.lists).gather_back(
                slot, start_seq, end_seq, into.seqs + into.count, into.room - into.count
            )
        into.count += got
        if into.count < into.room:
            break
        # There may be more of this subject.
        if into.forward:
            start_seq = into.seqs[into.count - 1] + 1
        else:
            end_seq = into.seqs[into.count - 1]
        if not overflow(into):
            into.failed = True
            return False
        start_seq = max(start_seq, into.start_seq)
        end_seq = min(end_seq, into.end_seq)
    return True


cdef bint overflow(Gathering* into) noexcept nogil:
    """The room is used up: get more, or keep the half that is needed first and let the window end there."""
    cdef Py_ssize_t half = into.room // 2
    if into.room < ROOM_MOST and into.room < 2 * into.subjects:
        return widen(into)
    if not sort_sequences(into.seqs, into.count):
        return False
    if into.forward:
        into.end_seq = into.seqs[half]
    else:
        into.start_seq = into.seqs[into.count - half - 1] + 1
        memmove(into.seqs, into.seqs + into.count - half, half * sizeof(uint64_t))
    into.count = half
    return True


cdef bint widen(Gathering* into) noexcept nogil:
    cdef Py_ssize_t room = into.room * 2 if into.room else ROOM_FIRST
    cdef uint64_t* grown = <uint64_t*>realloc(into.seqs, room * sizeof(uint64_t))
    if grown == NULL:
        return False
    into.seqs = grown
    into.room = room
    return True


cdef bint sort_sequences(uint64_t* seqs, Py_ssize_t count) noexcept nogil:
    """Ascending; by insertion if they are few, else by their bytes, lowest first. False: no memory."""
    cdef Py_ssize_t i, j, shift
    cdef Py_ssize_t places[257]
    cdef uint64_t seq, least = NEVER, most = 0
    cdef uint64_t* spare
    cdef uint64_t* source
    cdef uint64_t* target
    if count <= 32:
        for i in range(1, count):
            seq = seqs[i]
            j = i
            while j and seqs[j - 1] > seq:
                seqs[j] = seqs[j - 1]
                j -= 1
            seqs[j] = seq
        return True
    for i in range(count):
        least = min(least, seqs[i])
        most = max(most, seqs[i])
    spare = <uint64_t*>malloc(count * sizeof(uint64_t))
    if spare == NULL:
        return False
    source = seqs
    target = spare
    shift = 0
    while shift < 64 and (most - least) >> shift:
        memset(places, 0, sizeof(places))
        for i in range(count):
            places[(((source[i] - least) >> shift) & 0xFF) + 1] += 1
        for i in range(256):
            places[i + 1] += places[i]
        for i in range(count):
            j = ((source[i] - least) >> shift) & 0xFF
            target[places[j]] = source[i]
            places[j] += 1
        source, target = target, source
        shift += 8
    if source != seqs:
        memcpy(seqs, source, count * sizeof(uint64_t))
    free(spare)
    return True


cdef class Selection:
    """The matches of one filter, for somebody who wants them one after the other."""

    def __init__(self, SubjectIndex index not None, Filter filter not None) -> None:
        self.index = index
        self.filter = filter
        self.subjects = -1
        self.subjects_least = 0

    def __dealloc__(self):
        free(self.seqs)

    cdef uint64_t next(self, uint64_t seq, uint64_t last_seq) except? 0:
        """The smallest match from `seq` to `last_seq`; 0: none. It may have been deleted since the window was made."""
        cdef Py_ssize_t low, high, middle
        while seq <= last_seq:
            if self.start_seq <= seq < self.end_seq:
                low = 0
                high = self.count
                while low < high:
                    middle = (low + high) >> 1
                    if self.seqs[middle] < seq:
                        low = middle + 1
                    else:
                        high = middle
                if low < self.count:
                    return self.seqs[low] if self.seqs[low] <= last_seq else 0
                seq = self.end_seq
            else:
                self.fill(seq, last_seq + 1, True)
        return 0

    cdef uint64_t previous(self, uint64_t seq, uint64_t first_seq) except? 0:
        """The largest match from `seq` down to `first_seq`; 0: none. It may have been deleted since."""
        cdef Py_ssize_t low, high, middle
        while seq >= first_seq and seq:
            if self.start_seq <= seq < self.end_seq:
                low = 0
                high = self.count
                while low < high:
                    middle = (low + high) >> 1
                    if self.seqs[middle] <= seq:
                        low = middle + 1
                    else:
                        high = middle
                if low:
                    return self.seqs[low - 1] if self.seqs[low - 1] >= first_seq else 0
                seq = self.start_seq - 1
            else:
                self.fill(first_seq, seq + 1, False)
        return 0

    cdef void release(self):
        """Let go of the window; the next look-up makes another."""
        free(self.seqs)
        self.seqs = NULL
        self.room = self.count = 0
        self.start_seq = self.end_seq = 0

    cdef bint better_walk(self, uint64_t distance) except -1:
        """Whether to look at so many messages is cheaper than to gather what matches."""
        if distance <= WALK_ALWAYS:
            return True
        if self.subjects < 0 and self.subjects_least <= distance:
            self.probe(2 * distance)
        return distance <= <uint64_t>(self.subjects if self.subjects >= 0 else self.subjects_least)

    cdef int probe(self, uint64_t most) except -1:
        """How many subjects match, counted no further than `most`."""
        cdef Probing probing
        probing.found = 0
        probing.most = most
        self.index.each(self.filter, visit_probe, &probing)
        if probing.found < most:
            self.subjects = probing.found
        self.subjects_least = probing.found
        return 0

    cdef int fill(self, uint64_t start_seq, uint64_t end_seq, bint forward) except -1:
        """Make the window one that begins at `start_seq` (backwards: ends at `end_seq`) and goes as far as it can."""
        cdef Gathering into
        into.lists = <PyObject*>self.index.lists
        into.seqs = self.seqs
        into.room = self.room
        into.count = into.subjects = 0
        into.start_seq = start_seq
        into.end_seq = end_seq
        into.forward = forward
        into.failed = into.room == 0 and not widen(&into)
        # Nothing is in the window if this fails halfway.
        self.start_seq = self.end_seq = 0
        if not into.failed:
            try:
                self.index.each(self.filter, visit_gather, &into)
            finally:
                self.seqs = into.seqs
                self.room = into.room
        if into.failed or not sort_sequences(self.seqs, into.count):
            raise MemoryError
        self.count = into.count
        self.subjects = into.subjects
        self.start_seq = into.start_seq
        self.end_seq = into.end_seq
        return 0
