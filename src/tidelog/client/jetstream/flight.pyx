"""Messages on their way to streams: made from columns in Arrow's layout, kept until they are acknowledged.

    flight = Flight("_INBOX.x", max_count=4096, max_size=32 * MIB, msg_id="query:7:0:")
    at = flight.board(rows, 0)            # as many rows as there is room for, from the first on
    connection.put(flight.unsent())
    connection.take_in(10)                # its parser is an `Acks` that listens for this flight

What it promises
  * A message is one whole operation, with the headers of its row behind ours. Its number says how many rows came before
    it; it keeps that and its reply subject as long as it is on its way: on another connection `unacknowledged` gives it
    again, byte for byte.
  * At most `max_count` messages are on their way, and about `max_size` bytes of them.
  * A message counts as acknowledged once, whatever comes twice. Only what is surely an acknowledgement is taken for one:
    refusals, and whatever else answers, stay messages for the subscription, and `settle` is for who has read them.
  * What cannot stand in an operation (a blank in a subject, a line end in a header) is a ValueError that says so, and
    nothing of its row is on its way.

How it works: no Python object is made for a message or for its acknowledgement. Operations stand one behind the other in
one block of memory, whose front is dropped as it is acknowledged.

What it does not do: sockets, patience, or knowing Arrow's library.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memchr, memcmp, memcpy, memmove

from tidelog.base.digits cimport NUMBER_SIZE_MOST, put_decimal, read_decimal
from tidelog.base.vector cimport Vector, append, push, release, reserve
from tidelog.wire.parser cimport Collector, Message

MSG_ID = b"Nats-Msg-Id"
EXPECTED_STREAM = b"Nats-Expected-Stream"

cdef enum:
    # Of what one `board` adds, about: a good burst for a socket, and small enough for any cache.
    BURST_SIZE = 128 * 1024
    # Below this the front is not worth moving the rest for.
    DROP_COUNT = 1024


cdef class Texts:
    """A column: the end of each text behind that of the one before it, as int32, and what they point into."""

    cdef const int32_t[::1] ends
    cdef const unsigned char[::1] data
    cdef Py_ssize_t first
    cdef readonly Py_ssize_t count

    def __init__(self, ends, data, Py_ssize_t first, Py_ssize_t count) -> None:
        """`first` is where the column begins in `ends`, as in an Arrow array that is a slice."""
        self.ends = memoryview(ends).cast("B").cast("i")
        self.data = memoryview(b"" if data is None else data).cast("B")
        if count < 0 or first < 0 or self.ends.shape[0] <= first + count:
            raise ValueError("a column has one end more than it has texts")
        if self.ends[first + count] > self.data.shape[0]:
            raise ValueError("a column ends behind its data")
        self.first = first
        self.count = count

    cdef inline const char* start(self, Py_ssize_t at) noexcept:
        return <const char*>&self.data[0] + self.ends[self.first + at]

    cdef inline Py_ssize_t size(self, Py_ssize_t at) noexcept:
        return self.ends[self.first + at + 1] - self.ends[self.first + at]


cdef class Rows:
    """What messages are made from. `subjects` may be one for all; `ids` None means ids by number, if at all.

    `header_ends` says which pairs of `keys` and `items` belong to a row, as the ends of a text say which bytes. Rows at
    which `skip` is not 0 are passed over; they have their number all the same, and are not on their way.
    """

    cdef readonly Py_ssize_t count
    cdef readonly int64_t first_number
    cdef bytes subject
    cdef Texts subjects
    cdef Texts values
    cdef Texts ids
    cdef Texts keys
    cdef Texts items
    cdef const int32_t[::1] header_ends
    cdef const unsigned char[::1] skip

    def __init__(
        self, Texts values not None, *, bytes subject=b"", Texts subjects=None, Texts ids=None, headers=None,
        int64_t first_number=0, skip=None,
    ) -> None:
        self.count = values.count
        self.values = values
        self.subject = subject
        self.subjects = subjects
        self.ids = ids
        self.first_number = first_number
        if headers is not None:
            ends, self.keys, self.items = headers
            self.header_ends = memoryview(ends).cast("B").cast("i")
            if self.header_ends.shape[0] <= self.count or self.header_ends[self.count] > self.keys.count:
                raise ValueError("headers do not match their rows")
        self.skip = skip
        if skip is not None and self.skip.shape[0] < self.count:
            raise ValueError("one mark for each row")
        for texts in (subjects, ids):
            if texts is not None and texts.count != self.count:
                raise ValueError("columns are of one length")


cdef inline bint is_blank(unsigned char byte) noexcept nogil:
    return byte == 32 or byte == 9 or byte == 10 or byte == 12 or byte == 13


cdef inline bint is_subject(const char* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if is_blank(<unsigned char>text[i]):
            return False
    return size > 0


cdef inline bint is_name(const char* text, Py_ssize_t size) noexcept nogil:
    """Visible ASCII and what is beyond ASCII, but the colon that ends a name."""
    cdef Py_ssize_t i
    cdef unsigned char byte
    for i in range(size):
        byte = <unsigned char>text[i]
        if byte <= 32 or byte == 58 or byte == 127:
            return False
    return size > 0


cdef inline bint is_line(const char* text, Py_ssize_t size) noexcept nogil:
    return size == 0 or (memchr(text, 13, size) == NULL and memchr(text, 10, size) == NULL)


cdef inline char* written(char* to, const char* text, Py_ssize_t size) noexcept nogil:
    """Copied to where there is room; what is behind it."""
    if size:
        memcpy(to, text, size)
    return to + size


cdef inline int put(Vector* to, const char* text, Py_ssize_t size) except -1:
    if not append(to, text, size, 1):
        raise MemoryError
    return 0


cdef class Flight:
    """`msg_id` is what ids by number begin with; empty: rows have ids only if they bring them."""

    cdef readonly str inbox
    cdef readonly Py_ssize_t under_way   # sent and not acknowledged
    cdef readonly Py_ssize_t size        # bytes of these
    cdef readonly int64_t stored
    cdef readonly int64_t duplicates
    cdef public Py_ssize_t max_payload
    cdef Py_ssize_t max_count
    cdef Py_ssize_t max_size
    cdef bytes base                      # what reply subjects begin with
    cdef bytes msg_id
    cdef bytes expected                  # the header line about the stream
    cdef int64_t first                   # the number of the first operation in `data`
    cdef int64_t front                   # of the first that is not acknowledged
    cdef int64_t next                    # of the next one
    cdef Py_ssize_t told                 # bytes of `data` that `unsent` has given
    cdef Vector data
    cdef Vector ends                     # Py_ssize_t: where each operation ends in `data`
    cdef Vector settled                  # char: whether it is acknowledged
    cdef Vector block                    # the headers of the message that is being made

    def __init__(
        self, inbox: str, *, max_count: int, max_size: int, msg_id: str = "", stream: str = "", max_payload: int = 1024 * 1024
    ) -> None:
        self.inbox = inbox
        self.base = inbox.encode() + b"."
        self.max_count = max_count
        self.max_size = max_size
        self.max_payload = max_payload
        self.msg_id = msg_id.encode()
        self.expected = EXPECTED_STREAM + b": " + stream.encode() + b"\r\n" if stream else b""

    def __dealloc__(self):
        release(&self.data)
        release(&self.ends)
        release(&self.settled)
        release(&self.block)

    @property
    def has_room(self) -> bool:
        """A quarter of what may be on its way: less is not worth a burst."""
        return (
            self.under_way <= self.max_count - max(1, self.max_count // 4)
            and (self.under_way == 0 or self.size < self.max_size)
        )

    def board(self, Rows rows not None, Py_ssize_t at) -> int:
        """Take rows from `at` on while there is room, and about a burst of them; returns the next that is to come."""
        cdef Py_ssize_t limit = self.data.count + BURST_SIZE
        while at < rows.count and self.data.count < limit:
            if self.under_way >= self.max_count or (self.under_way and self.size >= self.max_size):
                break
            if rows.skip is None or not rows.skip[at]:
                self.add(rows, at)
            else:
                self.pass_over()
            at += 1
        return at

    def unsent(self) -> bytes:
        """The operations that have come since this was called last."""
        cdef bytes found = self.data.items[self.told:self.data.count] if self.data.count > self.told else b""
        self.told = self.data.count
        return found

    def unacknowledged(self) -> list:
        """All operations that are on their way, in stretches; none of them is unsent any more."""
        cdef list found = []
        cdef Py_ssize_t count = self.settled.count, i = 0, start
        while i < count:
            if self.settled.items[i]:
                i += 1
                continue
            start = self.start_of(i)
            while i < count and not self.settled.items[i]:
                i += 1
            found.append(self.data.items[start:self.start_of(i)])
        self.told = self.data.count
        return found

    def operation(self, int64_t number) -> bytes:
        """One that is on its way; empty if it is not."""
        cdef Py_ssize_t i = number - self.first
        if not self.is_under_way(number):
            return b""
        return self.data.items[self.start_of(i):self.start_of(i + 1)]

    def settle(self, int64_t number, bint duplicate) -> bool:
        """It is acknowledged. False: it was not on its way any more, or never."""
        if not self.is_under_way(number):
            return False
        self.take_off(number, duplicate)
        return True

    cdef inline bint is_under_way(self, int64_t number) noexcept:
        return self.front <= number < self.next and not self.settled.items[number - self.first]

    cdef inline Py_ssize_t start_of(self, Py_ssize_t i) noexcept:
        return (<Py_ssize_t*>self.ends.items)[i - 1] if i else 0

    cdef void take_off(self, int64_t number, bint duplicate) noexcept:
        cdef Py_ssize_t i = number - self.first
        self.settled.items[i] = 1
        self.under_way -= 1
        self.size -= self.start_of(i + 1) - self.start_of(i)
        if duplicate:
            self.duplicates += 1
        else:
            self.stored += 1
        while self.front < self.next and self.settled.items[self.front - self.first]:
            self.front += 1
        i = self.front - self.first
        if i >= DROP_COUNT and 2 * i >= self.settled.count and self.start_of(i) <= self.told:
            self.drop(i)

    cdef void drop(self, Py_ssize_t count) noexcept:
        """The first so many operations, which are acknowledged."""
        cdef Py_ssize_t* ends = <Py_ssize_t*>self.ends.items
        cdef Py_ssize_t start = self.start_of(count), i
        self.settled.count -= count
        self.ends.count -= count
        self.data.count -= start
        self.told -= start
        memmove(self.data.items, self.data.items + start, self.data.count)
        memmove(self.settled.items, self.settled.items + count, self.settled.count)
        for i in range(self.ends.count):
            ends[i] = ends[i + count] - start
        self.first += count

    cdef int add(self, Rows rows, Py_ssize_t at) except -1:
        cdef const char* subject = <const char*>rows.subject
        cdef Py_ssize_t subject_size = len(rows.subject)
        cdef Py_ssize_t value_size = rows.values.size(at), size
        cdef Py_ssize_t begun = self.data.count
        cdef char* to
        if rows.subjects is not None:
            subject, subject_size = rows.subjects.start(at), rows.subjects.size(at)
        if not is_subject(subject, subject_size):
            raise ValueError(f"subject {subject[:subject_size]!r} is empty or has a blank in it")
        self.make_block(rows, at)
        size = self.block.count + value_size
        if size > self.max_payload:
            raise ValueError(f"{size} bytes for {subject[:subject_size]!r}: the server takes {self.max_payload} at most")
        self.make_room(subject_size + len(self.base) + size + 4 * NUMBER_SIZE_MOST)
        to = self.data.items + self.data.count
        if self.block.count:
            to = written(to, "H", 1)
        to = written(to, "PUB ", 4)
        to = written(to, subject, subject_size)
        to = written(to, " ", 1)
        to = written(to, <const char*>self.base, len(self.base))
        to = put_decimal(to, self.next)
        to = written(to, " ", 1)
        if self.block.count:
            to = put_decimal(to, self.block.count)
            to = written(to, " ", 1)
        to = put_decimal(to, size)
        to = written(to, "\r\n", 2)
        to = written(to, self.block.items, self.block.count)
        to = written(to, rows.values.start(at), value_size)
        to = written(to, "\r\n", 2)
        self.data.count = to - self.data.items
        self.number_it(False)
        self.under_way += 1
        self.size += self.data.count - begun
        return 0

    cdef int pass_over(self) except -1:
        """A number without an operation."""
        self.make_room(0)
        self.number_it(True)
        if self.front == self.next - 1:
            self.front += 1
        return 0

    cdef int make_room(self, Py_ssize_t size) except -1:
        """For one more operation."""
        if not (
            reserve(&self.data, size, 1) and reserve(&self.ends, 1, sizeof(Py_ssize_t)) and reserve(&self.settled, 1, 1)
        ):
            raise MemoryError
        return 0

    cdef void number_it(self, bint settled) noexcept:
        """What stands behind the last operation is one. There is room."""
        (<Py_ssize_t*>push(&self.ends, sizeof(Py_ssize_t)))[0] = self.data.count
        (<char*>push(&self.settled, 1))[0] = settled
        self.next += 1

    cdef int make_block(self, Rows rows, Py_ssize_t at) except -1:
        """Ours first: of several of one name, servers go by the first."""
        cdef Vector* block = &self.block
        cdef char number[NUMBER_SIZE_MOST]
        cdef bint with_id = rows.ids is not None or len(self.msg_id) > 0
        cdef Py_ssize_t pair
        block.count = 0
        put(block, b"NATS/1.0\r\n", 10)
        if with_id:
            put(block, b"Nats-Msg-Id: ", 13)
            if rows.ids is not None:
                if not is_line(rows.ids.start(at), rows.ids.size(at)):
                    raise ValueError("an id has a line end in it")
                put(block, rows.ids.start(at), rows.ids.size(at))
            else:
                put(block, <const char*>self.msg_id, len(self.msg_id))
                put(block, number, put_decimal(number, rows.first_number + at) - number)
            put(block, b"\r\n", 2)
        put(block, <const char*>self.expected, len(self.expected))
        if rows.keys is not None:
            for pair in range(rows.header_ends[at], rows.header_ends[at + 1]):
                self.add_pair(rows, pair, with_id)
        if block.count == 10:
            # No headers.
            block.count = 0
            return 0
        return put(block, b"\r\n", 2)

    cdef int add_pair(self, Rows rows, Py_ssize_t pair, bint with_id) except -1:
        cdef const char* key = rows.keys.start(pair)
        cdef const char* value = rows.items.start(pair)
        cdef Py_ssize_t key_size = rows.keys.size(pair), size = rows.items.size(pair)
        if not is_name(key, key_size):
            raise ValueError(f"header name {key[:key_size]!r} is empty or has a colon, a blank or a control character")
        if not is_line(value, size):
            raise ValueError(f"value of header {key[:key_size]!r} has a line end in it")
        if with_id and key_size == 11 and memcmp(key, b"Nats-Msg-Id", 11) == 0:
            return 0
        if len(self.expected) and key_size == 20 and memcmp(key, b"Nats-Expected-Stream", 20) == 0:
            return 0
        put(&self.block, key, key_size)
        put(&self.block, b": ", 2)
        put(&self.block, value, size)
        return put(&self.block, b"\r\n", 2)


cdef inline bint takes(const char** text, const char* end, const char* word, Py_ssize_t size) noexcept nogil:
    """Whether this comes next, blanks before it passed over; then it is behind."""
    while text[0] < end and text[0][0] == 32:
        text[0] += 1
    if end - text[0] < size or memcmp(text[0], word, size) != 0:
        return False
    text[0] += size
    return True


cdef inline bint takes_text(const char** text, const char* end) noexcept nogil:
    """Whether a text in quotes comes next that is not empty and has nothing escaped."""
    cdef const char* quote
    if not takes(text, end, b'"', 1):
        return False
    quote = <const char*>memchr(text[0], 34, end - text[0])
    if quote == NULL or quote == text[0] or memchr(text[0], 92, quote - text[0]) != NULL:
        return False
    text[0] = quote + 1
    return True


cdef int read_ack(const char* text, Py_ssize_t size) noexcept nogil:
    """`{"stream":"S","seq":1}`, maybe with a domain and `"duplicate":true`: 1, or 2 for a duplicate; 0: look closer."""
    cdef const char* end = text + size
    cdef int found = 1
    if not takes(&text, end, b'{"stream":', 10) or not takes_text(&text, end):
        return 0
    if not takes(&text, end, b",", 1) or not takes(&text, end, b'"seq":', 6):
        return 0
    while text < end and (text[0] == 32 or 48 <= text[0] <= 57):
        text += 1
    while takes(&text, end, b",", 1):
        if takes(&text, end, b'"domain":', 9):
            if not takes_text(&text, end):
                return 0
        elif takes(&text, end, b'"duplicate":', 12) and takes(&text, end, b"true", 4):
            found = 2
        else:
            return 0
    return found if takes(&text, end, b"}", 1) and text == end else 0


cdef class Acks(Collector):
    """A parser for the connection. `listen` says for whom; without a flight it is a Collector."""

    cdef Flight flight
    cdef bytes sid

    def __init__(self, *, max_control_line: int = 1024 * 1024) -> None:
        Collector.__init__(self, client_role=True, max_control_line=max_control_line)
        self.sid = b""

    def listen(self, sid: bytes, Flight flight) -> None:
        """What comes for this subscription, to the flight's inbox and a number, is about its messages."""
        self.sid = sid
        self.flight = flight

    cdef int on_publish(self, Message* message) except -1:
        cdef Py_ssize_t base_size, sid_size = len(self.sid)
        cdef int64_t number
        cdef int found
        if (
            self.flight is None or message.has_header or message.sid_size != sid_size
            or memcmp(message.sid, <const char*>self.sid, sid_size) != 0
        ):
            return Collector.on_publish(self, message)
        base_size = len(self.flight.base)
        number = read_decimal(message.subject + base_size, message.subject_size - base_size)
        found = read_ack(message.body, message.body_size)
        if number < 0 or found == 0:
            return Collector.on_publish(self, message)
        if self.flight.is_under_way(number):
            self.flight.take_off(number, found == 2)
        return 0
