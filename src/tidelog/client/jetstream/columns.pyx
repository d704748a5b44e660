"""Messages of a stream as columns: answers of Direct Get, parsed from the wire straight into Arrow's memory layout.

What it promises
  * Messages for the subscription that it `listen`s to go into the columns, in the order in which they come, those at
    or behind `end_seq` excepted; the server's status ends the answer and sets `status`. Everything else that arrives is
    collected as by the Collector that this is.
  * `take` hands over what has been collected, as buffers that own their memory, and begins anew. Nothing is copied then.
  * What the server adds to the headers of a message (`Nats-Stream` and those behind it) is not among its headers; what a
    publisher has put there under the same names is.

How it works: one pass over the header lines of each message finds sequence, time and subject; no Python object is made
for a message. Offsets are 32 bits, as in Arrow's `binary`: an answer is bounded by its request, far below 2 GiB.

What it does not do: know Arrow's library, or what a column is called there.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memchr, memcmp
from cpython.buffer cimport PyBuffer_FillInfo

from tidelog.base.digits cimport read_decimal
from tidelog.base.errors import ProtocolError
from tidelog.base.vector cimport Vector, append, push, release
from tidelog.wire.parser cimport Collector, Message

cdef Py_ssize_t VERSION_SIZE = 8  # `NATS/1.0`
cdef int64_t MICROS_PER_DAY = 86_400_000_000


cdef class Buffer:
    """Memory that somebody else may look at, through Python's buffer protocol, as long as this object lives."""

    cdef Vector vector
    cdef Py_ssize_t size

    def __dealloc__(self):
        release(&self.vector)

    def __getbuffer__(self, Py_buffer* view, int flags):
        # An empty vector has no memory; any address does for no bytes.
        PyBuffer_FillInfo(view, self, self.vector.items if self.size else <char*>&self.size, self.size, True, flags)

    def __len__(self):
        return self.size


cdef Buffer hand_over(Vector* vector, Py_ssize_t item_size):
    cdef Buffer buffer = Buffer()
    buffer.vector = vector[0]
    buffer.size = vector.count * item_size
    vector.items = NULL
    vector.count = vector.room = 0
    return buffer


cdef struct Place:
    # A slice of the header block that is being read.
    const char* start
    Py_ssize_t size


cdef inline bint is_named(const char* line, Py_ssize_t size, const char* name, Py_ssize_t name_size) noexcept:
    return size > name_size and line[name_size] == 58 and memcmp(line, name, name_size) == 0


cdef inline Place value_of(const char* line, Py_ssize_t size, Py_ssize_t name_size) noexcept:
    """What stands behind the colon, without the white space around it."""
    cdef Place place
    cdef const char* p = line + name_size + 1
    cdef const char* end = line + size
    while p < end and (p[0] == 32 or p[0] == 9):
        p += 1
    while end > p and (end[-1] == 32 or end[-1] == 9):
        end -= 1
    place.start = p
    place.size = end - p
    return place


cdef inline int64_t days(int64_t year, int64_t month, int64_t day) noexcept:
    """From 1970-01-01 on, by eras of 400 years that begin in March."""
    cdef int64_t y = year - (1 if month <= 2 else 0)
    cdef int64_t era = (y if y >= 0 else y - 399) // 400
    cdef int64_t of_era = y - era * 400
    cdef int64_t of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef int64_t micros(const char* text, Py_ssize_t size) noexcept:
    """`2026-11-19T20:36:37.123456789Z` in microseconds since 1970; -1 if it is not that."""
    cdef int64_t fraction = 0, scale = 100_000
    cdef Py_ssize_t i
    if size < 20 or text[4] != 45 or text[7] != 45 or text[10] != 84 or text[13] != 58 or text[16] != 58:
        return -1
    if text[size - 1] != 90:
        return -1
    if text[19] == 46:
        for i in range(20, size - 1):
            if text[i] < 48 or text[i] > 57:
                return -1
            fraction += (text[i] - 48) * scale
            scale //= 10
    elif size != 20:
        return -1
    return (
        days(read_decimal(text, 4), read_decimal(text + 5, 2), read_decimal(text + 8, 2)) * MICROS_PER_DAY
        + ((read_decimal(text + 11, 2) * 60 + read_decimal(text + 14, 2)) * 60 + read_decimal(text + 17, 2)) * 1_000_000
        + fraction
    )


