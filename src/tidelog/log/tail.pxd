"""Door to runs: runs of messages that readers share."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.log.record cimport Head


cdef class Run:
    cdef char* data
    cdef Py_ssize_t size          # bytes in use
    cdef uint32_t* offsets        # where each message begins
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t offset_capacity
    cdef object owner             # bytes that `data` points into; None: it is our own
    cdef readonly Py_ssize_t damaged   # bytes in which no record was found
    cdef readonly uint64_t start_pos   # position in the segment of the first byte

    cdef int add_offset(self, uint32_t offset) except -1
    cdef Head* head(self, Py_ssize_t index) noexcept nogil
    cdef uint64_t first_seq(self) noexcept nogil
    cdef uint64_t last_seq(self) noexcept nogil
    cdef Py_ssize_t at_least(self, uint64_t seq) noexcept nogil


cdef class Chunk(Run):
    cdef Py_ssize_t capacity
    cdef Py_ssize_t written       # so many bytes are in the file
    cdef readonly uint64_t base_seq    # of its segment
    cdef object file

    cdef char* place(self, Py_ssize_t size) noexcept nogil


cdef class Tail:
    cdef list chunks              # oldest first; the last one is being filled
    cdef Chunk last
    cdef readonly Py_ssize_t window_size
    cdef readonly Py_ssize_t size
    cdef object file              # of the open segment
    cdef uint64_t base_seq
    cdef uint64_t pos             # where the next record goes

    cdef int attach(self, object file, uint64_t base_seq, uint64_t pos) except -1
    cdef char* reserve(self, Py_ssize_t size) except NULL
    cdef int advance(self, Py_ssize_t size, bint message) except -1
    cdef Run find(self, uint64_t seq)
    cdef uint64_t first_seq(self) noexcept
    cdef Py_ssize_t write(self) except -1
    cdef void trim(self)
    cdef void clear(self)


cdef Run pick_from(const char* data, Py_ssize_t size, uint64_t start_pos, uint32_t salt, uint64_t seq)
cdef Run pick_message(bytes data, uint64_t start_pos, uint32_t salt, uint64_t seq)
cdef Run parse_run(
    bytes data, uint64_t start_pos, uint32_t salt, uint64_t seq_least, uint64_t seq_most, bint erased=?
)
