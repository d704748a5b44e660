"""The loops that make load: publishers that send a prepared lap over and over, subscribers that check it.

What it promises: the loops hold no GIL and touch no Python object between start and end, so that one thread
each outruns any server; a publisher is done only when the server has answered the PING behind its last
message; a subscriber is done only when its `Check` has seen every byte. No loop outlives the deadline of its
`Run`, and all loops of a run end soon after one of them has failed and `Run.stop` was called.

How it works: blocking sockets with time-outs of a tenth of a second (`link.dial` sets them), by which a loop
wakes to look at its run. Subscribers read large pieces, and SO_RCVLOWAT lets them sleep until a good piece is
there: on a machine with few cores each wake-up is time taken from the server.

What it does not do: it knows nothing of cases, servers or TLS (`bench.secure` feeds the same `Check` by ssl).
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base import errors
from tidelog.bench.fault import Stopped

from tidelog.bench.check cimport (
    CLOSED,
    FINE,
    LATE,
    STOPPED,
    SYSTEM,
    Check,
    check_error,
    check_feed,
    check_t,
)

cdef extern from "<poll.h>" nogil:
    cdef struct pollfd:
        int fd
        short events
        short revents
    enum: POLLIN
    int poll(pollfd* fds, unsigned long count, int timeout_ms)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL, SOL_SOCKET, SO_RCVLOWAT
    ssize_t recv(int fd, void* data, size_t size, int flags)
    ssize_t send(int fd, const void* data, size_t size, int flags)
    int setsockopt(int fd, int level, int name, const void* value, unsigned int size)

cdef enum:
    # One recv. With what the kernel holds it stays in the second-level cache.
    PIECE_SIZE = 256 * 1024
    # A subscriber sleeps until so much is there, or all the rest.
    WAKE_SIZE = 64 * 1024
    TICK_MS = 100
    SOCKETS_MAX = 64


cdef int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef class Run:
    def __init__(self, *, timeout_s):
        self.state.stopped = 0
        self.state.deadline_ns = now_ns() + <int64_t>(timeout_s * 1e9)

    def stop(self):
        self.state.stopped = 1

    @property
    def stopped(self):
        return bool(self.state.stopped)

    @property
    def late(self):
        return now_ns() > self.state.deadline_ns


cdef int waiting(run_t* run, int error) noexcept nogil:
    """A call would block or was interrupted: FINE to go on."""
    if error != EAGAIN and error != EINTR:
        return SYSTEM
    if run.stopped:
        return STOPPED
    if now_ns() > run.deadline_ns:
        return LATE
    return FINE


cdef object system_error(int code):
    """The exception for a verdict of a loop that has no `Check`. To be called before errno changes."""
    if code == STOPPED:
        return Stopped("another worker failed")
    if code == LATE:
        return errors.Timeout("the server did not take or answer everything in time")
    if code == CLOSED:
        return errors.Disconnected("the server closed the connection")
    return errors.Disconnected(os.strerror(errno))


cdef int send_all(run_t* run, int fd, const char* data, int64_t size) noexcept nogil:
    cdef int64_t at = 0
    cdef ssize_t sent
    cdef int code
    while at < size:
        sent = send(fd, data + at, size - at, MSG_NOSIGNAL)
        if sent < 0:
            code = waiting(run, errno)
            if code:
                return code
        else:
            at += sent
    return FINE


cdef int answer_pings(run_t* run, int fd, check_t* check) noexcept nogil:
    cdef int code
    while check.pings_due:
        check.pings_due -= 1
        code = send_all(run, fd, b"PONG\r\n", 6)
        if code:
            return code
    return FINE


cdef int send_laps(run_t* run, int fd, const char* data, int64_t size, int64_t laps) noexcept nogil:
    cdef int64_t lap
    cdef int code
    for lap in range(laps):
        code = send_all(run, fd, data, size)
        if code:
            return code
        if run.stopped:
            return STOPPED
    return FINE


cdef int await_pong(run_t* run, int fd, check_t* check) noexcept nogil:
    """Nothing but control lines may come to a publisher; the one after its last message is the PONG."""
    cdef char piece[4096]
    cdef ssize_t size
    cdef int code
    cdef int64_t wanted = check.pongs + 1
    code = send_all(run, fd, b"PING\r\n", 6)
    while code == FINE and check.pongs < wanted:
        size = recv(fd, piece, sizeof(piece), 0)
        if size > 0:
            code = check_feed(check, piece, size)
            if code == FINE:
                code = answer_pings(run, fd, check)
        elif size == 0:
            code = CLOSED
        else:
            code = waiting(run, errno)
    return code


cdef int last_words(int fd, check_t* check) noexcept nogil:
    """Why the server hung up on a publisher, if it said so."""
    cdef char piece[4096]
    cdef ssize_t size = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)
    cdef int code = check_feed(check, piece, size) if size > 0 else FINE
    return code if code else CLOSED


def publish(Run run, int fd, bytes lap, int64_t laps):
    cdef const char* data = PyBytes_AS_STRING(lap)
    cdef int64_t size = PyBytes_GET_SIZE(lap)
    cdef Check lines = Check([(b"", ())], laps=0)
    cdef int code
    cdef int64_t end_ns
    with nogil:
        code = send_laps(&run.state, fd, data, size, laps)
        if code == FINE:
            code = await_pong(&run.state, fd, &lines.state)
        if code == SYSTEM:
            code = last_words(fd, &lines.state)
        end_ns = now_ns()
    if code in (SYSTEM, STOPPED, LATE, CLOSED):
        raise system_error(code)
    if code:
        raise check_error(&lines.state, code)
    return end_ns


cdef int wake_at(int fd, int64_t left) noexcept nogil:
    """Let the socket count as readable when a good piece is there, or all that is left; the mark."""
    cdef int mark = WAKE_SIZE if left > WAKE_SIZE else 1
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark))
    return mark


cdef int receive_one(run_t* run, int fd, check_t* check, char* piece) noexcept nogil:
    cdef ssize_t size
    cdef int code = FINE
    cdef int mark = wake_at(fd, check.left)
    while check.left > 0 and code == FINE:
        size = recv(fd, piece, PIECE_SIZE, 0)
        if size > 0:
            code = check_feed(check, piece, size)
            if check.pings_due and code == FINE:
                code = answer_pings(run, fd, check)
            if mark > 1 and check.left <= WAKE_SIZE:
                mark = wake_at(fd, check.left)
            if code == FINE and run.stopped:
                code = STOPPED
        elif size == 0:
            code = CLOSED
        else:
            code = waiting(run, errno)
    return code


cdef int take_piece(run_t* run, pollfd* entry, check_t* check, char* piece) noexcept nogil:
    """One read of a socket that is said to be ready. The entry leaves the poll when its check is complete."""
    cdef int code
    cdef bint early = check.left > WAKE_SIZE
    cdef ssize_t size = recv(entry.fd, piece, PIECE_SIZE, MSG_DONTWAIT)
    if size == 0:
        return CLOSED
    if size < 0:
        return waiting(run, errno)
    code = check_feed(check, piece, size)
    if check.pings_due and code == FINE:
        code = answer_pings(run, entry.fd, check)
    if early and check.left <= WAKE_SIZE:
        wake_at(entry.fd, check.left)
    if check.left == 0:
        entry.fd = -1
    return code


cdef int receive_many(
    run_t* run, pollfd* entries, check_t** checks, int count, char* piece, int* failed
) noexcept nogil:
    cdef int index
    cdef int ready
    cdef int code
    cdef int open_count = 0
    for index in range(count):
        entries[index].events = POLLIN
        if checks[index].left:
            wake_at(entries[index].fd, checks[index].left)
            open_count += 1
        else:
            entries[index].fd = -1
    while open_count:
        ready = poll(entries, count, TICK_MS)
        if ready <= 0 or run.stopped:
            code = waiting(run, EAGAIN if ready >= 0 else errno)
            if code:
                return code
        for index in range(count):
            # After a silent tick every socket is read: less than the mark may lie there.
            if entries[index].fd < 0 or (ready > 0 and not entries[index].revents):
                continue
            code = take_piece(run, &entries[index], checks[index], piece)
            if code:
                failed[0] = index
                return code
            if entries[index].fd < 0:
                open_count -= 1
    return FINE


def receive(Run run, list fds, list checks):
    cdef pollfd entries[SOCKETS_MAX]
    cdef check_t* states[SOCKETS_MAX]
    cdef int count = len(fds)
    cdef int failed = 0
    cdef int code
    cdef int index
    cdef int64_t end_ns
    cdef char* piece
    cdef Check check
    if not 0 < count <= SOCKETS_MAX or len(checks) != count:
        raise ValueError(f"1 to {SOCKETS_MAX} sockets, each with its check")
    memset(entries, 0, sizeof(entries))
    for index in range(count):
        check = checks[index]
        entries[index].fd = fds[index]
        states[index] = &check.state
    piece = <char*>malloc(PIECE_SIZE)
    if piece == NULL:
        raise MemoryError
    with nogil:
        if count == 1:
            code = receive_one(&run.state, entries[0].fd, states[0], piece)
        else:
            code = receive_many(&run.state, entries, states, count, piece, &failed)
        end_ns = now_ns()
    free(piece)
    if code == SYSTEM:
        raise system_error(code)
    if code:
        raise check_error(states[failed], code)
    return end_ns
