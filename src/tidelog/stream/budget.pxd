"""Door to budgets: how many bytes may be stored, and how many are."""

from libc.stdint cimport int64_t


cdef class Budget:
    cdef readonly int64_t used
    cdef public int64_t limit        # -1: none
    cdef readonly Budget above       # of which this is a part; None: of nothing

    cdef int64_t promised            # and so many more are being stored; `used` will say so soon

    cdef bint has_room(self, int64_t size) noexcept
    cdef bint fits(self, int64_t size) noexcept
    cdef bint promise(self, int64_t size) noexcept
    cdef void redeem(self, int64_t size) noexcept
    cdef void add(self, int64_t size) noexcept
