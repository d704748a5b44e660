"""The NATS parser: bytes in place to operations, for both roles, without I/O and without copying.

What it promises
  * `parse(operations, data, size)` reads whole operations from the front of `data` and tells `operations` of each,
    in order. It returns how many bytes it used; the rest is the beginning of an unfinished operation, which the caller
    gives again, from its first byte, with more behind it. So the parser has no state, and any chunking of a stream
    parses as the whole (tests/property/test_parser.py).
  * `operations.need` is then the size of the unfinished operation as far as its control line tells (0: not known yet),
    so that a caller can wait for a large payload without parsing it again and again.
  * Errors come as soon as the byte that makes them: an unknown verb at its first wrong byte, an oversized control line
    when it has grown too long, an oversized payload at its control line, a wrong trailer at its first byte (which is
    the last but one of `need`).
  * An unfinished control line is bounded: its arguments and the blanks before them by `max_control_line` each.

How it works
  A verb is matched byte by byte, case-insensitively. The arguments of PUB, HPUB, MSG and HMSG are cut in one pass up to
  the line feed. What a delivery repeats (reply, sizes, payload) is handed on as one slice, `Message.tail`, when the
  sender wrote it canonically (single spaces, CRLF), and is put together in a scratch buffer when not.

What it does not do: check subjects, know connections, or decide what an operation means.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcmp, memcpy
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from tidelog.base.errors import ProtocolError

# What has more digits is no size, as the peer reads it.
cdef Py_ssize_t MAX_SIZE_DIGITS = 9
cdef int MAX_ARGUMENTS = 5
cdef Py_ssize_t SHORTEST_PUBLISH = 10  # `PUB a 0` and two line ends

PARSE_ERROR = "Unknown Protocol Operation"
PROTOCOL_VIOLATION = "Protocol Violation"


cdef class Operations:
    def __cinit__(self, *args, **kwargs):
        self.max_control_line = 4096
        self.max_payload = 1024 * 1024
        self.headers = True
        self.scratch = NULL

    def __dealloc__(self):
        PyMem_Free(self.scratch)

    cdef int on_first_byte(self, char byte) except -1:
        """Called with the first byte of each operation other than CONNECT, before anything else, while `shy`.

        Whoever stops the parser here keeps the operation from being read at all.
        """
        return 0

    cdef int on_publish(self, Message* message) except -1:
        return 0

    cdef int on_line(self, Verb verb, const char* argument, Py_ssize_t size) except -1:
        return 0

    cdef int on_oversize(self, Py_ssize_t size) except -1:
        """A payload of `size` is over `max_payload`. Must raise."""
        raise ProtocolError("Maximum Payload Violation", "Maximum Message Payload Exceeded")


cdef struct Slice:
    const char* start
    Py_ssize_t size


cdef int fail_unknown(const char* data, Py_ssize_t size) except -1:
    # Not what follows a brace: a misspelt CONNECT has secrets there, and this goes to the log.
    cdef bytes shown = data[:min(size, 32)].partition(b"{")[0]
    raise ProtocolError(PARSE_ERROR, PROTOCOL_VIOLATION, f"parser error at {shown!r}")


cdef int fail_arguments(str verb, const char* argument, Py_ssize_t size) except -1:
    """Arguments that make no sense close the connection without a word, as clients know it."""
    raise ProtocolError("", PROTOCOL_VIOLATION, f"{verb} parse error: {bytes(argument[:min(size, 128)])!r}")


cdef int fail_control_line() except -1:
    raise ProtocolError(
        "maximum control line exceeded", "Maximum Control Line Exceeded", "maximum control line exceeded"
    )


cdef inline const char* skip_blanks(Operations operations, const char* p, const char* end) except NULL:
    """The first byte of the arguments, or `end`."""
    cdef const char* start = p
    while p < end and (p[0] == 32 or p[0] == 9):
        p += 1
    if p - start > operations.max_control_line:
        fail_control_line()
    return p


cdef inline Py_ssize_t find_line_feed(Operations operations, const char* line, const char* end) except -2:
    """How far the arguments reach, CR included; -1: more bytes are needed. Too many of them raise."""
    cdef const char* newline = <const char*>memchr(line, 10, end - line)
    cdef Py_ssize_t size = (newline if newline != NULL else end) - line
    # One more byte may be the CR that ends the line.
    if size > operations.max_control_line and not (
        size == operations.max_control_line + 1 and line[size - 1] == 13
    ):
        fail_control_line()
    return size if newline != NULL else -1


cdef inline char lower(char byte) noexcept:
    return byte | 0x20 if 65 <= byte <= 90 else byte


cdef inline Py_ssize_t match_word(const char* data, Py_ssize_t size, const char* word, Py_ssize_t word_size) except -2:
    """Match `word` (lower case) at the front. 1: whole word seen; 0: more bytes needed. A wrong byte raises."""
    cdef Py_ssize_t i
    for i in range(min(size, word_size)):
        if lower(data[i]) != word[i]:
            fail_unknown(data, size)
    return 1 if size >= word_size else 0


cdef inline Py_ssize_t parse_size(const char* text, Py_ssize_t size) noexcept:
    """A decimal number, or -1."""
    cdef Py_ssize_t value = 0, i
    if size == 0 or size > MAX_SIZE_DIGITS:
        return -1
    for i in range(size):
        if text[i] < 48 or text[i] > 57:
            return -1
        value = value * 10 + (text[i] - 48)
    return value


cdef int split(const char* line, Py_ssize_t size, Slice* words) noexcept:
    """Cut at spaces and tabs. Returns the number of words, MAX_ARGUMENTS + 1 when there are more."""
    cdef int count = 0
    cdef const char* p = line
    cdef const char* end = line + size
    while p < end:
        while p < end and (p[0] == 32 or p[0] == 9):
            p += 1
        if p == end:
            break
        if count == MAX_ARGUMENTS:
            return count + 1
        words[count].start = p
        while p < end and p[0] != 32 and p[0] != 9:
            p += 1
        words[count].size = p - words[count].start
        count += 1
    return count


cdef int grow_scratch(Operations operations, Py_ssize_t size) except -1:
    if operations.scratch_size < size:
        operations.scratch = <char*>PyMem_Realloc(operations.scratch, size)
        if operations.scratch == NULL:
            operations.scratch_size = 0
            raise MemoryError
        operations.scratch_size = size
    return 0


cdef int write_canonical_tail(Operations operations, Message* message, Slice* words, int first, int count) except -1:
    """Put `words[first:count]`, CRLF, body and CRLF together in the scratch buffer."""
    cdef Py_ssize_t size = message.body_size + 4
    cdef int i
    for i in range(first, count):
        size += words[i].size + 1
    grow_scratch(operations, size)
    cdef char* out = operations.scratch
    for i in range(first, count):
        if i > first:
            out[0] = 32
            out += 1
        memcpy(out, words[i].start, words[i].size)
        out += words[i].size
    memcpy(out, b"\r\n", 2)
    memcpy(out + 2, message.body, message.body_size)
    memcpy(out + 2 + message.body_size, b"\r\n", 2)
    message.tail = operations.scratch
    message.tail_size = out + 4 + message.body_size - operations.scratch
    return 0


cdef Py_ssize_t parse_message(
    Operations operations, const char* data, Py_ssize_t size, Py_ssize_t skip, bint has_header
) except -1:
    """PUB, HPUB, MSG, HMSG from their verb (of `skip` bytes) on. Returns the bytes used, 0 when more are needed."""
    cdef const char* end = data + size
    cdef const char* p = data + skip
    cdef const char* line
    cdef const char* newline
    cdef Py_ssize_t line_size, used
    cdef Slice words[6]
    cdef Message message
    cdef int count, sizes = 2 if has_header else 1, names
    cdef bint canonical

    if p < end and p[0] != 32 and p[0] != 9:
        fail_unknown(data, size)
    line = skip_blanks(operations, p, end)
    line_size = find_line_feed(operations, line, end)
    if line_size < 0:
        return 0
    newline = line + line_size
    canonical = line_size > 0 and (newline - 1)[0] == 13
    if canonical:
        line_size -= 1

    if has_header and not operations.headers:
        raise ProtocolError("", "Message Header Violation", "message headers not supported")

    # `subject [reply] [header size] size`; servers put a sid behind the subject.
    count = split(line, line_size, words)
    names = 2 if operations.client_role else 1
    if count != names + sizes and count != names + 1 + sizes:
        fail_arguments("message", line, line_size)
    message.subject = words[0].start
    message.subject_size = words[0].size
    message.sid = NULL
    message.sid_size = 0
    if operations.client_role:
        message.sid = words[1].start
        message.sid_size = words[1].size
    message.reply = NULL
    message.reply_size = 0
    if count == names + 1 + sizes:
        message.reply = words[names].start
        message.reply_size = words[names].size
    message.has_header = has_header
    message.is_hinted = False
    message.body_size = parse_size(words[count - 1].start, words[count - 1].size)
    message.header_size = parse_size(words[count - 2].start, words[count - 2].size) if has_header else 0
    if message.body_size < 0 or message.header_size < 0 or message.header_size > message.body_size:
        fail_arguments("message size", line, line_size)
    if 0 <= operations.max_payload < message.body_size:
        operations.on_oversize(message.body_size)

    message.body = newline + 1
    used = newline + 1 - data + message.body_size + 2
    if used > size:
        operations.need = used
        # A wrong trailer is told as soon as it is there.
        if used - 1 <= size and data[used - 2] != 13:
            fail_unknown(data + used - 2, 1)
        return 0
    if data[used - 2] != 13 or data[used - 1] != 10:
        fail_unknown(data + used - 2, 2)

    message.tail = words[names].start
    if has_header and message.header_size == 0:
        # An empty header block is delivered as none at all: without its size.
        message.has_header = False
        words[count - 2] = words[count - 1]
        write_canonical_tail(operations, &message, words, names, count - 1)
    elif (
        canonical
        and line + line_size == words[count - 1].start + words[count - 1].size
        and single_spaced(words, names, count - 1)
    ):
        message.tail_size = data + used - message.tail
    else:
        write_canonical_tail(operations, &message, words, names, count)
    operations.on_publish(&message)
    return used


cdef Py_ssize_t parse_plain_publish(Operations operations, const char* data, Py_ssize_t size) except -2:
    """`PUB subject [reply] size` as every client writes it, in one pass. -1: not so plain, use `parse_message`.

    Returns the bytes used, 0 when more of the payload is needed. It reads no byte behind `size`: a control line that
    is not whole is left to `parse_message`.
    """
    cdef const char* end = data + size
    cdef const char* p = data + 4
    cdef const char* word
    cdef Py_ssize_t body_size, used
    cdef uint64_t number = 0  # may wrap around: too many digits are refused below
    cdef Message message
    message.subject = p
    message.is_hinted = (
        operations.hint_size > 0
        and operations.hint_size < end - p
        and p[operations.hint_size] == 32
        and memcmp(p, operations.hint, operations.hint_size) == 0
    )
    if message.is_hinted:
        p += operations.hint_size
    else:
        while p < end and <unsigned char>p[0] > 32:
            p += 1
        if p == end or p[0] != 32 or p == message.subject:
            return -1
    message.subject_size = p - message.subject
    p += 1
    message.tail = word = p
    while p < end and 48 <= p[0] <= 57:
        number = number * 10 + <uint64_t>(p[0] - 48)
        p += 1
    message.reply = NULL
    message.reply_size = 0
    if p < end and p[0] != 13:
        # Not a size, so a reply subject, and the size behind it.
        while p < end and <unsigned char>p[0] > 32:
            p += 1
        if p == end or p[0] != 32 or p == word:
            return -1
        message.reply = word
        message.reply_size = p - word
        p += 1
        word = p
        number = 0
        while p < end and 48 <= p[0] <= 57:
            number = number * 10 + <uint64_t>(p[0] - 48)
            p += 1
    if end - p < 2 or p[0] != 13 or p[1] != 10 or not 0 < p - word <= MAX_SIZE_DIGITS:
        return -1
    if p - message.subject > operations.max_control_line:
        return -1
    body_size = <Py_ssize_t>number
    if 0 <= operations.max_payload < body_size:
        operations.on_oversize(body_size)
    p += 2
    used = p - data + body_size + 2
    if used > size:
        operations.need = used
        return -1 if used - 1 == size and data[used - 2] != 13 else 0
    if data[used - 2] != 13 or data[used - 1] != 10:
        return -1
    message.sid = NULL
    message.sid_size = 0
    message.tail_size = data + used - message.tail
    message.body = p
    message.body_size = body_size
    message.header_size = 0
    message.has_header = False
    operations.on_publish(&message)
    return used


cdef inline bint single_spaced(Slice* words, int first, int last) noexcept:
    """Whether exactly one space stands behind each of `words[first:last]`."""
    cdef int i
    for i in range(first, last):
        if words[i].start + words[i].size + 1 != words[i + 1].start or words[i].start[words[i].size] != 32:
            return False
    return True


cdef Py_ssize_t parse_argument(
    Operations operations, Verb verb, const char* data, Py_ssize_t size, Py_ssize_t skip, bint needs_space
) except -1:
    """A verb with one argument line. Returns the bytes used, 0 when more are needed."""
    cdef const char* end = data + size
    cdef const char* p = data + skip
    cdef Py_ssize_t line_size, used
    if needs_space and p < end and p[0] != 32 and p[0] != 9:
        fail_unknown(data, size)
    p = skip_blanks(operations, p, end)
    line_size = find_line_feed(operations, p, end)
    if line_size < 0:
        return 0
    used = p + line_size + 1 - data
    if line_size > 0 and p[line_size - 1] == 13:
        line_size -= 1
    operations.on_line(verb, p, line_size)
    return used


cdef Py_ssize_t parse_bare(
    Operations operations, Verb verb, const char* data, Py_ssize_t size, Py_ssize_t skip
) except -1:
    """A verb without arguments; whatever stands before the line feed is ignored, but not without bound."""
    cdef const char* newline = <const char*>memchr(data + skip, 10, size - skip)
    if (size if newline == NULL else newline - data) > operations.max_control_line:
        fail_control_line()
    if newline == NULL:
        return 0
    operations.on_line(verb, data + skip, 0)
    return newline + 1 - data


cdef Py_ssize_t parse_one(Operations operations, const char* data, Py_ssize_t size) except -1:
    """One operation at the front of `data`. Returns the bytes used, 0 when more are needed."""
    cdef char first = lower(data[0])
    cdef char second
    cdef Py_ssize_t used
    if operations.shy and first != 99:  # c
        operations.on_first_byte(first)
        if operations.stopped:
            return 0
    if first == 112:  # p
        if size < 2:
            return 0
        second = lower(data[1])
        if second == 117 and not operations.client_role:  # u
            if size > SHORTEST_PUBLISH and memcmp(data, b"PUB ", 4) == 0:
                used = parse_plain_publish(operations, data, size)
                if used >= 0:
                    return used
            return parse_message(operations, data, size, 3, False) if match_word(data, size, b"pub", 3) else 0
        if second == 105:  # i
            return parse_bare(operations, VERB_PING, data, size, 4) if match_word(data, size, b"ping", 4) else 0
        if second == 111:  # o
            return parse_bare(operations, VERB_PONG, data, size, 4) if match_word(data, size, b"pong", 4) else 0
        fail_unknown(data, size)
    if first == 43:  # +
        return parse_bare(operations, VERB_OK, data, size, 3) if match_word(data, size, b"+ok", 3) else 0
    if first == 45:  # -
        if not match_word(data, size, b"-err", 4):
            return 0
        return parse_argument(operations, VERB_ERR, data, size, 4, True)
    if first == 105:  # i
        if not match_word(data, size, b"info", 4):
            return 0
        return parse_argument(operations, VERB_INFO, data, size, 4, False)
    if operations.client_role:
        if first == 109:  # m
            return parse_message(operations, data, size, 3, False) if match_word(data, size, b"msg", 3) else 0
        if first == 104:  # h
            return parse_message(operations, data, size, 4, True) if match_word(data, size, b"hmsg", 4) else 0
        fail_unknown(data, size)
    if first == 104:  # h
        return parse_message(operations, data, size, 4, True) if match_word(data, size, b"hpub", 4) else 0
    if first == 115:  # s
        if not match_word(data, size, b"sub", 3):
            return 0
        return parse_argument(operations, VERB_SUB, data, size, 3, True)
    if first == 117:  # u
        if not match_word(data, size, b"unsub", 5):
            return 0
        return parse_argument(operations, VERB_UNSUB, data, size, 5, True)
    if first == 99:  # c
        if not match_word(data, size, b"connect", 7):
            return 0
        return parse_argument(operations, VERB_CONNECT, data, size, 7, False)
    fail_unknown(data, size)
    return 0


cdef Py_ssize_t parse(Operations operations, const char* data, Py_ssize_t size) except -1:
    cdef Py_ssize_t used = 0, step
    operations.need = 0
    operations.stopped = False
    while used < size and not operations.stopped:
        step = parse_one(operations, data + used, size - used)
        if step == 0:
            break
        used += step
    return used


VERB_NAMES = {
    VERB_CONNECT: "CONNECT", VERB_SUB: "SUB", VERB_UNSUB: "UNSUB", VERB_PING: "PING", VERB_PONG: "PONG",
    VERB_INFO: "INFO", VERB_OK: "+OK", VERB_ERR: "-ERR",
}


cdef class Collector(Operations):
    """Operations as tuples, a list per read: for the synchronous client, for tests and for tools.

    A message is `("MSG", subject, sid, reply, header, payload)` (`"PUB"` in the server's role, with an empty sid;
    `reply` and `header` are None when absent), anything else `(verb, argument)`.
    """

    def __init__(self, *, client_role: bool = True, max_control_line: int = 4096, max_payload: int = -1) -> None:
        self.client_role = client_role
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self.found = []
        self.rest = bytearray()

    cdef int on_publish(self, Message* message) except -1:
        cdef bytes sid = message.sid[:message.sid_size] if message.sid != NULL else b""
        self.found.append((
            "MSG" if self.client_role else "PUB",
            message.subject[:message.subject_size],
            sid,
            message.reply[:message.reply_size] if message.reply != NULL else None,
            message.body[:message.header_size] if message.has_header else None,
            message.body[message.header_size:message.body_size],
        ))
        return 0

    cdef int on_line(self, Verb verb, const char* argument, Py_ssize_t size) except -1:
        self.found.append((VERB_NAMES[verb], argument[:size]))
        return 0

    def feed(self, data) -> list:
        """Take more bytes; return the operations that they completed. After a ProtocolError feed no more."""
        cdef const unsigned char[::1] view
        cdef Py_ssize_t used
        self.found = []
        if self.rest or self.need:
            self.rest += data
            if len(self.rest) < self.need - 1:
                return []
            view = self.rest
            used = parse(self, <const char*>&view[0], len(self.rest)) if len(self.rest) else 0
            view = None
            del self.rest[:used]
        elif len(data):
            view = data
            used = parse(self, <const char*>&view[0], len(data))
            self.rest += data[used:]
        return self.found

    def tail_of(self, data) -> list:
        """For tests: the delivery tails of the messages in `data`."""
        cdef TailCollector tails = TailCollector()
        cdef const unsigned char[::1] view = data
        tails.max_payload = -1
        tails.client_role = self.client_role
        parse(tails, <const char*>&view[0], len(data))
        return tails.found


cdef class TailCollector(Operations):
    cdef list found

    def __init__(self):
        self.found = []

    cdef int on_publish(self, Message* message) except -1:
        self.found.append(message.tail[:message.tail_size])
        return 0
