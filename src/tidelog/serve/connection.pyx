"""The bytes of one connection: from its socket to its session, and from its recipient's outbox to its socket.

Plain TCP goes straight from `recv` into the parser and from the outbox into `writev`. TLS and websocket are filters
between (`serve.filter`); with them the same steps go through objects instead of
pointers. Which filter a connection gets, and when it is greeted, is decided in `serve.reception`.

How reading works: one receive buffer serves all connections of a server, because a burst is parsed at once. Large
messages are lent from it and leave from there, before the next burst comes (NET-2). What is left of an unfinished
operation is kept by its connection (`carry`) and put in front of the next burst; when it is large, the rest is received
straight behind it, into a buffer of its size as far as that is known. An idle connection owns no buffer.

How writing works: whatever a tick has put into the outbox goes out in one call. What the socket does not take waits,
and the socket is watched; a socket that takes nothing for `write_deadline` ends as a slow consumer.

A producer that fills somebody's outbox faster than it drains is not read until it has drained, or for at most
PRODUCER_PAUSE_NS (`hold`).
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.errno cimport EAGAIN, EINTR
from libc.errno cimport errno as c_errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from tidelog.base import limits
from tidelog.broker.outbox cimport Outbox, iovec
from tidelog.broker.recipient cimport FlushQueue, Recipient
from tidelog.broker.session cimport Session
from tidelog.serve.filter import FilterError

cdef extern from "<sys/socket.h>":
    ssize_t recv(int fd, void* data, size_t size, int flags)

    int setsockopt(int fd, int level, int name, const void* value, unsigned int size)

cdef extern from "<netinet/in.h>":
    int IPPROTO_TCP

cdef extern from "<netinet/tcp.h>":
    int TCP_CONGESTION
    int TCP_NODELAY

cdef extern from "<sys/uio.h>":
    ssize_t writev(int fd, const iovec* vector, int count)

cdef enum:
    VECTOR_SIZE = 64

cdef Py_ssize_t BURST = limits.READ_BURST_SIZE
cdef Py_ssize_t IN_PLACE = limits.CARRY_IN_PLACE_SIZE
cdef Py_ssize_t LEND_BURST = limits.LEND_BURST_SIZE
cdef Py_ssize_t FILTER_SEND = limits.FILTER_SEND_SIZE
cdef Py_ssize_t CONGESTED = limits.CONGESTED_SIZE
cdef double PAUSE_S = limits.PRODUCER_PAUSE_NS / 1e9

# How long a closing connection may take to send its last words.
cdef double LAST_WORDS_S = 1.0


cdef class ReadBuffer:
    """Where the connections of one server receive. Servers in other threads have their own: while a burst is read,
    Python may let them go on."""

    cdef char* place

    def __cinit__(self):
        self.place = <char*>malloc(IN_PLACE + BURST)
        if self.place == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.place)


cdef class Connection:
    cdef readonly int fd
    cdef readonly Session session
    cdef Recipient recipient
    cdef object loop
    cdef object server
    cdef ReadBuffer buffer
    cdef object filter           # between socket and session; None: plain
    cdef public object on_established   # called once, when the filter is ready
    cdef public object on_first_bytes   # called with the first byte
    cdef list wire               # filtered bytes that the socket has not taken yet
    cdef Py_ssize_t wire_size
    cdef char* carry
    cdef Py_ssize_t carry_size
    cdef Py_ssize_t carry_capacity
    cdef bint carry_open         # how much is still to come is not known: look at it after each burst
    cdef bint reading
    cdef bint writing
    cdef bint ending             # the session is over; only last words are written
    cdef readonly bint closed
    cdef bint held
    cdef Recipient held_by
    cdef object deadline         # timer of a blocked write
    cdef Py_ssize_t written      # ever, to see progress
    cdef Py_ssize_t written_then
    cdef int64_t seen_in         # messages that had come and gone at the last activity
    cdef int64_t seen_out

    def __init__(self, server, loop, int fd) -> None:
        self.server = server
        self.buffer = server.read_buffer
        self.loop = loop
        self.fd = fd

    def __dealloc__(self):
        free(self.carry)

    def attach(self, Session session not None) -> None:
        self.session = session
        self.recipient = session.recipient
        self.start_reading()

    def tune(self, bint local) -> None:
        """Small messages go at once; to the same machine nothing is paced (docs/decisions/0006)."""
        cdef int on = 1
        setsockopt(self.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on))
        if local:
            # Where the system does not know it, its own choice stands.
            setsockopt(self.fd, IPPROTO_TCP, TCP_CONGESTION, b"reno", 4)

    # ---- reading ----

    def start_reading(self) -> None:
        if not self.reading and not self.closed and not self.ending:
            self.reading = True
            self.loop.add_reader(self.fd, self.readable)

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self.loop.remove_reader(self.fd)

    def readable(self) -> None:
        """One read burst. Whatever goes wrong in it is this connection's end, and nobody else's."""
        try:
            self.read_burst()
        except Exception as error:
            self.server.connection_failed(self, error)

    cdef int read_burst(self) except -1:
        """Receive once, and let the session read what came."""
        cdef Py_ssize_t got, room
        cdef char* shared = self.buffer.place
        cdef char* place
        cdef bint through = self.filter is not None or self.on_first_bytes is not None
        if self.closed or self.ending:
            return 0
        if through:
            place = shared
            room = BURST
        elif self.carry_capacity > IN_PLACE:
            # The rest of a large message goes straight to its place.
            place = self.carry + self.carry_size
            room = self.carry_capacity - self.carry_size
        else:
            if self.carry_size:
                memcpy(shared, self.carry, self.carry_size)
            place = shared + self.carry_size
            room = BURST
        got = recv(self.fd, place, room, 0)
        if got <= 0:
            if got < 0 and (c_errno == EAGAIN or c_errno == EINTR):
                return 0
            self.peer_gone("Client Closed" if got == 0 else "Read Error")
            return 0
        # Also the part of a large message is a sign of life.
        self.session.last_in_ns = self.server.monotonic_ns()
        if through:
            self.readable_through_filter(place[:got])
            return 0
        if self.carry_capacity > IN_PLACE:
            self.carry_size += got
            if self.carry_is_worth_a_look(self.carry_size):
                self.pump_carry()
        else:
            got += self.carry_size
            self.carry_size = 0
            self.pump(shared, got)
        self.note_activity()
        if self.recipient.congested_by is not None:
            self.hold()
        return 0

    cdef int note_activity(self) except -1:
        """When messages came or went last is told by monitoring."""
        if self.seen_in != self.session.in_msgs or self.seen_out != self.recipient.out_msgs:
            self.seen_in = self.session.in_msgs
            self.seen_out = self.recipient.out_msgs
            self.session.last_activity_ns = self.server.now_ns()
        return 0

    cdef int pump(self, const char* data, Py_ssize_t size) except -1:
        """Let the session read; keep what it could not use yet. `data` is not `carry`."""
        cdef FlushQueue queue = self.recipient.queue
        cdef bint lending = size >= LEND_BURST and queue.lend(data, size)
        cdef Py_ssize_t used
        try:
            used = self.session.feed(data, size)
            if used < size and not self.ending and not self.closed:
                self.keep(data + used, size - used, self.session.need)
            elif self.carry_capacity:
                self.drop_carry()
            if lending and queue.borrowers:
                # While it is still where it was received.
                self.server.flush_all()
        finally:
            if lending:
                queue.settle()
        if self.session.suspended:
            self.stop_reading()
        return 0

    cdef int pump_carry(self) except -1:
        """`pump` from the carry buffer itself."""
        cdef char* data = self.carry
        cdef Py_ssize_t size = self.carry_size
        self.carry = NULL
        self.carry_size = self.carry_capacity = 0
        try:
            self.pump(data, size)
        finally:
            free(data)
        return 0

    cdef int keep(self, const char* data, Py_ssize_t size, Py_ssize_t need) except -1:
        """Put an unfinished operation of `need` bytes (0: not known) aside."""
        cdef Py_ssize_t capacity = max(size, need) if need > IN_PLACE else size
        cdef char* grown
        self.carry_open = capacity == size
        if self.carry_open and size > IN_PLACE:
            # A control line longer than the shared buffer has room for.
            capacity = size + BURST
        if capacity != self.carry_capacity:
            grown = <char*>realloc(self.carry, capacity)
            if grown == NULL:
                raise MemoryError
            self.carry = grown
            self.carry_capacity = capacity
        memmove(self.carry, data, size)
        self.carry_size = size
        return 0

    cdef inline bint carry_is_worth_a_look(self, Py_ssize_t size) noexcept:
        """Whether the parser can say something new of the carry once it holds `size` bytes.

        That is one byte before a large message is whole: then it shows whether it ends where it should.
        """
        return self.carry_open or size >= self.carry_capacity - 1

    cdef void drop_carry(self) noexcept:
        free(self.carry)
        self.carry = NULL
        self.carry_size = self.carry_capacity = 0

    def readable_through_filter(self, bytes data) -> None:
        """`readable` for a connection with a filter, or one whose first byte decides about that."""
        if self.on_first_bytes is not None:
            hook, self.on_first_bytes = self.on_first_bytes, None
            hook(data[0])
            if self.closed or self.ending:
                return
        if self.filter is None:
            self.take_in(data)
            return
        failure = None
        try:
            parts = self.filter.receive(data)
        except FilterError as error:
            failure = error
            parts = error.parts
        if self.on_established is not None and self.filter.established:
            # Even if the stream ends with it: what came between must meet a session that asks who is there.
            hook, self.on_established = self.on_established, None
            self.flush()
            hook()
        for part in parts:
            self.take_in(part)
            if self.closed or self.ending:
                return
        if failure is not None:
            self.server.filter_failed(self, failure)
            return
        if self.writing and self.take_filtered() and self.wire_size > self.recipient.max_pending:
            # It makes the filter answer, and does not read the answers.
            self.recipient.owner.slow_consumer()
            return
        self.flush()
        if self.recipient.congested_by is not None:
            self.hold()

    cdef int take_in(self, part) except -1:
        """`pump` for bytes that came through a filter."""
        cdef const unsigned char[::1] view = part
        cdef Py_ssize_t size = view.shape[0]
        cdef bytes joined
        if size == 0:
            return 0
        if self.carry_capacity > IN_PLACE and not self.carry_is_worth_a_look(self.carry_size + size):
            memcpy(self.carry + self.carry_size, &view[0], size)
            self.carry_size += size
            return 0
        if self.carry_size:
            joined = self.carry[:self.carry_size] + bytes(part)
            self.drop_carry()
            return self.pump(PyBytes_AS_STRING(joined), PyBytes_GET_SIZE(joined))
        return self.pump(<const char*>&view[0], size)

    def resume(self) -> None:
        """Read on: a decision has fallen, or a pause is over."""
        try:
            self.read_on()
        except Exception as error:
            self.server.connection_failed(self, error)

    cdef int read_on(self) except -1:
        self.held = False
        self.stop_waiting()
        if self.closed or self.ending or self.session.suspended:
            return 0
        if self.carry_size and self.carry_is_worth_a_look(self.carry_size):
            self.pump_carry()
            if self.closed or self.ending or self.session.suspended:
                return 0
            if self.recipient.congested_by is not None:
                self.hold()
                if self.held:
                    return 0
        self.start_reading()
        return 0

    cdef int hold(self) except -1:
        """Pause: what this client has published waits unsent in somebody's outbox, and it is much."""
        cdef Recipient other = self.recipient.congested_by
        self.recipient.congested_by = None
        if self.held or self.closed or self.ending or other.closed:
            return 0
        if other.outbox.size * 2 < CONGESTED or self.session.broker.settings.limits.no_fast_producer_stall:
            return 0
        self.held = True
        self.session.stalls += 1
        self.stop_reading()
        if other.held_back is None:
            other.held_back = {}
        other.held_back[self] = None
        self.held_by = other
        self.loop.call_later(PAUSE_S, self.release)
        return 0

    cdef int stop_waiting(self) except -1:
        """Be in nobody's `held_back` any more."""
        cdef Recipient other = self.held_by
        self.held_by = None
        if other is not None and other.held_back is not None:
            other.held_back.pop(self, None)
        return 0

    def release(self) -> None:
        if self.held:
            self.resume()

    # ---- writing ----

    def flush(self) -> None:
        """Write what waits, as far as the socket takes it."""
        cdef Outbox outbox = self.recipient.outbox
        cdef iovec vector[VECTOR_SIZE]
        cdef Py_ssize_t taken
        cdef int count
        if self.closed or self.writing:
            return
        if self.filter is not None:
            self.flush_through_filter()
        else:
            while outbox.size:
                count = outbox.gather(vector, VECTOR_SIZE)
                taken = writev(self.fd, vector, count)
                if taken < 0:
                    if c_errno == EINTR:
                        continue
                    if c_errno == EAGAIN:
                        self.wait_writable()
                        break
                    outbox.clear()
                    self.peer_gone("Write Error")
                    return
                self.written += taken
                outbox.consume(taken)
        if self.recipient.held_back is not None and outbox.size * 2 < CONGESTED:
            waiting, self.recipient.held_back = self.recipient.held_back, None
            for connection in waiting:
                connection.release()
        self.note_activity()
        if self.ending and not self.writing:
            self.close()

    def flush_through_filter(self) -> None:
        """The same, by way of the filter: fill `wire` from the outbox whenever the socket has taken all of it."""
        while not self.closed:
            if not self.wire:
                if self.on_established is None and self.recipient.outbox.size:
                    self.filter.send(self.recipient.outbox.take(FILTER_SEND))
                if not self.take_filtered():
                    return
            if not self.write_wire():
                return

    cdef bint take_filtered(self) except -1:
        """Let the filter's bytes join those that wait for the socket; tells whether there are any."""
        cdef list parts = self.filter.take()
        cdef bytes part
        if not parts:
            return False
        for part in parts:
            self.wire_size += PyBytes_GET_SIZE(part)
        if self.wire:
            # Its own answers come in many small pieces.
            self.wire.append(b"".join(parts))
        else:
            self.wire = parts
        return True

    cdef bint write_wire(self) except -1:
        """Write `wire`; False when the socket takes no more."""
        cdef iovec vector[VECTOR_SIZE]
        cdef Py_ssize_t taken, size
        cdef int count = 0
        cdef bytes part
        while self.wire:
            count = 0
            for item in self.wire[:VECTOR_SIZE]:
                part = item
                vector[count].iov_base = PyBytes_AS_STRING(part)
                vector[count].iov_len = PyBytes_GET_SIZE(part)
                count += 1
            taken = writev(self.fd, vector, count)
            if taken < 0:
                if c_errno == EINTR:
                    continue
                if c_errno == EAGAIN:
                    self.wait_writable()
                else:
                    self.drop_wire()
                    self.recipient.outbox.clear()
                    self.peer_gone("Write Error")
                return False
            self.written += taken
            self.wire_size -= taken
            count = 0
            while taken:
                part = self.wire[count]
                size = PyBytes_GET_SIZE(part)
                if taken < size:
                    self.wire[count] = part[taken:]
                    break
                taken -= size
                count += 1
            del self.wire[:count]
        return True

    cdef void drop_wire(self) noexcept:
        self.wire = None
        self.wire_size = 0

    def wait_writable(self) -> None:
        if not self.writing:
            self.writing = True
            self.loop.add_writer(self.fd, self.writable)
            self.written_then = self.written
            self.deadline = self.loop.call_later(self.server.write_deadline_s, self.check_deadline)

    def stop_writing(self) -> None:
        if self.writing:
            self.writing = False
            self.loop.remove_writer(self.fd)
            self.deadline.cancel()

    def writable(self) -> None:
        self.stop_writing()
        self.flush_alone()

    def flush_alone(self) -> None:
        """`flush` whose failure is this connection's end, and nobody else's."""
        try:
            self.flush()
        except Exception as error:
            self.server.connection_failed(self, error)

    def check_deadline(self) -> None:
        """A blocked write must make progress within the deadline."""
        if self.closed or not self.writing:
            return
        if self.written != self.written_then:
            self.written_then = self.written
            self.deadline = self.loop.call_later(self.server.write_deadline_s, self.check_deadline)
            return
        self.server.write_stuck(self)

    def set_filter(self, stage) -> None:
        """From now on, everything goes through `stage`."""
        self.filter = stage

    def end_of_stream(self):
        """What the filter makes of it that the stream ends here: a FilterError, or None."""
        return self.filter.end() if self.filter is not None else None

    # ---- the end ----

    def peer_gone(self, str reason) -> None:
        """The other side has closed or broken the connection."""
        self.server.peer_gone(self, reason)

    def session_ended(self, bint flush) -> None:
        """The session is over: write its last words if `flush`, then close."""
        if self.closed:
            return
        self.ending = True
        self.stop_reading()
        if not flush:
            self.recipient.outbox.clear()
            self.close()
            return
        if self.filter is not None:
            # Last words first, then the filter's own good-bye.
            if self.on_established is None and self.recipient.outbox.size:
                self.filter.send(self.recipient.outbox.take())
            self.filter.close(self.session.reason)
            self.take_filtered()
        if not self.closed:
            self.loop.call_later(LAST_WORDS_S, self.close)
            self.flush()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.stop_reading()
        self.stop_writing()
        os.close(self.fd)
        self.drop_carry()
        self.recipient.outbox.clear()
        self.drop_wire()
        self.filter = None
        self.on_established = self.on_first_bytes = None
        self.stop_waiting()
        if self.recipient.held_back is not None:
            waiting, self.recipient.held_back = self.recipient.held_back, None
            for connection in waiting:
                connection.release()
        self.server.connection_closed(self)
