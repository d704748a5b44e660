"""What has come over a connection, looked at delivery by delivery, by whoever is given.

    open_inbox(&inbox, run, fd)
    code = receive(&inbox, mark, take, taker)      one read; `take` sees every delivery that is whole
    seen = close_inbox(&inbox)                     what was not taken, for people

What it promises: every delivery is seen once, in order, as soon as it is whole; lines between are answered or passed
over (tidelog.bench.exchange). A read sleeps until `mark` bytes are there: on a machine with few cores each wake-up is
time taken from the server.

What it does not do: know what should come.
"""

from libc.errno cimport errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memmove

from tidelog.bench.check cimport CLOSED, FINE, WRONG
from tidelog.bench.exchange cimport skip_line
from tidelog.bench.load cimport run_t, waiting

cdef extern from "<sys/socket.h>" nogil:
    enum: SOL_SOCKET, SO_RCVLOWAT
    ssize_t recv(int fd, void* data, size_t size, int flags)
    int setsockopt(int fd, int level, int name, const void* value, unsigned int size)

cdef enum:
    INBOX_SIZE = 1024 * 1024
    LINE_MAX = 4096
    SHOWN = 300


cdef int open_inbox(inbox_t* inbox, run_t* run, int fd) except -1:
    inbox.run = run
    inbox.fd = fd
    inbox.size = 0
    inbox.idle = 0
    inbox.data = <char*>malloc(INBOX_SIZE)
    if inbox.data == NULL:
        raise MemoryError
    return 0


cdef bytes close_inbox(inbox_t* inbox):
    seen = inbox.data[:min(inbox.size, <int64_t>SHOWN)]
    free(inbox.data)
    return seen


cdef int receive(inbox_t* inbox, int64_t mark, taker_t take, void* taker) noexcept nogil:
    cdef int value = <int>(mark if mark > 1 else 1)
    cdef ssize_t size
    setsockopt(inbox.fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value))
    inbox.idle = 0
    size = recv(inbox.fd, inbox.data + inbox.size, INBOX_SIZE - inbox.size, 0)
    if size == 0:
        return CLOSED
    if size < 0:
        inbox.idle = 1
        return waiting(inbox.run, errno)
    inbox.size += size
    return look(inbox, take, taker)


cdef int look(inbox_t* inbox, taker_t take, void* taker) noexcept nogil:
    """At what is whole."""
    cdef frame_t frame
    cdef int64_t at = 0
    cdef int64_t line_size
    cdef int code = FINE
    cdef int whole
    while at < inbox.size:
        if inbox.data[at] == c"M" or inbox.data[at] == c"H":
            whole = split_frame(inbox.data + at, inbox.size - at, &frame)
            if whole == 0:
                break
            code = take(taker, inbox.data + at, &frame) if whole > 0 else <int>WRONG
            if code != FINE:
                break
            at += frame.line_size + frame.total_size + 2
            continue
        line_size = skip_line(inbox.run, inbox.fd, inbox.data + at, inbox.size - at)
        if line_size < 0:
            return <int>-line_size
        if line_size == 0:
            break
        at += line_size
    inbox.size -= at
    if inbox.size and at:
        memmove(inbox.data, inbox.data + at, inbox.size)
    return code


cdef int64_t read_number(const char* data, int64_t* at, int64_t end) noexcept nogil:
    """The digits from `at` on; -1 if there are none. `at` moves behind them."""
    cdef int64_t value = 0
    cdef int64_t start = at[0]
    while at[0] < end and c"0" <= data[at[0]] <= c"9":
        value = value * 10 + (data[at[0]] - c"0")
        at[0] += 1
    return value if at[0] > start else -1


cdef int64_t word_end(const char* data, int64_t at, int64_t end) noexcept nogil:
    while at < end and data[at] != c" ":
        at += 1
    return at


cdef int split_frame(const char* data, int64_t size, frame_t* frame) noexcept nogil:
    """MSG or HMSG at the front: 1 when it is whole, 0 when not yet, -1 when it is none."""
    cdef bint headed = data[0] == c"H"
    cdef const char* line_end = <const char*>memchr(data, c"\n", size if size < LINE_MAX else LINE_MAX)
    cdef int64_t end
    cdef int64_t at
    cdef int64_t next_at
    if line_end == NULL:
        return 0 if size < LINE_MAX else -1
    end = line_end - data - 1
    frame.line_size = end + 2
    # Verb, subject and sid are passed over; then comes a reply, unless only sizes follow.
    at = word_end(data, 5 if headed else 4, end) + 1
    at = word_end(data, at, end) + 1
    frame.reply_at = at
    frame.reply_size = 0
    if data[at] < c"0" or data[at] > c"9":
        next_at = word_end(data, at, end)
        frame.reply_size = next_at - at
        at = next_at + 1
    frame.header_size = 0
    if headed:
        frame.header_size = read_number(data, &at, end)
        at += 1
    frame.total_size = read_number(data, &at, end)
    if at != end or frame.total_size < 0 or frame.header_size < 0:
        return -1
    return 1 if size >= frame.line_size + frame.total_size + 2 else 0
