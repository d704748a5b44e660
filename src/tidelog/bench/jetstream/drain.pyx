"""Readers of streams: pushed to, pulling, fetching with acknowledgements, and direct gets in batches.

What it promises: every message is the one that must come: its subject, its payload byte by byte, its sequence in the
stream, its number in the consumer, that it is delivered for the first time, and how many follow. Nothing is
skipped, repeated or reordered unseen. An end before the last message is asked for again, as clients do.

How it works: the messages of the stream are known, so a frame is compared piece by piece with what it must be. Requests
and acknowledgements are collected and sent once per read.

What it does not do: TLS; more than one connection; redelivery.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.bench.check cimport FINE, STOPPED, WRONG
from tidelog.bench.exchange cimport exchange_error
from tidelog.bench.jetstream.inbox cimport close_inbox, frame_t, inbox_t, open_inbox, read_number, receive
from tidelog.bench.load cimport Run, now_ns, run_t, send_all

cdef enum:
    # An inbox holds no more acknowledgements than fit here.
    OUT_SIZE = 2 * 1024 * 1024
    SEQ_DIGITS = 12
    # Sleep until so much is there, where much is to come.
    WAKE_SIZE = 32 * 1024
    FRAME_MIN = 64
    PUSHED_KIND = 0
    CONSUMED_KIND = 1
    FETCHED_KIND = 2
    GOT_KIND = 3

PUSHED = PUSHED_KIND
CONSUMED = CONSUMED_KIND
FETCHED = FETCHED_KIND
GOT = GOT_KIND


cdef class Expected:
    cdef list owned
    cdef int64_t count
    cdef int64_t size
    cdef const char** subjects
    cdef int64_t* subject_sizes
    cdef const char** payloads

    def __init__(self, subjects, payloads):
        if not payloads or len(subjects) != len(payloads) or len(set(map(len, payloads))) != 1:
            raise ValueError("as many subjects as payloads, and these of one size")
        self.owned = [*subjects, *payloads]
        self.count = len(subjects)
        self.size = len(payloads[0])
        self.subjects = <const char**>malloc(self.count * sizeof(char*))
        self.subject_sizes = <int64_t*>malloc(self.count * sizeof(int64_t))
        self.payloads = <const char**>malloc(self.count * sizeof(char*))
        if self.subjects == NULL or self.subject_sizes == NULL or self.payloads == NULL:
            raise MemoryError
        for index in range(self.count):
            self.subjects[index] = PyBytes_AS_STRING(subjects[index])
            self.subject_sizes[index] = PyBytes_GET_SIZE(subjects[index])
            self.payloads[index] = PyBytes_AS_STRING(payloads[index])

    def __dealloc__(self):
        free(self.subjects)
        free(self.subject_sizes)
        free(self.payloads)


cdef class Source:
    cdef bytes opening
    cdef bytearray request
    cdef bytes ack_head
    cdef int64_t first_seq
    cdef int64_t step
    cdef int64_t count

    def __init__(self, *, opening=b"", request=b"", ack_head=b"", first_seq=1, step=1, count):
        self.opening = opening
        self.request = bytearray(request)
        self.ack_head = ack_head
        self.first_seq = first_seq
        self.step = step
        self.count = count


cdef struct draining_t:
    run_t* run
    int fd
    int kind
    int64_t batch
    # The messages of the stream.
    int64_t lap
    const char** subjects
    int64_t* subject_sizes
    const char** payloads
    int64_t payload_size
    # The present source.
    char* request
    int64_t request_size
    const char* ack_head
    int64_t ack_head_size
    int64_t first_seq
    int64_t step
    int64_t count
    int64_t got
    # Messages asked for and not come yet.
    int64_t under_way
    int opened
    # The answer to the last acknowledgement is due (1), or has come (2).
    int confirmation
    const char* inbox
    int64_t inbox_size
    inbox_t unread
    char* out
    int64_t out_size


cdef inline void put(draining_t* draining, const char* data, int64_t size) noexcept nogil:
    memcpy(draining.out + draining.out_size, data, size)
    draining.out_size += size


cdef void ask_for_more(draining_t* draining) noexcept nogil:
    cdef int64_t value
    cdef int index
    cdef char* digits
    if draining.got == draining.count or draining.request_size == 0:
        return
    if draining.kind == GOT_KIND:
        value = draining.first_seq + draining.got * draining.step
        digits = draining.request
        # The place is the only one with so many digits or blanks: behind `"seq":`.
        while memcmp(digits, b'"seq":', 6) != 0:
            digits += 1
        digits += 6
        for index in range(SEQ_DIGITS - 1, -1, -1):
            digits[index] = c" " if value == 0 else c"0" + <char>(value % 10)
            value //= 10
    put(draining, draining.request, draining.request_size)
    # A batch of direct gets is over when its end has come.
    draining.under_way += draining.batch + (1 if draining.kind == GOT_KIND else 0)


cdef void acknowledge(draining_t* draining, const char* reply, int64_t size) noexcept nogil:
    put(draining, b"PUB ", 4)
    put(draining, reply, size)
    if draining.got == draining.count:
        put(draining, b" ", 1)
        put(draining, draining.inbox, draining.inbox_size)
        put(draining, b"confirmed", 9)
        draining.confirmation = 1
    put(draining, b" 4\r\n+ACK\r\n", 10)


cdef bint is_delivery(draining_t* draining, const char* reply, int64_t size) noexcept nogil:
    """`$JS.ACK.<stream>.<consumer>.1.<seq>.<number>.<time>.<pending>`"""
    cdef int64_t at = draining.ack_head_size
    if size <= at or memcmp(reply, draining.ack_head, at) != 0:
        return False
    if read_number(reply, &at, size) != draining.first_seq + draining.got * draining.step:
        return False
    at += 1
    if read_number(reply, &at, size) != draining.got + 1:
        return False
    at += 1
    if read_number(reply, &at, size) <= 0:
        return False
    at += 1
    return read_number(reply, &at, size) == draining.count - draining.got - 1 and at == size


cdef int64_t header_number(const char* header, int64_t size, const char* name, int64_t name_size) noexcept nogil:
    """The number behind a name (with its colon and blank); -1 if there is none."""
    cdef int64_t at = 0
    while at + name_size < size:
        if header[at] == name[0] and memcmp(header + at, name, name_size) == 0:
            at += name_size
            return read_number(header, &at, size)
        at += 1
    return -1


cdef int take_message(draining_t* draining, const char* data, frame_t* frame) noexcept nogil:
    cdef int64_t seq = draining.first_seq + draining.got * draining.step
    cdef int64_t index = (seq - 1) % draining.lap
    cdef const char* subject = data + 4
    cdef const char* header = data + frame.line_size
    cdef int64_t subject_size = draining.subject_sizes[index]
    if draining.got == draining.count or frame.total_size - frame.header_size != draining.payload_size:
        return WRONG
    if memcmp(header + frame.header_size, draining.payloads[index], draining.payload_size) != 0:
        return WRONG
    if draining.kind == GOT_KIND:
        if header_number(header, frame.header_size, b"Nats-Sequence: ", 15) != seq:
            return WRONG
    elif memcmp(subject, draining.subjects[index], subject_size) != 0 or subject[subject_size] != c" ":
        return WRONG
    elif not is_delivery(draining, data + frame.reply_at, frame.reply_size):
        return WRONG
    draining.got += 1
    draining.under_way -= 1
    if draining.kind == FETCHED_KIND:
        acknowledge(draining, data + frame.reply_at, frame.reply_size)
    return FINE


cdef int take_status(draining_t* draining, const char* data, frame_t* frame) noexcept nogil:
    """A word of the server: of life, of flow control, of the end of a request."""
    cdef const char* status = data + frame.line_size + 9
    if memcmp(status, b"100", 3) == 0:
        if frame.reply_size:
            put(draining, b"PUB ", 4)
            put(draining, data + frame.reply_at, frame.reply_size)
            put(draining, b" 0\r\n\r\n", 6)
        return FINE
    if memcmp(status, b"204", 3) == 0 or memcmp(status, b"404", 3) == 0 or memcmp(status, b"408", 3) == 0:
        if draining.kind == GOT_KIND and draining.under_way > draining.batch:
            return WRONG
        draining.under_way = 0
        return FINE
    return WRONG


cdef bint is_opening(draining_t* draining, const char* data) noexcept nogil:
    return memcmp(data + 4, draining.inbox, draining.inbox_size) == 0 and memcmp(
        data + 4 + draining.inbox_size, b"opened ", 7
    ) == 0


cdef int take_frame(void* taker, const char* data, frame_t* frame) noexcept nogil:
    cdef draining_t* draining = <draining_t*>taker
    cdef const char* body = data + frame.line_size
    if frame.header_size and memcmp(body, b"NATS/1.0 ", 9) == 0:
        return take_status(draining, data, frame)
    # What is pushed may be there before the answer to who asked for it.
    if not draining.opened and is_opening(draining, data):
        draining.opened = 1
        # An error stands at the front, behind the type.
        if frame.total_size > 200 and memcmp(body, b'{"type":"io.nats.jetstream.api.v1.consumer_create', 49) == 0:
            return WRONG if memcmp(body + 59, b',"error"', 8) == 0 else FINE
        return WRONG
    if draining.confirmation == 1 and draining.got == draining.count:
        draining.confirmation = 2
        return FINE if frame.total_size == 0 else WRONG
    return take_message(draining, data, frame)


cdef int read_some(draining_t* draining) noexcept nogil:
    cdef inbox_t* unread = &draining.unread
    cdef int64_t due = draining.count - draining.got
    if draining.request_size and draining.under_way < due:
        due = draining.under_way
    # Of a batch a half is waited for, so that the next one can be asked for in time.
    if draining.kind == CONSUMED_KIND:
        due //= 2
    due = due * (FRAME_MIN + draining.payload_size) - unread.size
    # A word about flow control waits for nothing, nor does the answer to an opening; and who waited in vain takes all.
    if draining.kind == PUSHED_KIND or not draining.opened or unread.idle:
        due = 1
    return receive(unread, min(due, <int64_t>WAKE_SIZE), take_frame, draining)


cdef int flush(draining_t* draining) noexcept nogil:
    cdef int code = send_all(draining.run, draining.fd, draining.out, draining.out_size)
    draining.out_size = 0
    return code


cdef int read_source(draining_t* draining) noexcept nogil:
    cdef int code
    while draining.got < draining.count or draining.confirmation == 1 or not draining.opened:
        if draining.opened:
            if draining.kind == CONSUMED_KIND:
                if draining.under_way <= draining.batch // 2:
                    ask_for_more(draining)
            elif draining.under_way <= 0:
                ask_for_more(draining)
        if draining.out_size:
            code = flush(draining)
            if code:
                return code
        code = read_some(draining)
        if code:
            return code
        if draining.run.stopped:
            return STOPPED
    return flush(draining)


def drain(Run run, int fd, Expected expected, list sources, int kind, int64_t batch, bytes inbox):
    cdef draining_t draining
    cdef Source source
    cdef int code = FINE
    cdef int64_t end_ns = 0
    draining.run = &run.state
    draining.fd = fd
    draining.kind = kind
    draining.batch = batch
    draining.lap = expected.count
    draining.subjects = expected.subjects
    draining.subject_sizes = expected.subject_sizes
    draining.payloads = expected.payloads
    draining.payload_size = expected.size
    draining.inbox = PyBytes_AS_STRING(inbox)
    draining.inbox_size = PyBytes_GET_SIZE(inbox)
    draining.out_size = 0
    draining.out = <char*>malloc(OUT_SIZE)
    if draining.out == NULL:
        raise MemoryError
    try:
        open_inbox(&draining.unread, draining.run, fd)
    except MemoryError:
        free(draining.out)
        raise
    for source in sources:
        begin(&draining, source)
        with nogil:
            code = read_source(&draining)
            end_ns = now_ns()
        if code:
            break
    seen = close_inbox(&draining.unread)
    free(draining.out)
    if code == WRONG:
        raise exchange_error(code, f"message {draining.got} of {draining.count} is {seen!r}")
    if code:
        raise exchange_error(code, f"reader, after {draining.got} of {draining.count}")
    return end_ns


cdef void begin(draining_t* draining, Source source):
    draining.request = <char*>source.request
    draining.request_size = len(source.request)
    draining.ack_head = PyBytes_AS_STRING(source.ack_head)
    draining.ack_head_size = PyBytes_GET_SIZE(source.ack_head)
    draining.first_seq = source.first_seq
    draining.step = source.step
    draining.count = source.count
    draining.got = draining.under_way = 0
    draining.confirmation = draining.unread.idle = 0
    draining.opened = not source.opening
    put(draining, PyBytes_AS_STRING(source.opening), PyBytes_GET_SIZE(source.opening))
