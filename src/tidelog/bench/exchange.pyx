"""Request and reply: requesters that wait for each answer, and a responder that sends back what it got.

What it promises: each requester has one request under way at a time; every reply is compared in full
(inbox, size, payload) with the one that must come; every latency is kept. The token at the end of the inbox
and the first bytes of the payload change with each request, as with real clients, so no two requests or
replies are alike.

How it works: request, reply and delivered request are prepared once; per exchange only the eight digits of
the token are written into them. A single requester blocks in recv; several share one thread and a poll, so
that on a small machine they cost few wake-ups.

What it does not do: TLS, headers, time-outs of single requests (the run's deadline bounds the whole).
"""

from libc.errno cimport EAGAIN, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memmove

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base import errors
from tidelog.bench.fault import WrongDelivery

from tidelog.bench.check cimport CLOSED, FINE, REFUSED, STOPPED, SYSTEM, UNKNOWN_LINE, WRONG
from tidelog.bench.load cimport Run, now_ns, run_t, send_all, system_error, waiting

cdef extern from "<poll.h>" nogil:
    cdef struct pollfd:
        int fd
        short events
        short revents
    enum: POLLIN
    int poll(pollfd* fds, unsigned long count, int timeout_ms)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT
    ssize_t recv(int fd, void* data, size_t size, int flags)

cdef enum:
    BUFFER_SIZE = 64 * 1024
    TICK_MS = 100
    REQUESTERS_MAX = 64
    LINE_MAX = 32 * 1024

cdef struct inbox_t:
    char* data
    int64_t size

cdef struct requester_t:
    int fd
    char* request
    char* reply
    int64_t token
    int64_t left
    int64_t sent_ns
    inbox_t unread

cdef struct shape_t:
    int64_t request_size
    int64_t request_token_at
    int64_t request_body_at
    int64_t reply_size
    int64_t reply_token_at
    int64_t reply_body_at


cdef void put_digits(char* to, int64_t value) noexcept nogil:
    cdef int index
    for index in range(DIGITS - 1, -1, -1):
        to[index] = c"0" + <char>(value % 10)
        value //= 10


cdef int64_t skip_line(run_t* run, int fd, const char* data, int64_t size) noexcept nogil:
    """The size of the control line at the front: 0 if it is not whole, a verdict below 0 if it is wrong.

    A PING is answered.
    """
    cdef const char* end = <const char*>memchr(data, c"\n", size)
    if end == NULL:
        return 0 if size < LINE_MAX else -<int64_t>UNKNOWN_LINE
    if memcmp(data, b"-ERR", 4) == 0:
        return -<int64_t>REFUSED
    if memcmp(data, b"PING", 4) == 0:
        return end - data + 1 if send_all(run, fd, b"PONG\r\n", 6) == FINE else -<int64_t>CLOSED
    if memcmp(data, b"INFO", 4) == 0:
        return end - data + 1
    return -<int64_t>UNKNOWN_LINE


cdef int ask(run_t* run, requester_t* one, shape_t* shape) noexcept nogil:
    put_digits(one.request + shape.request_token_at, one.token)
    put_digits(one.request + shape.request_body_at, one.token)
    put_digits(one.reply + shape.reply_token_at, one.token)
    put_digits(one.reply + shape.reply_body_at, one.token)
    one.token += 1
    one.sent_ns = now_ns()
    return send_all(run, one.fd, one.request, shape.request_size)


