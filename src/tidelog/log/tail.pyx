"""Runs of messages as they lie in a segment, and the newest of them, which are shared by all who follow the log.

A `Run` is bytes plus where each message in them begins. Blocks that were read from a file are checked record by record
when they are made, and never change. A `Chunk` is a run that the log itself fills: a record is encoded into it once, and
from there it goes to the file, to the readers and to whoever else wants it, by reference.

Promises
  * A record never lies across two chunks, and never moves: a reader that holds a chunk may look at its messages for as
    long as it likes.
  * The tail keeps at most `window_size` bytes that are written already, and all that are not (TAIL-1).
  * What `write` was refused by the disk stays pending, and the file is as it was.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc

from tidelog.base import limits
from tidelog.log.record cimport ERASED, MESSAGE, Head, find_message, head_at, resync, valid

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)

cdef Py_ssize_t CHUNK_FIRST = limits.TAIL_CHUNK_FIRST
cdef Py_ssize_t CHUNK_LAST = limits.TAIL_CHUNK_LAST


cdef class Run:
    def __dealloc__(self):
        free(self.offsets)

    cdef int add_offset(self, uint32_t offset) except -1:
        cdef Py_ssize_t capacity
        cdef uint32_t* grown
        if self.count == self.offset_capacity:
            capacity = self.offset_capacity * 2 if self.offset_capacity else 16
            grown = <uint32_t*>realloc(self.offsets, capacity * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.offsets = grown
            self.offset_capacity = capacity
        self.offsets[self.count] = offset
        self.count += 1
        return 0

    cdef Head* head(self, Py_ssize_t index) noexcept nogil:
        return head_at(self.data + self.offsets[index])

    cdef uint64_t first_seq(self) noexcept nogil:
        return self.head(0).seq if self.count else 0

    cdef uint64_t last_seq(self) noexcept nogil:
        return self.head(self.count - 1).seq if self.count else 0

    cdef Py_ssize_t at_least(self, uint64_t seq) noexcept nogil:
        """The first message with a sequence of at least `seq`; `count` if there is none."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.head(middle).seq < seq:
                low = middle + 1
            else:
                high = middle
        return low

    def sequences(self) -> list:
        """Of all messages, in order."""
        return [self.head(index).seq for index in range(self.count)]


cdef class Chunk(Run):
    def __dealloc__(self):
        free(self.data)

    cdef char* place(self, Py_ssize_t size) noexcept nogil:
        """Where `size` more bytes fit; NULL: nowhere."""
        return self.data + self.size if self.capacity - self.size >= size else NULL


cdef Chunk new_chunk(Py_ssize_t capacity, object file, uint64_t base_seq, uint64_t start_pos):
    cdef Chunk chunk = Chunk.__new__(Chunk)
    chunk.data = <char*>malloc(capacity)
    if chunk.data == NULL:
        raise MemoryError
    chunk.capacity = capacity
    chunk.file = file
    chunk.base_seq = base_seq
    chunk.start_pos = start_pos
    return chunk


cdef class Tail:
    def __init__(self, Py_ssize_t window_size) -> None:
        self.window_size = window_size
        self.chunks = []

    cdef int attach(self, object file, uint64_t base_seq, uint64_t pos) except -1:
        """From now on records go to `file`, from `pos` on."""
        self.file = file
        self.base_seq = base_seq
        self.pos = pos
        self.last = None
        return 0

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        """Where the next record of `size` bytes is to be encoded."""
        cdef Py_ssize_t capacity
        cdef char* place
        if self.last is not None:
            place = self.last.place(size)
            if place != NULL:
                return place
        capacity = CHUNK_FIRST if self.last is None else min(self.last.capacity * 4, CHUNK_LAST)
        self.last = new_chunk(max(capacity, size), self.file, self.base_seq, self.pos)
        self.chunks.append(self.last)
        return self.last.data

    cdef int advance(self, Py_ssize_t size, bint message) except -1:
        """The record that was reserved is encoded."""
        if message:
            self.last.add_offset(<uint32_t>self.last.size)
        self.last.size += size
        self.size += size
        self.pos += size
        return 0

    cdef Run find(self, uint64_t seq):
        """The chunk that holds `seq`, if it is still here."""
        cdef Chunk chunk
        cdef Py_ssize_t index = len(self.chunks)
        if index:
            # Most of what is not here is older than all of it.
            chunk = self.chunks[0]
            if chunk.count and seq < chunk.first_seq():
                return None
        while index:
            index -= 1
            chunk = self.chunks[index]
            if chunk.count and chunk.first_seq() <= seq:
                return chunk if seq <= chunk.last_seq() else None
        return None

    cdef uint64_t first_seq(self) noexcept:
        """The oldest message that is still here; 0: there is none."""
        cdef Chunk chunk
        for chunk in self.chunks:
            if chunk.count:
                return chunk.first_seq()
        return 0

    cdef Py_ssize_t write(self) except -1:
        """Write what is not in its file yet: one call per file. Returns how many bytes that were."""
        cdef Chunk chunk
        cdef Py_ssize_t index = len(self.chunks), total = 0
        cdef list waiting = []
        while index:
            index -= 1
            chunk = self.chunks[index]
            if chunk.written == chunk.size and chunk.size:
                break
            if chunk.size:
                waiting.append(chunk)
        waiting.reverse()
        while waiting:
            total += write_together(waiting)
        return total

    cdef void trim(self):
        """Let go of what is written, as far as it is beyond the window."""
        cdef Chunk chunk
        cdef Py_ssize_t index = 0
        while self.size > self.window_size and index < len(self.chunks):
            chunk = self.chunks[index]
            if chunk.written < chunk.size:
                break
            self.size -= chunk.size
            index += 1
            if chunk is self.last:
                self.last = None
        if index:
            del self.chunks[:index]

    cdef void clear(self):
        """Let go of everything, written or not."""
        self.chunks = []
        self.last = None
        self.size = 0

    def drop(self) -> None:
        """Let go of all that is written."""
        cdef Py_ssize_t window_size = self.window_size
        self.window_size = 0
        self.trim()
        self.window_size = window_size


