"""Message ids that were seen within the duplicate window, and the sequences of their messages.

Promises
  * An id is found from the message that brought it until `window_ns` later, and not a nanosecond longer.
  * Finding and noting cost one look into a table; letting go of what is too old costs as much as it was noted.
  * Memory is that of the ids in the window and some 40 bytes for each, without an object.

How it works: ids lie behind each other in one block, oldest first, and a table of open addressing leads to them. What is
too old goes from the front of the block.

What it does not do: write anything down. After a restart the stream notes the ids of its newest messages again.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memmove

from tidelog.base import limits

cdef extern from "hash.h":
    uint64_t tidelog_hash(const char* data, size_t size, uint64_t seed) nogil

cdef Py_ssize_t ROOM_FIRST = limits.DEDUPE_ROOM_FIRST
cdef uint64_t TABLE_FIRST = limits.DEDUPE_TABLE_FIRST
cdef uint64_t PROCESS_SEED = int.from_bytes(os.urandom(8), "little")


cdef class Dedupe:
    def __cinit__(self):
        self.seed = PROCESS_SEED
        self.mask = TABLE_FIRST - 1
        self.table = <uint64_t*>calloc(TABLE_FIRST, sizeof(uint64_t))
        if self.table == NULL:
            raise MemoryError

    def __init__(self, int64_t window_ns) -> None:
        self.window_ns = window_ns

    def __dealloc__(self):
        free(self.table)
        free(self.data)

    def set_window(self, int64_t window_ns) -> None:
        """0: nothing is noted, and nothing found."""
        self.window_ns = window_ns

    cdef uint64_t find(self, const char* id, Py_ssize_t size, int64_t now_ns) except? 0:
        """The sequence of the message that brought this id; 0: none did within the window."""
        cdef uint64_t place
        self.expire(now_ns)
        place = self.place_of(id, size, tidelog_hash(id, size, self.seed))
        return self.seen_at(self.table[place] - 1).seq if self.table[place] else 0

    cdef int note(self, const char* id, Py_ssize_t size, uint64_t seq, int64_t ts_ns) except -1:
        """The message `seq` of `ts_ns` has brought this id. Times do not fall."""
        cdef Seen seen
        cdef uint64_t place
        if self.window_ns <= 0:
            return 0
        self.make_room(<Py_ssize_t>sizeof(Seen) + size)
        if (<uint64_t>self.count + 1) * 4 > (self.mask + 1) * 3:
            self.grow()
        seen.hash = tidelog_hash(id, size, self.seed)
        seen.seq = seq
        seen.ts_ns = ts_ns
        seen.size = <uint32_t>size
        place = self.place_of(id, size, seen.hash)
        if self.table[place] == 0:
            self.count += 1
        self.table[place] = self.base_pos + <uint64_t>self.end + 1
        memcpy(self.data + self.end, &seen, sizeof(Seen))
        memcpy(self.data + self.end + sizeof(Seen), id, size)
        self.end += <Py_ssize_t>sizeof(Seen) + size
        self.kept += 1
        return 0

    cdef int expire(self, int64_t now_ns) except -1:
        """Let go of what is too old."""
        cdef Seen* seen
        cdef uint64_t place
        while self.start < self.end:
            seen = <Seen*>(self.data + self.start)
            if self.window_ns > 0 and now_ns - seen.ts_ns < self.window_ns:
                break
            place = self.place_of(<char*>seen + sizeof(Seen), seen.size, seen.hash)
            # The same id may have come again since.
            if self.table[place] == self.base_pos + <uint64_t>self.start + 1:
                self.vacate(place)
                self.count -= 1
            self.start += <Py_ssize_t>sizeof(Seen) + seen.size
            self.kept -= 1
        if self.start == self.end and self.start:
            self.base_pos += <uint64_t>self.start
            self.start = self.end = 0
        return 0

    cdef Seen* seen_at(self, uint64_t pos) noexcept nogil:
        return <Seen*>(self.data + (pos - self.base_pos))

    cdef uint64_t place_of(self, const char* id, Py_ssize_t size, uint64_t hash) noexcept nogil:
        """Where in the table this id stands, or would."""
        cdef uint64_t place = hash & self.mask
        cdef Seen* seen
        while self.table[place]:
            seen = self.seen_at(self.table[place] - 1)
            if seen.hash == hash and seen.size == <uint32_t>size and memcmp(<char*>seen + sizeof(Seen), id, size) == 0:
                break
            place = (place + 1) & self.mask
        return place

    cdef void vacate(self, uint64_t place) noexcept nogil:
        """Free a place, and move what could not stand there before."""
        cdef uint64_t hole = place, home
        while True:
            place = (place + 1) & self.mask
            if self.table[place] == 0:
                break
            home = self.seen_at(self.table[place] - 1).hash & self.mask
            if ((place - home) & self.mask) >= ((place - hole) & self.mask):
                self.table[hole] = self.table[place]
                hole = place
        self.table[hole] = 0

    cdef int make_room(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t used = self.end - self.start, room
        cdef char* block
        if self.end + size <= self.room:
            return 0
        if self.start > used:
            memmove(self.data, self.data + self.start, used)
        else:
            room = max(2 * self.room, ROOM_FIRST)
            while room < used + size:
                room *= 2
            block = <char*>malloc(room)
            if block == NULL:
                raise MemoryError
            memcpy(block, self.data + self.start, used)
            free(self.data)
            self.data = block
            self.room = room
        self.base_pos += <uint64_t>self.start
        self.start = 0
        self.end = used
        if used + size > self.room:
            return self.make_room(size)
        return 0

    cdef int grow(self) except -1:
        cdef uint64_t* old = self.table
        cdef uint64_t old_mask = self.mask, i, place
        cdef uint64_t* table = <uint64_t*>calloc((old_mask + 1) * 2, sizeof(uint64_t))
        if table == NULL:
            raise MemoryError
        self.table = table
        self.mask = old_mask * 2 + 1
        for i in range(old_mask + 1):
            if old[i]:
                place = self.seen_at(old[i] - 1).hash & self.mask
                while table[place]:
                    place = (place + 1) & self.mask
                table[place] = old[i]
        free(old)
        return 0

    # ---- for tests ----

    def seen(self, bytes id not None, int64_t now_ns) -> int:
        return self.find(PyBytes_AS_STRING(id), PyBytes_GET_SIZE(id), now_ns)

    def remember(self, bytes id not None, uint64_t seq, int64_t ts_ns) -> None:
        self.note(PyBytes_AS_STRING(id), PyBytes_GET_SIZE(id), seq, ts_ns)
