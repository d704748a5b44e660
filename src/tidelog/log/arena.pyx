"""Memory for millions of small byte strings that grow and shrink: pieces of 1 to 16 units of 16 bytes.

Promises
  * A piece costs nothing beside itself but its share of the slab's header and of the page left out: 1.6 %.
  * What is given back joins with its free neighbours, so pieces of one size become pieces of another. Many lists that
    grow at the same rate need no more memory than lists that grow one after the other.
  * A slab of which nothing is taken any more goes back to the C library; the newest one stays.
  * A piece is made shorter in place, and that cannot fail. `take` answers NULL when memory is missing.

How it works
    A buddy system on pages of 256 bytes. Free pieces are powers of two, in one doubly linked list for each size, the
    links inside the pieces. A size between two powers is cut from the larger one and the rest goes back at once.
    A slab says for every page which of its 16 units are taken; whoever gives back must know the size.

It does not look after what it hands out: the size of a piece and its end are the owner's business.
"""

cimport cython
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free
from libc.string cimport memset

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void** address, size_t alignment, size_t size)

cdef extern from *:
    int __builtin_clz(unsigned int) nogil
    int __builtin_ctz(unsigned int) nogil

cdef enum:
    WHOLE = ORDERS - 1
    HEADER_PAGES = 3             # what the header of a slab takes up

assert sizeof(Slab) <= HEADER_PAGES * PAGE_SIZE


cdef inline Slab* slab_of(const char* address) noexcept nogil:
    return <Slab*>(<uintptr_t>address & ~<uintptr_t>(SLAB_SIZE - 1))


cdef inline int page_of(const char* address) noexcept nogil:
    return (<uintptr_t>address & (SLAB_SIZE - 1)) // PAGE_SIZE


cdef inline int unit_of(const char* address) noexcept nogil:
    return (<uintptr_t>address & (PAGE_SIZE - 1)) // UNIT_SIZE


cdef inline int mask_of(int unit, int order) noexcept nogil:
    return ((1 << (1 << order)) - 1) << unit


@cython.final
cdef class Arena:
    def __dealloc__(self):
        self.clear()

    cdef void* take(self, int units) noexcept nogil:
        """A piece of 1 to 16 units, or NULL."""
        cdef int wanted = 32 - __builtin_clz(units - 1) if units > 1 else 0, order = wanted
        cdef char* address
        cdef Slab* slab
        while order < WHOLE and self.pieces[order] == NULL:
            order += 1
        address = <char*>self.pieces[order]
        if address != NULL:
            self.unlink(address, order)
        else:
            address = self.fresh_page()
            if address == NULL:
                return NULL
        slab = slab_of(address)
        if order == WHOLE:
            slab.used += 1
        while order > wanted:
            order -= 1
            self.link(address + (UNIT_SIZE << order), order)
        slab.taken[page_of(address)] |= mask_of(unit_of(address), wanted)
        self.trim(address, 1 << wanted, units)
        return address

    cdef void give(self, void* address, int units) noexcept nogil:
        """Give a piece back. `units` is what it was taken or trimmed to."""
        self.trim(address, units, 0)

    cdef void trim(self, void* address, int units, int kept) noexcept nogil:
        """Give back all but the first `kept` units of a piece."""
        cdef int order
        # In pieces that may be free: powers of two that stand at a multiple of their size.
        while kept < units:
            order = 31 - __builtin_clz(units - kept)
            if kept:
                order = min(order, __builtin_ctz(kept))
            self.release(<char*>address + kept * UNIT_SIZE, order)
            kept += 1 << order

    cpdef void clear(self) noexcept nogil:
        """Forget every piece."""
        cdef Slab* next_slab
        while self.slabs != NULL:
            next_slab = self.slabs.next
            free(self.slabs)
            self.slabs = next_slab
        memset(self.pieces, 0, sizeof(self.pieces))
        self.touched = 0

    cpdef Py_ssize_t memory_size(self) noexcept nogil:
        """Bytes that were written to, free pieces included."""
        return self.touched

    # Inside.

    cdef char* fresh_page(self) noexcept nogil:
        cdef Slab* slab = self.slabs
        cdef void* address
        if slab == NULL or slab.fresh == SLAB_PAGES:
            if posix_memalign(&address, SLAB_SIZE, SLAB_PAGES * PAGE_SIZE) != 0:
                return NULL
            slab = <Slab*>address
            memset(slab, 0, sizeof(Slab))
            slab.fresh = HEADER_PAGES
            slab.next = self.slabs
            if self.slabs != NULL:
                self.slabs.previous = slab
            self.slabs = slab
            self.touched += HEADER_PAGES * PAGE_SIZE
        slab.fresh += 1
        self.touched += PAGE_SIZE
        return <char*>slab + (slab.fresh - 1) * PAGE_SIZE

    cdef void link(self, char* address, int order) noexcept nogil:
        cdef Piece* piece = <Piece*>address
        piece.next = self.pieces[order]
        piece.previous = NULL
        if piece.next != NULL:
            piece.next.previous = piece
        self.pieces[order] = piece

    cdef void unlink(self, char* address, int order) noexcept nogil:
        cdef Piece* piece = <Piece*>address
        if piece.next != NULL:
            piece.next.previous = piece.previous
        if piece.previous != NULL:
            piece.previous.next = piece.next
        else:
            self.pieces[order] = piece.next

    cdef void release(self, char* address, int order) noexcept nogil:
        """Make a piece free, together with its free neighbours."""
        cdef Slab* slab = slab_of(address)
        cdef char* page = <char*>(<uintptr_t>address & ~<uintptr_t>(PAGE_SIZE - 1))
        cdef uint16_t* taken = &slab.taken[page_of(address)]
        cdef int unit = unit_of(address), neighbour
        taken[0] &= ~mask_of(unit, order)
        while order < WHOLE:
            neighbour = unit ^ (1 << order)
            # If nothing of it is taken, it is one free piece: parts of it would have joined before.
            if taken[0] & mask_of(neighbour, order):
                break
            self.unlink(page + neighbour * UNIT_SIZE, order)
            unit &= neighbour
            order += 1
        self.link(page + unit * UNIT_SIZE, order)
        if order == WHOLE:
            slab.used -= 1
            if slab.used == 0 and slab != self.slabs:
                self.drop(slab)

    cdef void drop(self, Slab* slab) noexcept nogil:
        cdef int page
        for page in range(HEADER_PAGES, slab.fresh):
            self.unlink(<char*>slab + page * PAGE_SIZE, WHOLE)
        slab.previous.next = slab.next
        if slab.next != NULL:
            slab.next.previous = slab.previous
        self.touched -= slab.fresh * PAGE_SIZE
        free(slab)

    # From Python, for tests.

    def take_piece(self, int units) -> int:
        cdef void* address = self.take(units)
        if address == NULL:
            raise MemoryError
        memset(address, 0xFF, units * UNIT_SIZE)
        return <uintptr_t>address

    def give_piece(self, uintptr_t address, int units) -> None:
        self.give(<void*>address, units)

    def trim_piece(self, uintptr_t address, int units, int kept) -> None:
        self.trim(<void*>address, units, kept)