cdef int take_reply(
    run_t* run, requester_t* one, shape_t* shape, int flags, int64_t* latency_ns
) noexcept nogil:
    """One read; `latency_ns` stays 0 unless it completed the reply."""
    cdef int64_t line_size
    cdef ssize_t size
    size = recv(one.fd, one.unread.data + one.unread.size, BUFFER_SIZE - one.unread.size, flags)
    if size == 0:
        return CLOSED
    if size < 0:
        return waiting(run, errno)
    one.unread.size += size
    while one.unread.size and one.unread.data[0] != c"M":
        line_size = skip_line(run, one.fd, one.unread.data, one.unread.size)
        if line_size <= 0:
            return <int>-line_size
        one.unread.size -= line_size
        memmove(one.unread.data, one.unread.data + line_size, one.unread.size)
    if one.unread.size < shape.reply_size:
        return FINE
    latency_ns[0] = now_ns() - one.sent_ns
    if memcmp(one.unread.data, one.reply, shape.reply_size) != 0:
        return WRONG
    one.unread.size -= shape.reply_size
    if one.unread.size:
        memmove(one.unread.data, one.unread.data + shape.reply_size, one.unread.size)
    one.left -= 1
    return FINE


cdef int request_one(run_t* run, requester_t* one, shape_t* shape, int64_t* samples) noexcept nogil:
    cdef int code
    cdef int64_t latency_ns
    cdef int64_t taken = 0
    while one.left:
        code = ask(run, one, shape)
        latency_ns = 0
        while code == FINE and latency_ns == 0:
            code = take_reply(run, one, shape, 0, &latency_ns)
        if code:
            return code
        if run.stopped:
            return STOPPED
        samples[taken] = latency_ns
        taken += 1
    return FINE


cdef int request_many(
    run_t* run, requester_t* all_of_them, int count, shape_t* shape, int64_t* samples
) noexcept nogil:
    cdef pollfd entries[REQUESTERS_MAX]
    cdef int index
    cdef int ready
    cdef int code
    cdef int64_t latency_ns
    cdef int64_t taken = 0
    cdef int open_count = count
    for index in range(count):
        entries[index].fd = all_of_them[index].fd
        entries[index].events = POLLIN
        code = ask(run, &all_of_them[index], shape)
        if code:
            return code
    while open_count:
        ready = poll(entries, count, TICK_MS)
        if ready <= 0 or run.stopped:
            code = waiting(run, EAGAIN if ready >= 0 else errno)
            if code:
                return code
            continue
        for index in range(count):
            if entries[index].fd < 0 or not entries[index].revents:
                continue
            latency_ns = 0
            code = take_reply(run, &all_of_them[index], shape, MSG_DONTWAIT, &latency_ns)
            if code:
                return code
            if latency_ns == 0:
                continue
            samples[taken] = latency_ns
            taken += 1
            if all_of_them[index].left:
                code = ask(run, &all_of_them[index], shape)
                if code:
                    return code
            else:
                entries[index].fd = -1
                open_count -= 1
    return FINE


cdef object exchange_error(int code, who):
    if code == WRONG:
        return WrongDelivery(f"{who}: other bytes arrived than were sent")
    if code == UNKNOWN_LINE:
        return WrongDelivery(f"{who}: unexpected line")
    if code == REFUSED:
        return errors.ServerError(f"{who}: -ERR")
    return system_error(code)


def request(Run run, list fds, list pairs, shape, int64_t each, int64_t[::1] samples):
    cdef int count = len(fds)
    cdef shape_t form
    cdef requester_t* requesters
    cdef int code
    cdef int index
    cdef int64_t end_ns
    if not 0 < count <= REQUESTERS_MAX or len(pairs) != count:
        raise ValueError(f"1 to {REQUESTERS_MAX} requesters, each with its request and reply")
    if samples.shape[0] != each * count:
        raise ValueError("one sample per request")
    form.request_token_at, form.request_body_at, form.reply_token_at, form.reply_body_at = shape
    form.request_size = len(pairs[0][0])
    form.reply_size = len(pairs[0][1])
    requesters = <requester_t*>calloc(count, sizeof(requester_t))
    # The loops write into the frames, so each requester gets copies of its own.
    cdef list owned = [(bytearray(ask), bytearray(reply), bytearray(BUFFER_SIZE)) for ask, reply in pairs]
    for index in range(count):
        requesters[index].fd = fds[index]
        requesters[index].request = <char*>owned[index][0]
        requesters[index].reply = <char*>owned[index][1]
        requesters[index].unread.data = <char*>owned[index][2]
        requesters[index].left = each
    with nogil:
        if count == 1:
            code = request_one(&run.state, requesters, &form, &samples[0])
        else:
            code = request_many(&run.state, requesters, count, &form, &samples[0])
        end_ns = now_ns()
    free(requesters)
    if code:
        raise exchange_error(code, "requester")
    return end_ns


