"""How many bytes of one kind of storage an account, or the whole server, may use, and does.

Streams say by how much they have grown or shrunk once per tick. Within a tick each message is promised its room, so that
a question costs a comparison, and nobody adds up; what makes room at the same time counts at the end of the tick, or
when there would be no room without it.
"""


cdef class Budget:
    def __init__(self, int64_t limit=-1, Budget above=None) -> None:
        self.limit = limit
        self.above = above

    cdef bint has_room(self, int64_t size) noexcept:
        """Whether so much more fits into this one; those above are asked by themselves."""
        return self.limit < 0 or self.used + self.promised + size <= self.limit

    cdef bint fits(self, int64_t size) noexcept:
        """Whether so much more fits, here and above."""
        return self.has_room(size) and (self.above is None or self.above.fits(size))

    cdef bint promise(self, int64_t size) noexcept:
        """Keep so much for what is about to be stored, here and above; False: it does not fit."""
        if not self.has_room(size) or (self.above is not None and not self.above.promise(size)):
            return False
        self.promised += size
        return True

    cdef void redeem(self, int64_t size) noexcept:
        """So much of what was promised is used, or given up."""
        self.promised -= size
        if self.above is not None:
            self.above.redeem(size)

    cdef void add(self, int64_t size) noexcept:
        """So much more is used, here and above; less, if it is negative."""
        self.used += size
        if self.above is not None:
            self.above.add(size)

    def give_back(self) -> None:
        """Nothing is used any more."""
        self.add(-self.used)
        self.redeem(self.promised)
