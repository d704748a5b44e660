"""The bytes of a segment without the messages that are deleted, which explain themselves.

Promises
  * Every message that is not dead is there, byte for byte, in its order; nothing else is taken for a message.
  * What the segment said of other segments it still says, as long as it matters: skips, and deletes of messages that are
    still in a file. What it said of its own deletes is said anew, at the end: one list of all sequences of its stretch
    that are dead (KEEP-2). So nothing has to be remembered elsewhere for a hole in it not to be taken for a loss.
  * The last record carries the last sequence and the last time that the segment has named, also where the message that
    had them is gone: neither goes back.
  * Bytes with anything in them that is no record are not rewritten: damage stays where it is.

It runs without the GIL, on input that nobody changes: `dead` and `earlier` belong to the call, or are never written to.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from tidelog.base import limits
from tidelog.base.seqset cimport SequenceSet
from tidelog.base.varint cimport VARINT_SIZE_MOST, put_varint
from tidelog.base.vector cimport append, push, release, reserve
from tidelog.log.outline cimport SEGMENT_HEADER_SIZE, Hole
from tidelog.log.record cimport DELETE, HEADER_SIZE, MESSAGE, TRIM, body_of, body_size, encode_control, head_at, valid
from tidelog.log.sidecar cimport Range, Sidecar, take_range

cdef Py_ssize_t DELETE_MOST = limits.DELETE_RECORD_SIZE - 3 * <int>VARINT_SIZE_MOST


def rewrite(
    bytes data not None, uint64_t base_seq, uint64_t end_seq, uint32_t salt, SequenceSet dead not None,
    uint64_t floor_seq, list earlier not None,
) -> bytes | None:
    """The segment `data`, whose stretch of sequences is [base_seq, end_seq), without what is `dead`. None: it is damaged.

    `floor_seq`: everything below was left by retention, whatever becomes of the trim record that says so; this segment
    says it from now on. `earlier`: the sidecars of the segments in front, by which is known what is still in a file.
    """
    cdef Rewriting rewriting = Rewriting(base_seq, end_seq, salt, dead, floor_seq)
    cdef const char* place = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Sidecar side
    cdef bint done
    for side in earlier:
        rewriting.add_earlier(side)
    with nogil:
        done = rewriting.run(place, size)
    if not done:
        raise MemoryError
    if rewriting.damaged:
        return None
    return PyBytes_FromStringAndSize(rewriting.out.items, rewriting.out.count)


cdef class Rewriting:
    def __init__(self, uint64_t base_seq, uint64_t end_seq, uint32_t salt, SequenceSet dead, uint64_t floor_seq) -> None:
        self.base_seq = base_seq
        self.end_seq = end_seq
        self.salt = salt
        self.dead = dead
        self.floor_seq = floor_seq
        self.seen = base_seq - 1

    def __dealloc__(self):
        release(&self.out)
        release(&self.ranges)
        release(&self.earlier)

    cdef int add_earlier(self, Sidecar side) except -1:
        cdef Earlier* one = <Earlier*>push(&self.earlier, sizeof(Earlier))
        if one == NULL:
            raise MemoryError
        one.base_seq = side.outline.base_seq
        one.holes = <Hole*>side.outline.holes.items
        one.count = side.outline.holes.count
        one.last_seq = side.outline.last_seq
        return 0

    cdef bint run(self, const char* data, Py_ssize_t size) noexcept nogil:
        """False: there is no memory."""
        cdef Py_ssize_t pos = SEGMENT_HEADER_SIZE
        cdef Head* head
        cdef bint done = True
        if not append(&self.out, data, SEGMENT_HEADER_SIZE, 1):
            return False
        while pos < size:
            head = head_at(data + pos)
            if not valid(data + pos, size - pos, self.salt):
                self.damaged = True
                return True
            self.seen = max(self.seen, head.seq)
            self.last_ts_ns = max(self.last_ts_ns, head.ts_ns)
            if head.kind == DELETE:
                done = self.take_delete(head)
            elif head.kind == TRIM:
                # It was as certain as the segment is, also where what it is about is not known to be synced.
                self.floor_seq = max(self.floor_seq, (<uint64_t*>body_of(head))[0])
            elif not (head.kind == MESSAGE and self.dead.contains(head.seq)):
                done = append(&self.out, <const char*>head, head.size, 1)
            if not done:
                return False
            pos += head.size
        return self.say_dead() and self.say_floor()

    cdef bint take_delete(self, Head* head) noexcept nogil:
        """What of a delete record is still to be said. False: there is no memory."""
        cdef const unsigned char* place = <const unsigned char*>body_of(head)
        cdef const unsigned char* end = place + body_size(head)
        cdef Range found
        cdef uint64_t floor = 0
        while place < end:
            place = take_range(place, end, floor, &found)
            if place == NULL:
                self.damaged = True
                return True
            floor = found.first + found.count
            if found.first < self.base_seq and floor > self.floor_seq and not self.is_hole(found.first, found.count):
                if not self.add_range(found.first, found.count, found.size, head.seq, head.ts_ns):
                    return False
        return self.put_ranges(head.seq, head.ts_ns)

    cdef bint is_hole(self, uint64_t seq, uint64_t count) noexcept nogil:
        """Whether the segment in front that these belong to has none of them. Damage may have cost it some of them."""
        cdef Earlier* items = <Earlier*>self.earlier.items
        cdef Py_ssize_t low = 0, high = self.earlier.count, middle
        cdef Hole* holes
        while low < high:
            middle = (low + high) >> 1
            if items[middle].base_seq <= seq:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return False
        items += low - 1
        if seq > items.last_seq:
            return True
        holes = items.holes
        low = 0
        high = items.count
        while low < high:
            middle = (low + high) >> 1
            if holes[middle].first <= seq:
                low = middle + 1
            else:
                high = middle
        return low > 0 and seq + count - holes[low - 1].first <= holes[low - 1].count

    cdef bint say_dead(self) noexcept nogil:
        """The list of all that is not in this stretch any more. False: there is no memory."""
        cdef uint64_t seq = self.dead.next_present(self.base_seq), stop
        while seq and seq < self.end_seq:
            stop = min(self.dead.next_absent(seq), self.end_seq)
            if not self.add_range(seq, stop - seq, 0, self.seen, self.last_ts_ns):
                return False
            seq = self.dead.next_present(stop)
        return self.put_ranges(self.seen, self.last_ts_ns)

    cdef bint say_floor(self) noexcept nogil:
        """The end, with the last sequence and time. False: there is no memory."""
        return self.put(TRIM, self.seen, self.last_ts_ns, <const char*>&self.floor_seq, sizeof(uint64_t))

    # ---- a delete record that grows ----

    cdef bint add_range(self, uint64_t first, uint64_t count, uint64_t size, uint64_t seq, int64_t ts_ns) noexcept nogil:
        cdef unsigned char[3 * VARINT_SIZE_MOST] text
        cdef unsigned char* place
        if self.ranges.count > DELETE_MOST and not self.put_ranges(seq, ts_ns):
            return False
        place = put_varint(text, first - self.ranges_end)
        place = put_varint(place, count)
        place = put_varint(place, size)
        self.ranges_end = first + count
        return append(&self.ranges, text, place - text, 1)

    cdef bint put_ranges(self, uint64_t seq, int64_t ts_ns) noexcept nogil:
        """Say the ranges so far, if there are any."""
        cdef bint done = self.ranges.count == 0 or self.put(DELETE, seq, ts_ns, self.ranges.items, self.ranges.count)
        self.ranges.count = 0
        self.ranges_end = 0
        return done

    cdef bint put(self, int kind, uint64_t seq, int64_t ts_ns, const char* payload, Py_ssize_t size) noexcept nogil:
        if not reserve(&self.out, HEADER_SIZE + size, 1):
            return False
        encode_control(self.out.items + self.out.count, self.salt, kind, 0, seq, ts_ns, payload, size)
        self.out.count += HEADER_SIZE + size
        return True
