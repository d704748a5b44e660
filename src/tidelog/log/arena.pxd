"""Door to the arena."""

from libc.stdint cimport uint16_t

cdef enum:
    UNIT_SIZE = 16               # room for the two links of a free piece
    PAGE_UNITS = 16              # what is taken in a page fits a 16-bit mask
    PAGE_SIZE = UNIT_SIZE * PAGE_UNITS
    ORDERS = 5                   # pieces of 1, 2, 4, 8 and 16 units
    SLAB_SIZE = 65536            # its address is found by masking; small enough to become empty again
    # One page less than the alignment: what the C library writes in front of the next slab stands there, otherwise it
    # would leave the room of a whole slab between two of them.
    SLAB_PAGES = (SLAB_SIZE >> 8) - 1


cdef struct Piece:
    Piece* next
    Piece* previous


cdef struct Slab:
    Slab* next
    Slab* previous
    uint16_t used                # pages of which something is taken
    uint16_t fresh               # from this page on nothing was ever taken
    uint16_t taken[SLAB_PAGES]   # of each page, which units


cdef class Arena:
    cdef Piece* pieces[ORDERS]
    cdef Slab* slabs             # the first one has the fresh pages
    cdef Py_ssize_t touched      # bytes of slabs that were ever written to

    cdef void* take(self, int units) noexcept nogil
    cdef void give(self, void* address, int units) noexcept nogil
    cdef void trim(self, void* address, int units, int kept) noexcept nogil
    cpdef void clear(self) noexcept nogil
    cpdef Py_ssize_t memory_size(self) noexcept nogil

    cdef char* fresh_page(self) noexcept nogil
    cdef void link(self, char* address, int order) noexcept nogil
    cdef void unlink(self, char* address, int order) noexcept nogil
    cdef void release(self, char* address, int order) noexcept nogil
    cdef void drop(self, Slab* slab) noexcept nogil
