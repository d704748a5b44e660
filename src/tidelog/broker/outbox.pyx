"""What a connection still has to send: a chain of byte blocks, appended at one end and written from the other.

Promises
  * Bytes leave in the order in which they came (NET-1).
  * An empty outbox owns no memory. Blocks start small and grow, so thousands of connections with a few bytes each cost
    a few KiB each, and a busy one needs few system calls.
  * Freed blocks are kept in a small pool, last in first out, so that a burst is written into warm memory.
  * Large pieces may be borrowed instead of copied: they are written from where they are. Before that memory is used for
    anything else, `own` copies what is still there (NET-2).

It knows nothing of sockets: the owner gathers an `iovec`, writes it, and consumes what was written.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog.base import limits

cdef enum:
    KINDS = 4
cdef Py_ssize_t CAPACITY[KINDS]
cdef Block* pool[KINDS]
cdef int pooled[KINDS]
cdef int POOL_LIMIT = limits.OUTBOX_BLOCKS_KEPT
cdef Py_ssize_t BORROW_BEHIND = limits.BORROW_BEHIND_SIZE
cdef int kind_index
for kind_index in range(KINDS):
    CAPACITY[kind_index] = limits.OUTBOX_BLOCK_FIRST << (2 * kind_index)
    pool[kind_index] = NULL
    pooled[kind_index] = 0
assert CAPACITY[KINDS - 1] == limits.OUTBOX_BLOCK_LAST


cdef Block* take_block(int kind) except NULL:
    cdef Block* block = pool[kind]
    if block != NULL:
        pool[kind] = block.next
        pooled[kind] -= 1
    else:
        block = <Block*>malloc(sizeof(Block) + CAPACITY[kind])
        if block == NULL:
            raise MemoryError
        block.kind = kind
    block.capacity = CAPACITY[kind]
    block.lent = NULL
    block.lent_size = 0
    block.next = NULL
    block.start = 0
    block.end = 0
    return block


cdef void give_block(Block* block) noexcept:
    if pooled[block.kind] >= POOL_LIMIT >> block.kind:
        free(block)
        return
    block.next = pool[block.kind]
    pool[block.kind] = block
    pooled[block.kind] += 1


cdef inline char* bytes_of(Block* block) noexcept:
    return <char*>(block + 1)


cdef class Outbox:
    def __dealloc__(self):
        self.clear()

    cdef int append(self, const char* data, Py_ssize_t size) except -1:
        cdef Block* block = self.tail
        if block != NULL and block.capacity - block.end >= size:
            memcpy(bytes_of(block) + block.end, data, size)
            block.end += size
            self.size += size
            return 0
        return self.append_slow(data, size)

    cdef int append_pair(self, const char* a, Py_ssize_t a_size, const char* b, Py_ssize_t b_size) except -1:
        cdef Block* block = self.tail
        cdef char* out
        if block != NULL and block.capacity - block.end >= a_size + b_size:
            out = bytes_of(block) + block.end
            memcpy(out, a, a_size)
            memcpy(out + a_size, b, b_size)
            block.end += a_size + b_size
            self.size += a_size + b_size
            return 0
        self.append(a, a_size)
        return self.append(b, b_size)

    cdef int append_slow(self, const char* data, Py_ssize_t size) except -1:
        cdef Block* block
        cdef Py_ssize_t room
        while size > 0:
            if self.tail == NULL or self.tail.end == self.tail.capacity:
                self.add_block(self.next_kind)
                if self.next_kind < KINDS - 1:
                    self.next_kind += 1
            block = self.tail
            room = min(size, block.capacity - block.end)
            memcpy(bytes_of(block) + block.end, data, room)
            block.end += room
            self.size += room
            data += room
            size -= room
        return 0

    cdef Block* add_block(self, int kind) except NULL:
        cdef Block* block = take_block(kind)
        if self.tail == NULL:
            self.head = block
        else:
            self.tail.next = block
        self.tail = block
        return block

    cdef bint borrow(self, const char* prefix, Py_ssize_t prefix_size, const char* data, Py_ssize_t size) except -1:
        """Append a copy of `prefix` and, without copying it, `data`. False: it has to be copied; nothing was done.

        What waits already shows that the socket is slow: then `data` would have to be copied after all.
        """
        cdef Block* block = self.tail
        if prefix_size > CAPACITY[0] or (self.size > BORROW_BEHIND and not self.borrowing):
            return False
        if block == NULL or block.capacity - block.end < prefix_size:
            block = self.add_block(0)
        memcpy(bytes_of(block) + block.end, prefix, prefix_size)
        block.end += prefix_size
        # Nothing more fits between the two.
        block.capacity = block.end
        block.lent = data
        block.lent_size = size
        self.size += prefix_size + size
        self.borrowing = True
        return True

    cdef int own(self) except -1:
        """Copy what is still borrowed. Without the memory for that, nothing is left of all that waited."""
        cdef Block* chain = self.head
        cdef Block* block
        cdef Py_ssize_t size = self.size
        self.borrowing = False
        if size == 0:
            return 0
        self.head = self.tail = NULL
        self.size = 0
        self.next_kind = 0
        while self.next_kind < KINDS - 1 and CAPACITY[self.next_kind] < size:
            self.next_kind += 1
        try:
            block = chain
            while block != NULL:
                self.append(bytes_of(block) + block.start, block.end - block.start)
                if block.lent_size:
                    self.append(block.lent, block.lent_size)
                block = block.next
        except MemoryError:
            self.clear()
            raise
        finally:
            while chain != NULL:
                block = chain
                chain = block.next
                give_block(block)
        return 0

    cdef int gather(self, iovec* vector, int most) noexcept:
        """Point `vector` at the waiting bytes, oldest first. Returns how many entries it filled."""
        cdef Block* block = self.head
        cdef int count = 0
        while block != NULL and count < most:
            if block.end > block.start:
                vector[count].iov_base = bytes_of(block) + block.start
                vector[count].iov_len = block.end - block.start
                count += 1
            if block.lent_size:
                if count == most:
                    break
                vector[count].iov_base = <void*>block.lent
                vector[count].iov_len = block.lent_size
                count += 1
            block = block.next
        return count

    cdef void consume(self, Py_ssize_t size) noexcept:
        """Forget the first `size` bytes: they were written."""
        cdef Block* block
        cdef Py_ssize_t step
        self.size -= size
        self.drained += size
        while size > 0:
            block = self.head
            step = min(size, block.end - block.start)
            block.start += step
            size -= step
            if block.lent_size and block.start == block.end:
                step = min(size, block.lent_size)
                block.lent += step
                block.lent_size -= step
                size -= step
            if block.start == block.end and block.lent_size == 0:
                self.head = block.next
                if self.head == NULL:
                    self.tail = NULL
                give_block(block)
        if self.size == 0:
            # The next burst is likely of the size of this one: begin with a block that holds it.
            self.next_kind = 0
            while self.next_kind < KINDS - 1 and CAPACITY[self.next_kind] < self.drained:
                self.next_kind += 1
            self.drained = 0

    cdef void clear(self) noexcept:
        cdef Block* block
        while self.head != NULL:
            block = self.head
            self.head = block.next
            give_block(block)
        self.tail = NULL
        self.size = 0

    # From Python: for filters (TLS, websocket), which want objects, and for tests.

    def write(self, bytes data) -> None:
        self.append(data, len(data))

    def take(self, Py_ssize_t least=-1) -> list[bytes]:
        """What waits, one `bytes` per block, oldest first: as many as make up `least` bytes; < 0: all of them."""
        cdef list parts = []
        cdef Block* block = self.head
        cdef Py_ssize_t size = 0
        while block != NULL and (least < 0 or size < least):
            if block.end > block.start:
                parts.append((bytes_of(block) + block.start)[:block.end - block.start])
                size += block.end - block.start
            if block.lent_size:
                parts.append(block.lent[:block.lent_size])
                size += block.lent_size
            block = block.next
        self.consume(size)
        return parts

    def lend(self, bytes prefix, bytearray data) -> bool:
        """For tests: `borrow`. `data` may be changed or go when `settle` has been called."""
        return self.borrow(PyBytes_AS_STRING(prefix), len(prefix), PyByteArray_AS_STRING(data), len(data))

    def settle(self) -> None:
        """For tests: `own`."""
        self.own()

    def take_some(self, Py_ssize_t most, int blocks) -> bytes:
        """For tests: the first `most` bytes out of `blocks` (at most 8) blocks, as a socket would take them."""
        cdef iovec vector[8]
        cdef Py_ssize_t step
        cdef int i, count = self.gather(vector, min(blocks, 8))
        part = b""
        for i in range(count):
            step = min(most, <Py_ssize_t>vector[i].iov_len)
            part += (<char*>vector[i].iov_base)[:step]
            most -= step
        self.consume(len(part))
        return part
