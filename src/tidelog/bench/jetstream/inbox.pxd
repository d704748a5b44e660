"""Door to inboxes: what has come over a connection, frame by frame."""

from libc.stdint cimport int64_t

from tidelog.bench.load cimport run_t

# What has come and has not been looked at.
cdef struct inbox_t:
    run_t* run
    int fd
    char* data
    int64_t size
    # Nothing came for a tick: less than the mark may be there for good.
    int idle

# One delivery at the front of an inbox: the positions count from its first byte.
cdef struct frame_t:
    int64_t line_size
    int64_t reply_at
    int64_t reply_size
    int64_t header_size
    int64_t total_size

# Looks at a delivery; another code than FINE ends it.
ctypedef int (*taker_t)(void* taker, const char* data, frame_t* frame) noexcept nogil

cdef int open_inbox(inbox_t* inbox, run_t* run, int fd) except -1
cdef bytes close_inbox(inbox_t* inbox)
cdef int receive(inbox_t* inbox, int64_t mark, taker_t take, void* taker) noexcept nogil
cdef int64_t read_number(const char* data, int64_t* at, int64_t end) noexcept nogil
