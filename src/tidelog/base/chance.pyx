"""Chance, handed in: a small seeded generator (splitmix64). The same seed gives the same run. Not for secrets."""

import os


cdef class Chance:
    def __init__(self, seed: int | None = None) -> None:
        self.state = int.from_bytes(os.urandom(8), "little") if seed is None else seed & 0xFFFFFFFFFFFFFFFF

    cdef uint64_t next(self) noexcept:
        cdef uint64_t z
        self.state += <uint64_t>0x9E3779B97F4A7C15
        z = self.state
        z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
        return z ^ (z >> 31)

    cdef Py_ssize_t below(self, Py_ssize_t bound) noexcept:
        """A number in [0, bound)."""
        return <Py_ssize_t>((self.next() >> 32) * <uint64_t>bound >> 32)

    def integer(self, Py_ssize_t bound) -> int:
        """A number in [0, bound), from Python."""
        return self.below(bound)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return <double>(self.next() >> 11) / 9007199254740992.0
