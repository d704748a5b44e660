"""Door to dedupe: which message ids were seen within the window."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef packed struct Seen:
    uint64_t hash
    uint64_t seq
    int64_t ts_ns
    uint32_t size       # of the id, which follows


cdef class Dedupe:
    cdef readonly int64_t window_ns
    cdef char* data             # what was seen, oldest first, each with its id
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef Py_ssize_t room
    cdef uint64_t base_pos      # of the first byte of `data`, counted from the first id that was ever seen
    cdef uint64_t* table        # position + 1 of the newest with such a hash; 0: free
    cdef uint64_t mask
    cdef uint64_t seed
    cdef readonly Py_ssize_t count     # ids in the table
    cdef readonly Py_ssize_t kept      # entries in `data`

    cdef uint64_t find(self, const char* id, Py_ssize_t size, int64_t now_ns) except? 0
    cdef int note(self, const char* id, Py_ssize_t size, uint64_t seq, int64_t ts_ns) except -1
    cdef int expire(self, int64_t now_ns) except -1
    cdef Seen* seen_at(self, uint64_t pos) noexcept nogil
    cdef uint64_t place_of(self, const char* id, Py_ssize_t size, uint64_t hash) noexcept nogil
    cdef void vacate(self, uint64_t place) noexcept nogil
    cdef int make_room(self, Py_ssize_t size) except -1
    cdef int grow(self) except -1
