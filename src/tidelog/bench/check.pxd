from libc.stdint cimport int64_t

cdef enum:
    PUBLISHERS_MAX = 26
    LINE_KEPT = 512

# Why a worker's loop ended. 0 is success; everything else becomes an exception once the GIL is held again.
cdef enum verdict:
    FINE = 0
    WRONG = 1  # a byte that differs from the expected one
    EXCESS = 2  # more than was expected
    REFUSED = 3  # -ERR
    UNKNOWN_LINE = 4  # a control line that no server sends at this point
    LATE = 5  # past the deadline of the run
    STOPPED = 6  # another worker failed
    CLOSED = 7  # end of stream
    SYSTEM = 8  # errno

# The expected output of one publisher, repeated `laps` times.
cdef struct cycle_t:
    const char* data
    int64_t size
    int64_t* starts  # first byte of every frame
    int64_t frames
    int64_t at  # next expected byte, as a position in `data`
    int64_t left  # bytes expected yet, in all laps together

cdef struct check_t:
    cycle_t cycles[PUBLISHERS_MAX]
    int publishers
    int current  # whose frame is being compared
    int64_t mark_at  # where in a frame the publisher's letter stands; -1 with one publisher
    int64_t left
    int64_t pongs
    int64_t pings_due  # PINGs of the server that wait for their PONG
    int in_line
    int line_size
    char line[LINE_KEPT]

cdef int check_feed(check_t* check, const char* data, int64_t size) noexcept nogil
cdef object check_error(check_t* check, int code)


cdef class Check:
    cdef check_t state
    cdef list owned
