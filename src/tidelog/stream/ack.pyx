"""What stands in an acknowledgement, read where it lies.

The subject is the one that was delivered as the reply, `$JS.ACK.<stream>.<consumer>.<count>.<seq>.<dseq>.<ts>.<pending>`,
or the longer form with a domain and the hash of an account in front of the stream. The body says what it is:

    (nothing), +ACK, +OK     done
    -NAK [delay]             deliver it again: at once, or after `{"delay": ns}` or a duration such as `5s`
    +WPI                     work is going on: count the time anew
    +NXT [request]           done, and a request for more
    +TERM [reason]           never deliver it again

What it does not do: know consumers.
"""

from libc.string cimport memchr, memcmp

import msgspec

from tidelog.base.duration import parse_duration_ns

cdef enum:
    TOKENS = 9
    TOKENS_LONG = 11       # of the form with a domain; more may follow


cdef int64_t number_of(const char* text, Py_ssize_t size) noexcept nogil:
    """-1: no number."""
    cdef int64_t number = 0
    cdef Py_ssize_t i
    if size == 0 or size > 19:
        return -1
    for i in range(size):
        if text[i] < 48 or text[i] > 57:
            return -1
        number = number * 10 + (text[i] - 48)
    return number


cdef bint read_ack_subject(const char* subject, Py_ssize_t size, AckSubject* into) noexcept nogil:
    """False: this is no subject of an acknowledgement."""
    cdef const char* starts[TOKENS_LONG + 1]
    cdef const char* end = subject + size
    cdef const char* at = subject
    cdef const char* dot
    cdef int tokens = 0, first
    while tokens <= TOKENS_LONG:
        starts[tokens] = at
        tokens += 1
        dot = <const char*>memchr(at, c".", end - at)
        if dot == NULL:
            break
        at = dot + 1
    if tokens == TOKENS:
        first = 2
    elif tokens >= TOKENS_LONG:
        first = 4
    else:
        return False
    into.key = starts[first]
    into.key_size = starts[first + 2] - 1 - starts[first]
    into.count = number_of(starts[first + 2], starts[first + 3] - 1 - starts[first + 2])
    into.seq = number_of(starts[first + 3], starts[first + 4] - 1 - starts[first + 3])
    into.dseq = number_of(starts[first + 4], starts[first + 5] - 1 - starts[first + 4])
    return True


cdef inline bint begins(const char* body, Py_ssize_t size, const char* word, Py_ssize_t word_size) noexcept nogil:
    return size >= word_size and memcmp(body, word, word_size) == 0


cdef AckKind ack_kind(const char* body, Py_ssize_t size) noexcept nogil:
    if size == 0:
        return ACK
    if body[0] == c"+":
        if (size == 4 and begins(body, size, b"+ACK", 4)) or (size == 3 and begins(body, size, b"+OK", 3)):
            return ACK
        if begins(body, size, b"+NXT", 4):
            return NEXT
        if size == 4 and begins(body, size, b"+WPI", 4):
            return PROGRESS
        if begins(body, size, b"+TERM", 5):
            return TERM
    elif begins(body, size, b"-NAK", 4):
        return NAK
    return OTHER


class NakDelay(msgspec.Struct):
    delay: int = 0


def nak_delay_ns(body: bytes) -> int | None:
    """How long a `-NAK` asks to wait; 0: not at all. None: what it asks cannot be read."""
    text = body[4:].strip()
    if not text:
        return 0
    try:
        if text[:1] == b"{":
            return msgspec.json.decode(text, type=NakDelay).delay
        return parse_duration_ns(text.decode())
    except (msgspec.MsgspecError, ValueError):
        return None


def parse(bytes subject not None):
    """`(key, count, seq, dseq)` of an acknowledgement's subject, or None. For tests."""
    cdef AckSubject found
    if not read_ack_subject(subject, len(subject), &found):
        return None
    return found.key[:found.key_size], found.count, found.seq, found.dseq


def kind(bytes body not None) -> str:
    """The name of a body's kind. For tests."""
    return ("ack", "nak", "progress", "next", "term", "other")[<int>ack_kind(body, len(body))]