cdef Py_ssize_t write_together(list waiting) except -1:
    """Write the first chunks of `waiting` that go to one file, and take them off."""
    cdef Chunk chunk = waiting[0]
    cdef object file = chunk.file
    cdef Py_ssize_t before = <Py_ssize_t>chunk.start_pos + chunk.written, total = 0, count = 0
    cdef list parts = []
    if file.size != before:
        # An earlier try has left something, and could not take it away.
        file.truncate(before)
    for chunk in waiting:
        if chunk.file is not file:
            break
        parts.append(PyMemoryView_FromMemory(chunk.data + chunk.written, chunk.size - chunk.written, PyBUF_READ))
        total += chunk.size - chunk.written
        count += 1
    try:
        file.append(parts)
    except Exception:
        # What the disk took of it would stand before what comes next.
        if file.size != before:
            file.truncate(before)
        raise
    for chunk in waiting[:count]:
        chunk.written = chunk.size
    del waiting[:count]
    return total


cdef Run pick_message(bytes data, uint64_t start_pos, uint32_t salt, uint64_t seq):
    """A run of one message, out of `data`, which begins with a record; None: it is not there, or there is damage before it."""
    return pick_from(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start_pos, salt, seq)


cdef Run pick_from(const char* data, Py_ssize_t size, uint64_t start_pos, uint32_t salt, uint64_t seq):
    """The same out of memory that belongs to somebody else."""
    cdef Py_ssize_t at = find_message(data, size, seq, salt)
    cdef Run run
    if at < 0 or head_at(data + at).flags & ERASED:
        return None
    run = Run.__new__(Run)
    # Not all of `data`: who keeps messages that lie far apart would keep what is between them.
    run.owner = PyBytes_FromStringAndSize(data + at, head_at(data + at).size)
    run.data = PyBytes_AS_STRING(run.owner)
    run.size = PyBytes_GET_SIZE(run.owner)
    run.start_pos = start_pos + at
    run.add_offset(0)
    return run


cdef Run parse_run(
    bytes data, uint64_t start_pos, uint32_t salt, uint64_t seq_least, uint64_t seq_most, bint erased=False
):
    """The valid messages in `data`, which begins with a record; what is damaged is left out, and what is erased.

    An erased message is deleted, also when what says so has fallen to damage. `erased`: those, too.
    """
    cdef Run run = Run.__new__(Run)
    cdef Py_ssize_t pos = 0, found
    cdef Head* head
    run.owner = data
    run.data = PyBytes_AS_STRING(data)
    run.size = PyBytes_GET_SIZE(data)
    run.start_pos = start_pos
    while pos < run.size:
        if not valid(run.data + pos, run.size - pos, salt):
            found = resync(run.data, run.size, pos + 1, salt, seq_least, seq_most)
            run.damaged += (found if found >= 0 else run.size) - pos
            if found < 0:
                break
            pos = found
        head = head_at(run.data + pos)
        if head.kind == MESSAGE and seq_least <= head.seq <= seq_most:
            if erased or not head.flags & ERASED:
                run.add_offset(<uint32_t>pos)
            seq_least = head.seq + 1
        pos += head.size
    return run