cdef class Splitting:
    """Headers as columns: of each message how many, and then all names, and all values."""

    cdef Vector header_ends, key_ends, keys, item_ends, items

    def __cinit__(self):
        self.begin()

    def __dealloc__(self):
        release(&self.header_ends)
        release(&self.key_ends)
        release(&self.keys)
        release(&self.item_ends)
        release(&self.items)

    cdef int begin(self) except -1:
        """Empty columns: every list of ends has its leading 0."""
        mark(&self.header_ends, 0)
        mark(&self.key_ends, 0)
        mark(&self.item_ends, 0)
        return 0

    cdef list take(self):
        cdef list buffers = [
            hand_over(&self.header_ends, sizeof(int32_t)),
            hand_over(&self.key_ends, sizeof(int32_t)), hand_over(&self.keys, 1),
            hand_over(&self.item_ends, sizeof(int32_t)), hand_over(&self.items, 1),
        ]
        self.begin()
        return buffers


cdef int split(Splitting to, const char* line, const char* end) except -1:
    """Add the headers of one message, whose lines stand between the two."""
    cdef const char* newline
    cdef const char* colon
    cdef Place value
    while line < end:
        newline = <const char*>memchr(line, 13, end - line)
        if newline == NULL:
            break
        colon = <const char*>memchr(line, 58, newline - line)
        if colon != NULL and colon > line:
            value = value_of(line, newline - line, colon - line)
            add(&to.keys, &to.key_ends, line, colon - line)
            add(&to.items, &to.item_ends, value.start, value.size)
        line = newline + 2
    return mark(&to.header_ends, to.key_ends.count - 1)


