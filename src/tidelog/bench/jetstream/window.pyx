"""Requests with a window: publishing to a stream, and whatever else is answered by one message.

What it promises: every request is answered, in the order in which they were sent, each answer is looked at as a whole,
and at most `window` requests are under way. An acknowledgement must name the stream and carry the next sequence, so none
can be lost, repeated or refused unseen; a value must have the payload that was stored, byte by byte.

How it works: requests are prepared as one buffer (a lap of units); per use only the eight digits of the token are
written into them, in the reply subject and wherever else a unit asks for it. A quarter of the window is sent in one call,
and a socket counts as readable when acknowledgements for a quarter of it must be there.

What it does not do: TLS; more than one connection.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.bench.check cimport FINE, STOPPED, WRONG
from tidelog.bench.exchange cimport DIGITS, exchange_error, put_digits
from tidelog.bench.jetstream.inbox cimport close_inbox, frame_t, inbox_t, open_inbox, read_number, receive
from tidelog.bench.load cimport Run, now_ns, run_t, send_all

cdef enum:
    # No answer is smaller than this.
    REPLY_MIN = 48
    SEND_MAX = 256 * 1024
    ACK_KIND = 0
    VALUE_KIND = 1

ACK = ACK_KIND
VALUE = VALUE_KIND


cdef class Units:
    cdef bytearray data
    cdef list owned
    cdef int64_t count
    cdef int64_t* starts
    cdef int64_t* places
    cdef int64_t* place_starts
    cdef const char** values
    cdef int64_t* value_sizes

    def __init__(self, data, starts, places, values=None):
        cdef int64_t number = 0
        self.count = len(places)
        if len(starts) != self.count + 1:
            raise ValueError("one start for each unit, and the end")
        self.data = bytearray(data)
        self.owned = list(values or ())
        self.starts = <int64_t*>malloc((self.count + 1) * sizeof(int64_t))
        self.place_starts = <int64_t*>malloc((self.count + 1) * sizeof(int64_t))
        self.places = <int64_t*>malloc(max(1, sum(map(len, places))) * sizeof(int64_t))
        self.values = <const char**>malloc(self.count * sizeof(char*))
        self.value_sizes = <int64_t*>malloc(self.count * sizeof(int64_t))
        if self.starts == NULL or self.place_starts == NULL or self.places == NULL:
            raise MemoryError
        if self.values == NULL or self.value_sizes == NULL:
            raise MemoryError
        for index in range(self.count):
            self.starts[index] = starts[index]
            self.place_starts[index] = number
            for place in places[index]:
                self.places[number] = place
                number += 1
            self.values[index] = PyBytes_AS_STRING(self.owned[index]) if self.owned else NULL
            self.value_sizes[index] = PyBytes_GET_SIZE(self.owned[index]) if self.owned else 0
        self.starts[self.count] = starts[self.count]
        self.place_starts[self.count] = number

    def __dealloc__(self):
        free(self.starts)
        free(self.place_starts)
        free(self.places)
        free(self.values)
        free(self.value_sizes)


cdef struct asking_t:
    run_t* run
    int fd
    char* data
    int64_t count
    int64_t* starts
    int64_t* places
    int64_t* place_starts
    const char** values
    int64_t* value_sizes
    # The line of a reply up to its digits, and what follows them.
    const char* head
    int64_t head_size
    const char* stream
    int64_t stream_size
    int64_t each
    # The last sequence of the stream before.
    int64_t base_seq
    int64_t sent
    int64_t got
    int kind
    inbox_t unread


cdef int send_some(asking_t* asking, int64_t wanted) noexcept nogil:
    """Up to `wanted` more units, in calls of SEND_MAX at most."""
    cdef int64_t unit
    cdef int64_t first
    cdef int64_t place
    cdef int code
    while wanted:
        first = unit = asking.sent % asking.count
        while wanted and unit < asking.count and asking.starts[unit] - asking.starts[first] < SEND_MAX:
            for place in range(asking.place_starts[unit], asking.place_starts[unit + 1]):
                put_digits(asking.data + asking.places[place], asking.sent)
            asking.sent += 1
            unit += 1
            wanted -= 1
        code = send_all(
            asking.run,
            asking.fd,
            asking.data + asking.starts[first],
            asking.starts[unit] - asking.starts[first],
        )
        if code:
            return code
    return FINE


cdef bint is_ack(asking_t* asking, const char* body, int64_t size) noexcept nogil:
    """`{"stream":"S","seq":n}`, with or without a blank, and with `,"batch":"...","count":k` for a batch."""
    cdef int64_t at = asking.stream_size
    if size < at + 9 or memcmp(body, asking.stream, at) != 0 or body[at] != c",":
        return False
    at += 2 if body[at + 1] == c" " else 1
    if memcmp(body + at, b'"seq":', 6) != 0:
        return False
    at += 6
    if read_number(body, &at, size) != asking.base_seq + (asking.got + 1) * asking.each:
        return False
    if asking.each == 1:
        return at == size - 1 and body[at] == c"}"
    # The number of messages stands at the end.
    while size > at and not c"0" <= body[size - 1] <= c"9":
        size -= 1
    while at < size and memcmp(body + at, b'"count":', 8) != 0:
        at += 1
    at += 8
    return at < size and read_number(body, &at, size) == asking.each


cdef bint is_answer(asking_t* asking, const char* data, frame_t* frame) noexcept nogil:
    cdef char digits[DIGITS]
    cdef int64_t unit = asking.got % asking.count
    cdef int64_t size = frame.total_size - frame.header_size
    cdef const char* body = data + frame.line_size + frame.header_size
    cdef int64_t skipped = 1 if data[0] == c"H" else 0
    put_digits(digits, asking.got)
    if frame.line_size < asking.head_size + skipped + DIGITS:
        return False
    if memcmp(data + skipped, asking.head, asking.head_size) != 0:
        return False
    if memcmp(data + skipped + asking.head_size, digits, DIGITS) != 0:
        return False
    if asking.kind == ACK_KIND:
        return frame.header_size == 0 and is_ack(asking, body, size)
    if frame.header_size and memcmp(data + frame.line_size, b"NATS/1.0\r\n", 10) != 0:
        return False
    return size == asking.value_sizes[unit] and memcmp(body, asking.values[unit], size) == 0


cdef int take_reply(void* taker, const char* data, frame_t* frame) noexcept nogil:
    cdef asking_t* asking = <asking_t*>taker
    if asking.got == asking.sent or not is_answer(asking, data, frame):
        return WRONG
    asking.got += 1
    return FINE


cdef int work(asking_t* asking, int64_t count, int64_t window) noexcept nogil:
    cdef inbox_t* unread = &asking.unread
    cdef int64_t piece = max(1, window // 4)
    cdef int64_t free_count
    cdef int64_t under_way
    cdef int64_t mark
    cdef int code
    while asking.got < count:
        free_count = min(window - (asking.sent - asking.got), count - asking.sent)
        if free_count >= piece or (free_count and free_count == count - asking.sent):
            code = send_some(asking, free_count)
            if code:
                return code
        under_way = asking.sent - asking.got
        mark = 1 if under_way <= piece or unread.idle else piece * REPLY_MIN - unread.size
        code = receive(unread, mark, take_reply, asking)
        if code:
            return code
        if asking.run.stopped:
            return STOPPED
    return FINE


def ask(
    Run run,
    int fd,
    Units units,
    bytes inbox,
    int64_t count,
    int64_t window,
    int kind,
    bytes stream=b"",
    int64_t each=1,
    int64_t base_seq=0,
):
    cdef asking_t asking
    cdef bytes head = b"MSG " + inbox
    cdef bytes opening = b'{"stream":"%b"' % stream
    cdef int code
    cdef int64_t end_ns
    asking.run = &run.state
    asking.fd = fd
    asking.data = <char*>units.data
    asking.count = units.count
    asking.starts = units.starts
    asking.places = units.places
    asking.place_starts = units.place_starts
    asking.values = units.values
    asking.value_sizes = units.value_sizes
    asking.head = PyBytes_AS_STRING(head)
    asking.head_size = PyBytes_GET_SIZE(head)
    asking.stream = PyBytes_AS_STRING(opening)
    asking.stream_size = PyBytes_GET_SIZE(opening)
    asking.each = each
    asking.base_seq = base_seq
    asking.kind = kind
    asking.sent = asking.got = 0
    open_inbox(&asking.unread, asking.run, fd)
    with nogil:
        code = work(&asking, count, window)
        end_ns = now_ns()
    seen = close_inbox(&asking.unread)
    if code == WRONG:
        raise exchange_error(code, f"answer {asking.got} of {count} is {seen!r}")
    if code:
        raise exchange_error(code, "requester")
    return end_ns
