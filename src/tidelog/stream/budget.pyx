"""How many bytes of one kind of storage an account, or the whole server, may use, and does.

Streams say by how much they have grown or shrunk once per tick, and before each message where there is a limit; so a
question costs a comparison, and nobody adds up.
"""


cdef class Budget:
    def __init__(self, int64_t limit=-1, Budget above=None) -> None:
        self.limit = limit
        self.above = above

    cdef bint limited(self) noexcept:
        return self.limit >= 0 or (self.above is not None and self.above.limited())

    cdef bint has_room(self, int64_t size) noexcept:
        """Whether so much more fits into this one; those above are asked by themselves."""
        return self.limit < 0 or self.used + size <= self.limit

    cdef void add(self, int64_t size) noexcept:
        """So much more is used, here and above; less, if it is negative."""
        self.used += size
        if self.above is not None:
            self.above.add(size)

    def give_back(self) -> None:
        """Nothing is used any more."""
        self.add(-self.used)