cdef struct echo_t:
    const char* head  # of a delivered request, up to its reply subject
    int64_t head_size
    const char* size_text  # ` <size>\r\n`
    int64_t size_text_size
    int64_t inbox_size
    int64_t body_size  # with its CRLF
    int64_t frame_size


cdef int64_t answer(echo_t* echo, const char* frame, char* out) noexcept nogil:
    """Write the reply to one delivered request; the result is its size, or -1 if the frame is wrong."""
    cdef const char* inbox = frame + echo.head_size
    cdef const char* tail = inbox + echo.inbox_size
    cdef int64_t tail_size = echo.size_text_size + echo.body_size
    if memcmp(frame, echo.head, echo.head_size) != 0:
        return -1
    if memcmp(tail, echo.size_text, echo.size_text_size) != 0:
        return -1
    if frame[echo.frame_size - 2] != c"\r" or frame[echo.frame_size - 1] != c"\n":
        return -1
    memcpy(out, b"PUB ", 4)
    memcpy(out + 4, inbox, echo.inbox_size)
    memcpy(out + 4 + echo.inbox_size, tail, tail_size)
    return 4 + echo.inbox_size + tail_size


cdef int serve(run_t* run, int fd, echo_t* echo, int64_t count, inbox_t* unread, char* out) noexcept nogil:
    cdef int code
    cdef int64_t at
    cdef int64_t line_size
    cdef int64_t out_size
    cdef int64_t written
    cdef ssize_t size
    while count:
        size = recv(fd, unread.data + unread.size, BUFFER_SIZE - unread.size, 0)
        if size == 0:
            return CLOSED
        if size < 0 or run.stopped:
            code = waiting(run, EAGAIN if size >= 0 else errno)
            if code:
                return code
            continue
        unread.size += size
        at = 0
        out_size = 0
        while unread.size - at >= (echo.frame_size if unread.data[at] == c"M" else 1):
            if unread.data[at] == c"M":
                written = answer(echo, unread.data + at, out + out_size)
                if written < 0 or count == 0:
                    return WRONG
                out_size += written
                at += echo.frame_size
                count -= 1
                continue
            line_size = skip_line(run, fd, unread.data + at, unread.size - at)
            if line_size < 0:
                return <int>-line_size
            if line_size == 0:
                break
            at += line_size
        unread.size -= at
        if unread.size:
            memmove(unread.data, unread.data + at, unread.size)
        if out_size:
            code = send_all(run, fd, out, out_size)
            if code:
                return code
    return FINE


def respond(Run run, int fd, bytes head, int64_t inbox_size, int64_t body_size, int64_t count):
    cdef bytes size_text = b" %d\r\n" % body_size
    cdef echo_t echo
    cdef inbox_t unread
    cdef int code
    cdef int64_t end_ns
    cdef char* out = <char*>malloc(BUFFER_SIZE)
    unread.data = <char*>malloc(BUFFER_SIZE)
    unread.size = 0
    if out == NULL or unread.data == NULL:
        free(out)
        free(unread.data)
        raise MemoryError
    echo.head = PyBytes_AS_STRING(head)
    echo.head_size = PyBytes_GET_SIZE(head)
    echo.size_text = PyBytes_AS_STRING(size_text)
    echo.size_text_size = PyBytes_GET_SIZE(size_text)
    echo.inbox_size = inbox_size
    echo.body_size = body_size + 2
    echo.frame_size = echo.head_size + inbox_size + echo.size_text_size + echo.body_size
    with nogil:
        code = serve(&run.state, fd, &echo, count, &unread, out)
        end_ns = now_ns()
    free(out)
    free(unread.data)
    if code:
        raise exchange_error(code, "responder")
    return end_ns
