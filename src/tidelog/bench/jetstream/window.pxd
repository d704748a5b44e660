from libc.stdint cimport int64_t

# What has come and has not been looked at.
cdef struct inbox_t:
    char* data
    int64_t capacity
    int64_t size

# One reply at the front of an inbox: the positions count from its first byte.
cdef struct frame_t:
    int64_t line_size
    int64_t reply_at
    int64_t reply_size
    int64_t header_size
    int64_t total_size

cdef int64_t read_number(const char* data, int64_t* at, int64_t end) noexcept nogil
cdef int split_frame(const char* data, int64_t size, frame_t* frame) noexcept nogil
cdef void wake_at(int fd, int64_t mark) noexcept nogil
