"""Compares what a subscriber receives, byte by byte, with what it must receive.

What it is: the expected stream of one connection. Every publisher sends the same buffer of messages over
and over (a lap), so what the subscriber gets from that publisher is one known byte string, repeated: the
MSG frames of a lap.

What it promises: a stream passes only if every message of every publisher came, once, unaltered and in that
publisher's order, in frames that are exact to the byte. Any split of the stream over reads gives the same
answer. The cost is that of memcmp, so a subscriber outruns any server.

How it works: bytes are compared with the current publisher's expected ones until they differ. They may
differ in two places only. At the first byte of a frame: then a control line (PING, PONG, INFO or -ERR) was
put between the frames. At the publisher's letter, which opens each payload behind a header that all
publishers share: then the frame is another publisher's, and comparing goes on in that one's stream.
Anything else is wrong.

What it does not do: it knows nothing of sockets or time, and cannot check subscriptions whose relative
order the server is free to choose; give those to different connections.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from tidelog.base import errors
from tidelog.bench.fault import Stopped, WrongDelivery

cdef enum:
    BLOCK = 512  # a difference is looked for bytewise within one block of this size


cdef inline int64_t common_prefix(const char* a, const char* b, int64_t size) noexcept nogil:
    cdef int64_t at = 0
    cdef int64_t end
    if memcmp(a, b, size) == 0:
        return size
    while at + BLOCK <= size and memcmp(a + at, b + at, BLOCK) == 0:
        at += BLOCK
    end = size
    while at < end and a[at] == b[at]:
        at += 1
    return at


cdef inline int64_t offset_in_frame(cycle_t* cycle) noexcept nogil:
    cdef int64_t low = 0
    cdef int64_t high = cycle.frames
    cdef int64_t middle
    while high - low > 1:
        middle = (low + high) >> 1
        if cycle.starts[middle] <= cycle.at:
            low = middle
        else:
            high = middle
    return cycle.at - cycle.starts[low]


cdef int end_line(check_t* check) noexcept nogil:
    cdef const char* line = check.line
    check.in_line = 0
    if check.line_size >= 4:
        if memcmp(line, b"PING", 4) == 0:
            check.pings_due += 1
            return FINE
        if memcmp(line, b"PONG", 4) == 0:
            check.pongs += 1
            return FINE
        if memcmp(line, b"INFO", 4) == 0:
            return FINE
        if memcmp(line, b"-ERR", 4) == 0:
            return REFUSED
    return UNKNOWN_LINE


cdef inline int64_t take_line(check_t* check, const char* data, int64_t at, int64_t size) noexcept nogil:
    """Collect a control line up to its line feed; the result is the position behind what was taken."""
    cdef char byte
    while at < size:
        byte = data[at]
        at += 1
        if byte == b"\n":
            check.in_line = 2  # complete
            break
        if check.line_size < LINE_KEPT:
            check.line[check.line_size] = byte
            check.line_size += 1
    return at


cdef int next_open(check_t* check) noexcept nogil:
    cdef int index
    for index in range(check.publishers):
        if check.cycles[index].left > 0:
            return index
    return -1


cdef int check_feed(check_t* check, const char* data, int64_t size) noexcept nogil:
    cdef int64_t at = 0
    cdef int64_t room
    cdef int64_t same
    cdef int64_t offset
    cdef int other
    cdef int code
    cdef cycle_t* cycle
    cdef cycle_t* turn
    while at < size:
        if check.in_line:
            at = take_line(check, data, at, size)
            if check.in_line == 2:
                code = end_line(check)
                if code:
                    return code
            continue
        cycle = &check.cycles[check.current]
        if cycle.left == 0:
            other = next_open(check)
            if other >= 0:
                check.current = other
                cycle = &check.cycles[other]
        room = min(size - at, cycle.size - cycle.at, cycle.left)
        same = common_prefix(data + at, cycle.data + cycle.at, room) if room else 0
        cycle.at += same
        cycle.left -= same
        check.left -= same
        at += same
        if cycle.at == cycle.size:
            cycle.at = 0
        if same == room and room:
            continue
        offset = offset_in_frame(cycle)
        if offset == 0 and data[at] != b"M" and data[at] != b"H":
            check.in_line = 1
            check.line_size = 0
            continue
        if room == 0:
            return EXCESS
        if offset != check.mark_at:
            return WRONG
        other = data[at] - c"A"
        if other < 0 or other >= check.publishers or check.cycles[other].left < offset + 1:
            return WRONG
        # Every stream but the current one stands at the start of a frame.
        turn = &check.cycles[other]
        cycle.at -= offset
        cycle.left += offset
        turn.at += offset
        turn.left -= offset
        check.current = other
    return FINE


cdef object check_error(check_t* check, int code):
    """The exception for a verdict of `check_feed`."""
    cdef cycle_t* cycle = &check.cycles[check.current]
    line = check.line[:check.line_size].decode("utf-8", "replace")
    if code == REFUSED:
        return errors.ServerError(line)
    if code == UNKNOWN_LINE:
        return WrongDelivery(f"unexpected line {line[:80]!r}")
    if code == EXCESS:
        return WrongDelivery("more messages than were published")
    if code == STOPPED:
        return Stopped("another worker failed")
    if code == LATE:
        return errors.Timeout(f"{check.left} bytes of messages did not come in time")
    if code == CLOSED:
        return errors.Disconnected(f"the server closed the connection, {check.left} bytes of messages short")
    expected = cycle.data[cycle.at:min(cycle.at + 40, cycle.size)]
    return WrongDelivery(
        f"wrong byte from publisher {check.current}, {cycle.left} bytes before its end: not {expected!r}"
    )


cdef class Check:
    def __init__(self, cycles, *, laps, mark_at=-1):
        """`cycles`: for each publisher its lap as received and the positions at which the frames begin."""
        if not 0 < len(cycles) <= PUBLISHERS_MAX:
            raise ValueError(f"1 to {PUBLISHERS_MAX} publishers, not {len(cycles)}")
        cdef cycle_t* cycle
        cdef int64_t position
        memset(&self.state, 0, sizeof(check_t))
        self.owned = []
        self.state.mark_at = mark_at if len(cycles) > 1 else -1
        for number, (data, starts) in enumerate(cycles):
            cycle = &self.state.cycles[number]
            cycle.data = PyBytes_AS_STRING(data)
            cycle.size = PyBytes_GET_SIZE(data)
            cycle.frames = len(starts)
            cycle.starts = <int64_t*>calloc(max(1, len(starts)), sizeof(int64_t))
            if cycle.starts == NULL:
                raise MemoryError
            self.state.publishers += 1
            for index, position in enumerate(starts):
                cycle.starts[index] = position
            cycle.left = cycle.size * <int64_t>laps
            self.state.left += cycle.left
            self.owned.append(data)

    def __dealloc__(self):
        for index in range(self.state.publishers):
            free(self.state.cycles[index].starts)

    @property
    def left(self):
        return self.state.left

    @property
    def pongs(self):
        return self.state.pongs

    def take_pings(self):
        count = self.state.pings_due
        self.state.pings_due = 0
        return count

    def feed(self, const unsigned char[::1] data):
        cdef int code
        if data.shape[0] == 0:
            return
        with nogil:
            code = check_feed(&self.state, <const char*>&data[0], data.shape[0])
        if code:
            raise check_error(&self.state, code)
