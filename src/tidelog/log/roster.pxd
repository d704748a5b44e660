"""Door to rosters: the subjects of a segment with their sequences, collected in one pass without the GIL."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from tidelog.base.vector cimport Vector

cdef packed struct Subject:
    uint64_t hash
    uint32_t text           # where its bytes begin in `texts`
    uint32_t count          # of its messages
    uint32_t first          # sequences from the base on: of the first message, and of the last one
    uint32_t last
    uint32_t deltas_size    # what its distances take as varints
    uint32_t start          # where its sequences begin in `grouped`; known once arranged
    uint16_t size

cdef struct Entry:
    uint32_t subject
    uint32_t seq_offset

# A subject's place in the order so far: seven bytes of it from some depth on, and whether there are more behind them.
cdef struct Key:
    uint64_t chunk
    uint32_t subject


cdef class Roster:
    cdef Vector subjects        # Subject, in the order of their first messages
    cdef Vector texts           # char
    cdef Vector entries         # Entry, in the order of messages
    cdef uint32_t* slots        # a subject's number and one; 0: free
    cdef uint64_t mask
    cdef uint32_t* grouped      # sequences from the base on, subject by subject
    cdef Key* keys              # subjects in byte order
    cdef uint64_t rows_size
    cdef uint64_t dice

    cdef bint add(self, const char* text, Py_ssize_t size, uint32_t seq_offset) noexcept nogil
    cdef bint arrange(self) noexcept nogil
    cdef unsigned char* write_rows(self, unsigned char* place) noexcept nogil
    cdef dict listed(self, uint64_t base_seq)

    cdef Subject* find(self, const char* text, Py_ssize_t size) noexcept nogil
    cdef Subject* insert(self, uint64_t slot, uint64_t hash, const char* text, Py_ssize_t size) noexcept nogil
    cdef bint widen(self) noexcept nogil
    cdef uint64_t chunk_at(self, uint32_t number, Py_ssize_t depth) noexcept nogil
    cdef bint precedes(self, Key* one, Key* other, Py_ssize_t depth) noexcept nogil
    cdef void sort(self, Key* keys, Py_ssize_t count, Py_ssize_t depth) noexcept nogil
    cdef void sort_few(self, Key* keys, Py_ssize_t count, Py_ssize_t depth) noexcept nogil
    cdef uint64_t pivot(self, Key* keys, Py_ssize_t count) noexcept nogil
