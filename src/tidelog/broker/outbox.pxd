"""Door to the outbox."""

cdef extern from "<sys/uio.h>":
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef struct Block:
    Block* next
    Py_ssize_t capacity
    Py_ssize_t start
    Py_ssize_t end
    int kind               # which pool it came from
    const char* lent       # what follows behind the block's own bytes, in memory of somebody else
    Py_ssize_t lent_size


cdef class Outbox:
    cdef Block* head
    cdef Block* tail
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t drained      # bytes consumed since it was last empty: how large the next first block is
    cdef int next_kind
    cdef readonly bint borrowing   # something may stand in memory of somebody else

    cdef int append(self, const char* data, Py_ssize_t size) except -1
    cdef int append_pair(self, const char* a, Py_ssize_t a_size, const char* b, Py_ssize_t b_size) except -1
    cdef int append_slow(self, const char* data, Py_ssize_t size) except -1
    cdef bint borrow(self, const char* prefix, Py_ssize_t prefix_size, const char* data, Py_ssize_t size) except -1
    cdef int own(self) except -1
    cdef Block* add_block(self, int kind) except NULL
    cdef int gather(self, iovec* vector, int most) noexcept
    cdef void consume(self, Py_ssize_t size) noexcept
    cdef void clear(self) noexcept