cdef class Columns(Collector):
    """`with_headers`: keep the headers, too. Without them they cost nothing."""

    cdef bytes sid
    cdef readonly bint with_headers
    cdef readonly Py_ssize_t count     # messages in the columns
    cdef readonly int64_t first_seq    # of the messages of this answer; 0 if none came
    cdef readonly int64_t last_seq     # the same, whether they were kept or not
    cdef readonly int64_t num_pending  # behind the last message of this answer, as the server says; -1: not said
    cdef readonly int status           # what ended the answer; 0: it goes on
    cdef readonly str description
    cdef public int64_t end_seq
    # Offsets are int32, a leading 0 and then the end of each; the rest is what they point into.
    cdef Vector seqs, times, subject_ends, subjects, value_ends, values
    cdef Splitting headers

    def __init__(self, *, with_headers: bool = False, max_control_line: int = 1024 * 1024) -> None:
        Collector.__init__(self, client_role=True, max_control_line=max_control_line)
        self.with_headers = with_headers
        self.headers = Splitting()
        self.sid = b""
        self.end_seq = 0x7FFFFFFFFFFFFFFF
        self.begin()
        self.expect()

    def __dealloc__(self):
        release(&self.seqs)
        release(&self.times)
        release(&self.subject_ends)
        release(&self.subjects)
        release(&self.value_ends)
        release(&self.values)

    def listen(self, sid: bytes) -> None:
        """Keep what comes for this subscription."""
        self.sid = sid

    def expect(self) -> None:
        """A new answer begins. What has been collected stays."""
        self.status = 0
        self.description = ""
        self.first_seq = self.last_seq = 0
        self.num_pending = -1

    @property
    def size(self) -> int:
        """Bytes of subjects, values and headers in the columns."""
        return self.subjects.count + self.values.count + self.headers.keys.count + self.headers.items.count

    def take(self) -> tuple:
        """What has been collected: its count, and seq, time in microseconds, ends and bytes of subjects, then of values.

        With headers, behind these: ends of the lists, ends and bytes of the names, and of the values.
        """
        cdef Py_ssize_t count = self.count
        cdef list buffers = [
            hand_over(&self.seqs, sizeof(int64_t)), hand_over(&self.times, sizeof(int64_t)),
            hand_over(&self.subject_ends, sizeof(int32_t)), hand_over(&self.subjects, 1),
            hand_over(&self.value_ends, sizeof(int32_t)), hand_over(&self.values, 1),
        ]
        if self.with_headers:
            buffers += self.headers.take()
        self.begin()
        return count, buffers

    cdef int begin(self) except -1:
        """Empty columns: every list of ends has its leading 0."""
        self.count = 0
        mark(&self.subject_ends, 0)
        mark(&self.value_ends, 0)
        return 0

    cdef int on_publish(self, Message* message) except -1:
        cdef Py_ssize_t size = len(self.sid)
        if size == 0 or message.sid_size != size or memcmp(message.sid, <const char*>self.sid, size) != 0:
            return Collector.on_publish(self, message)
        if message.header_size < VERSION_SIZE + 2:
            raise ProtocolError("", "Bad Answer", "an answer to direct get has no headers")
        if message.body[VERSION_SIZE] != 13:
            return self.end(message)
        return self.keep(message)

    cdef int end(self, Message* message) except -1:
        """A status: no message of the stream, but the end of the answer."""
        cdef bytes block = message.body[:message.header_size]
        cdef list lines = block.split(b"\r\n")
        cdef bytes code, words
        code, _, words = lines[0][VERSION_SIZE:].strip().partition(b" ")
        self.description = words.decode("utf-8", "replace")
        self.status = int(code) if code.isdigit() and len(code) == 3 else 500
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            if name == b"Nats-Num-Pending" and value.strip().isdigit():
                self.num_pending = int(value)
        return 0

    cdef int keep(self, Message* message) except -1:
        cdef const char* block_end = message.body + message.header_size
        cdef const char* line = message.body + VERSION_SIZE + 2
        cdef const char* own = line  # where the server's own headers begin: the last of that name
        cdef const char* newline
        cdef Place seq, time, subject, pending, empty
        cdef Py_ssize_t size
        empty.start = line
        empty.size = 0
        seq = time = subject = pending = empty
        while line < block_end:
            newline = <const char*>memchr(line, 13, block_end - line)
            if newline == NULL:
                break
            size = newline - line
            if size > 12 and memcmp(line, b"Nats-", 5) == 0:
                if is_named(line, size, b"Nats-Stream", 11):
                    own = line
                elif is_named(line, size, b"Nats-Subject", 12):
                    subject = value_of(line, size, 12)
                elif is_named(line, size, b"Nats-Sequence", 13):
                    seq = value_of(line, size, 13)
                elif is_named(line, size, b"Nats-Time-Stamp", 15):
                    time = value_of(line, size, 15)
                elif is_named(line, size, b"Nats-Num-Pending", 16):
                    pending = value_of(line, size, 16)
            line = newline + 2
        return self.store(message, own, read_decimal(seq.start, seq.size), micros(time.start, time.size), subject,
                          read_decimal(pending.start, pending.size))

    cdef int store(
        self, Message* message, const char* own, int64_t seq, int64_t time_us, Place subject, int64_t pending
    ) except -1:
        cdef int32_t value_size = <int32_t>(message.body_size - message.header_size)
        cdef int64_t* place
        if seq < 1 or subject.size == 0:
            raise ProtocolError("", "Bad Answer", "an answer to direct get has no sequence, subject or time")
        if self.first_seq == 0:
            self.first_seq = seq
        self.last_seq = seq
        self.num_pending = pending
        if seq >= self.end_seq:
            return 0
        place = <int64_t*>push(&self.seqs, sizeof(int64_t))
        if place == NULL:
            raise MemoryError
        place[0] = seq
        place = <int64_t*>push(&self.times, sizeof(int64_t))
        if place == NULL:
            raise MemoryError
        place[0] = time_us
        add(&self.subjects, &self.subject_ends, subject.start, subject.size)
        add(&self.values, &self.value_ends, message.body + message.header_size, value_size)
        if self.with_headers:
            split(self.headers, message.body + VERSION_SIZE + 2, own)
        self.count += 1
        return 0


cdef int mark(Vector* ends, Py_ssize_t end) except -1:
    cdef int32_t* place = <int32_t*>push(ends, sizeof(int32_t))
    if place == NULL:
        raise MemoryError
    place[0] = <int32_t>end
    return 0


cdef int add(Vector* bytes_, Vector* ends, const char* start, Py_ssize_t size) except -1:
    if not append(bytes_, start, size, 1):
        raise MemoryError
    return mark(ends, bytes_.count)


def split_headers(const int32_t[::1] ends not None, const unsigned char[::1] blocks not None) -> list:
    """Header blocks as `Columns.take` gives headers: ends of the lists, ends and bytes of the names, and of the values.

    `ends` has one more than there are blocks, and need not begin with 0. An empty block has no headers.
    """
    cdef Splitting splitting = Splitting()
    cdef Py_ssize_t i, start, end, size = blocks.shape[0]
    for i in range(ends.shape[0] - 1):
        start, end = ends[i], ends[i + 1]
        if not 0 <= start <= end <= size:
            raise ValueError(f"a header block from {start} to {end} is not in {size} bytes")
        if end - start > VERSION_SIZE + 2:
            split(splitting, <const char*>&blocks[start] + VERSION_SIZE + 2, <const char*>&blocks[start] + end - start)
        else:
            mark(&splitting.header_ends, splitting.key_ends.count - 1)
    return splitting.take()
