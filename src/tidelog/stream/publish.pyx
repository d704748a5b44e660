# cython: wraparound=True
"""What a publisher asks of a stream with headers, found where they lie.

A header block is looked through once, line by line, and only lines that begin with `Nats-` are looked at closely. As at
the peer a name is compared by case and must be followed by its colon, the first line with a name counts, blanks in
front of a value are not part of it, and an empty value is as good as none.

What it does not do: judge. The checks and their order stand in `stream.stream`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from tidelog.base.duration import parse_duration_ns

cdef enum:
    PREFIX_SIZE = 5        # of `Nats-`
    VERSION_SIZE = 8       # of `NATS/1.0`

NAME_TEXTS = (
    b"Nats-Msg-Id",
    b"Nats-Expected-Stream",
    b"Nats-Expected-Last-Sequence",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Expected-Last-Subject-Sequence",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
    b"Nats-Rollup",
    b"Nats-TTL",
    b"Nats-Incr",
    b"Nats-Counter-Sources",
    b"Nats-Batch-Id",
    b"Nats-Batch-Sequence",
    b"Nats-Batch-Commit",
    b"Nats-Schedule",
    b"Nats-Schedule-TTL",
    b"Nats-Schedule-Target",
    b"Nats-Schedule-Source",
    b"Nats-Schedule-Rollup",
    b"Nats-Schedule-Time-Zone",
    b"Nats-Schedule-Next",
    b"Nats-Scheduler",
    b"Nats-Stream-Source",
    b"Nats-Request-Info",
    b"Nats-Trace-Dest",
    b"Nats-Required-Api-Level",
)
"""In the order of `Name`."""

cdef const char* TEXTS[NAMES]
cdef Py_ssize_t SIZES[NAMES]

cdef int prepare() except -1:
    cdef int name = 0
    for text in NAME_TEXTS:
        TEXTS[name] = PyBytes_AS_STRING(text)
        SIZES[name] = PyBytes_GET_SIZE(text)
        name += 1
    assert name == NAMES
    return 0

prepare()


class InvalidTtl(ValueError):
    """A time to live that is neither seconds, nor a duration of a second or more, nor `never`."""


cdef int find_fields(const char* block, Py_ssize_t size, Fields* fields) noexcept nogil:
    """Find what there is of `Name` in a header block."""
    cdef const char* end = block + size
    cdef const char* line = <const char*>memchr(block, c"\n", size)
    cdef const char* stop
    fields.found = 0
    fields.status_size = 0
    if line == NULL:
        return 0
    fields.status_size = max(0, line - block - 1 - VERSION_SIZE)
    line += 1
    while line < end:
        stop = <const char*>memchr(line, c"\n", end - line)
        if stop == NULL:
            stop = end
        if stop - line > PREFIX_SIZE and memcmp(line, b"Nats-", PREFIX_SIZE) == 0:
            note_line(line, stop, fields)
        line = stop + 1
    return 0


cdef int note_line(const char* line, const char* end, Fields* fields) noexcept nogil:
    """Note the line up to `end`, where its line feed is, if its name is known and comes for the first time."""
    cdef const char* colon = <const char*>memchr(line, c":", end - line)
    cdef int name
    if colon == NULL:
        return 0
    for name in range(NAMES):
        if SIZES[name] == colon - line and memcmp(TEXTS[name], line, colon - line) == 0:
            break
    else:
        return 0
    if fields.found >> name & 1:
        return 0
    colon += 1
    while colon < end and colon[0] == c" ":
        colon += 1
    if end > colon and (end - 1)[0] == c"\r":
        end -= 1
    fields.found |= <uint32_t>1 << name
    fields.values[name] = colon
    fields.sizes[name] = end - colon
    return 0


cdef uint64_t sequence_of(Fields* fields, int name) noexcept nogil:
    """The sequence that a value is; what is no number is one that never was, as at the peer."""
    cdef uint64_t number = 0
    cdef Py_ssize_t i
    cdef unsigned digit
    for i in range(fields.sizes[name]):
        digit = <unsigned>(<unsigned char>fields.values[name][i]) - c"0"
        if digit > 9:
            return <uint64_t>-1
        number = number * 10 + digit
    return number


cdef bytes value_of(Fields* fields, int name):
    """The value; empty when there is none."""
    if not has(fields, name):
        return b""
    return fields.values[name][:fields.sizes[name]]


cdef bytes without_status(const char* block, Py_ssize_t size, Fields* fields):
    """The block without what stands behind the version; nothing, when then nothing is left."""
    cdef bytes rest = block[VERSION_SIZE + fields.status_size:size]
    return b"" if rest == b"\r\n\r\n" else b"NATS/1.0" + rest


cdef bytes without_line(bytes block, bytes name):
    """The block without the lines of that name; nothing, when then nothing is left."""
    lines = [line for line in block.split(b"\r\n") if not line.startswith(name + b":")]
    return b"\r\n".join(lines) if len(lines) > 3 else b""


def with_line(bytes block not None, bytes name not None, bytes value not None) -> bytes:
    """The block with one line more, at its end."""
    front = block[:-2] if block else b"NATS/1.0\r\n"
    return front + name + b": " + value + b"\r\n\r\n"


def set_line(bytes block not None, bytes name not None, bytes value not None) -> bytes:
    """The block with this value in the first line of that name, or with one line more."""
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return with_line(block, name, value)
    end = block.index(b"\r\n", start + 2)
    return b"%s\r\n%s: %s%s" % (block[:start], name, value, block[end:])


def without_prefix(bytes block not None, *prefixes) -> bytes:
    """The block without the lines that begin with one of these; nothing, when then nothing is left."""
    lines = [line for line in block.split(b"\r\n") if not line.startswith(prefixes)]
    return b"\r\n".join(lines) if len(lines) > 3 else b""


def header_value(bytes block not None, bytes name not None) -> bytes:
    """The value of the first line with that name; empty when there is none."""
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    return block[start:block.index(b"\r\n", start)].lstrip(b" ")


cdef int64_t ttl_seconds(bytes text) except? -2:
    """The time to live that a text says, in whole seconds; 0: none, -1: for ever."""
    cdef int64_t ttl_ns
    if text.lower() == b"never":
        return -1
    # A bare 0 is a duration, and too short for one.
    if text.isdigit() and len(text) < 10 and text != b"0":
        return int(text)
    try:
        ttl_ns = parse_duration_ns(text.decode("ascii"))
    except (ValueError, OverflowError) as error:
        raise InvalidTtl(str(error)) from None
    if ttl_ns < 1_000_000_000:
        raise InvalidTtl("a time to live is a second or more")
    return ttl_ns // 1_000_000_000


# ---- for Python ----


def read_fields(bytes block not None) -> dict:
    """What `find_fields` finds, by name."""
    cdef Fields fields
    cdef int name
    find_fields(PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &fields)
    found = {}
    for name in range(NAMES):
        if fields.found >> name & 1:
            found[NAME_TEXTS[name]] = fields.values[name][:fields.sizes[name]]
    return found


def read_ttl(bytes text not None) -> int:
    return ttl_seconds(text)


def read_sequence(bytes text not None) -> int:
    cdef Fields fields
    fields.values[<int>MSG_ID] = PyBytes_AS_STRING(text)
    fields.sizes[<int>MSG_ID] = PyBytes_GET_SIZE(text)
    return sequence_of(&fields, MSG_ID)


def cut_line(bytes block not None, bytes name not None) -> bytes:
    return without_line(block, name)
