"""Where things are in one segment: what is kept of its index, or of what was written to it so far.

Promises
  * An index file is taken only if every byte of it is what was written: two checksums, and then nothing is believed that
    does not add up. Rows are checked one by one as they are handed out; the walk ends at one that is not right, and
    says so (`broken`), for the index to be made again.
  * What stays is small: 16 bytes for about 4 KiB of records, and whatever is out of the ordinary (controls, expiries,
    holes). Subjects are handed out once, in byte order, to whoever keeps an index over all segments.
  * The same object serves an open segment: `note` is O(1), and look-ups find at once what was noted.

It opens no file, and it does not know which messages have been deleted since.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from tidelog.base.varint cimport VARINT_SIZE_MOST, put_varint
from tidelog.base.vector cimport Vector, append
from tidelog.log.outline cimport (
    INDEX_HEADER_SIZE, INDEX_VERSION, OFFSET_BITS, SEGMENT_HEADER_SIZE, Expiry, Hole, IndexHead, add_control, add_expiry,
    add_message, begin, drop, fits, listed_controls, listed_expiries, listed_holes, listed_samples,
)
from tidelog.log.record cimport HEADER_SIZE, crc32c
from tidelog.log.survey cimport Survey

cdef enum:
    CRC_SIZE = 4
    # A subject's size, and three varints behind it.
    ROW_SIZE_LEAST = 5


cdef class RowCursor:
    """A walk over the rows of an index."""

    cdef void begin(
        self, bytes data, const unsigned char* place, const unsigned char* end, uint64_t rows, Outline* outline
    ):
        self.data = data
        self.place = place
        self.end = end
        self.rows = rows
        self.base_seq = outline.base_seq
        self.offset_most = outline.last_seq - outline.base_seq
        self.messages = outline.messages

    cdef bint next_row(
        self, const char** subject, Py_ssize_t* subject_size, uint64_t* first_seq, uint64_t* count,
        const unsigned char** deltas, Py_ssize_t* deltas_size
    ) noexcept nogil:
        """The next row. False: that was the last one, or one is not right, and the walk is `broken`."""
        if self.broken or self.rows == 0:
            self.broken = self.broken or self.place != self.end
            return False
        self.broken = not self.read_row(subject, subject_size, first_seq, count, deltas, deltas_size)
        self.rows -= 1
        return not self.broken

    cdef bint read_row(
        self, const char** subject, Py_ssize_t* subject_size, uint64_t* first_seq, uint64_t* count,
        const unsigned char** deltas, Py_ssize_t* deltas_size
    ) noexcept nogil:
        """False: what is there is no row."""
        cdef const unsigned char* place = self.place
        cdef uint64_t offset, size, delta, i
        cdef int order
        if self.end - place < ROW_SIZE_LEAST:
            return False
        size = place[0] | <uint64_t>place[1] << 8
        place += 2
        if <uint64_t>(self.end - place) < size:
            return False
        subject[0] = <const char*>place
        subject_size[0] = <Py_ssize_t>size
        if self.before != NULL:
            order = memcmp(self.before, place, min(self.before_size, subject_size[0]))
            if order > 0 or (order == 0 and self.before_size >= subject_size[0]):
                return False
        self.before = subject[0]
        self.before_size = subject_size[0]
        place = take_varint(place + size, self.end, count)
        if place != NULL:
            place = take_varint(place, self.end, &offset)
        if place != NULL:
            place = take_varint(place, self.end, &size)
        if place == NULL or size > <uint64_t>(self.end - place) or offset > self.offset_most:
            return False
        if count[0] == 0 or count[0] > self.messages or count[0] - 1 > size:
            return False
        self.messages -= count[0]
        first_seq[0] = self.base_seq + offset
        deltas[0] = place
        deltas_size[0] = <Py_ssize_t>size
        self.place = place + size
        for i in range(count[0] - 1):
            place = take_varint(place, self.place, &delta)
            if place == NULL or delta == 0 or delta > self.offset_most - offset:
                return False
            offset += delta
        return place == self.place

    # ---- for Python ----

    def __iter__(self):
        return self

    def __next__(self) -> tuple[bytes, list]:
        """The next subject with its sequences; the end may be that of a `broken` walk."""
        cdef const char* subject
        cdef const unsigned char* deltas
        cdef Py_ssize_t subject_size, deltas_size
        cdef uint64_t seq, count, delta = 0, i
        if not self.next_row(&subject, &subject_size, &seq, &count, &deltas, &deltas_size):
            raise StopIteration
        sequences = [seq]
        for i in range(count - 1):
            deltas = take_varint(deltas, self.place, &delta)
            seq += delta
            sequences.append(seq)
        return subject[:subject_size], sequences


cdef class Sidecar:
    """Made by `fresh`, `of` or `parse`."""

    def __dealloc__(self):
        drop(&self.outline)

    @staticmethod
    def fresh(uint64_t base_seq) -> Sidecar:
        """That of a segment without records."""
        cdef Sidecar sidecar = Sidecar()
        if base_seq == 0:
            raise ValueError("sequences begin at 1")
        begin(&sidecar.outline, base_seq)
        return sidecar

    @staticmethod
    def of(Survey survey not None) -> Sidecar:
        """That of a segment that was surveyed."""
        cdef Sidecar sidecar = Sidecar()
        cdef bytes rows = survey.row_bytes()
        cdef const unsigned char* place = <const unsigned char*>PyBytes_AS_STRING(rows)
        sidecar.outline = survey.outline
        forget_arrays(&sidecar.outline)
        if not (
            copy(&sidecar.outline.samples, survey.outline.samples.items, survey.outline.samples.count, sizeof(Sample))
            and copy(&sidecar.outline.controls, survey.outline.controls.items, survey.outline.controls.count, 4)
            and copy(&sidecar.outline.expiries, survey.outline.expiries.items, survey.outline.expiries.count, sizeof(Expiry))
            and copy(&sidecar.outline.holes, survey.outline.holes.items, survey.outline.holes.count, sizeof(Hole))
        ):
            raise MemoryError
        sidecar.cursor = RowCursor()
        sidecar.cursor.begin(
            rows, place, place + PyBytes_GET_SIZE(rows), survey.roster.subjects.count, &sidecar.outline
        )
        return sidecar

    @staticmethod
    def parse(bytes data not None, uint64_t base_seq, uint64_t size) -> Sidecar | None:
        """That of an index file, if it is one of the segment with this base and size; else `refusal` says why not."""
        cdef Sidecar sidecar
        cdef IndexHead* head = <IndexHead*>PyBytes_AS_STRING(data)
        cdef const unsigned char* place = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef const unsigned char* end = place + PyBytes_GET_SIZE(data) - CRC_SIZE
        if refusal(data, base_seq, size):
            return None
        sidecar = Sidecar()
        begin(&sidecar.outline, head.base_seq)
        sidecar.outline.last_seq = head.last_seq
        sidecar.outline.size = head.size
        sidecar.outline.messages = head.messages
        sidecar.outline.message_bytes = head.message_bytes
        sidecar.outline.first_ts_ns = head.first_ts_ns
        sidecar.outline.last_ts_ns = head.last_ts_ns
        place += INDEX_HEADER_SIZE
        if not (
            copy(&sidecar.outline.samples, place, head.samples, sizeof(Sample))
            and copy(&sidecar.outline.controls, controls_of(head), head.controls, sizeof(uint32_t))
            and copy(&sidecar.outline.expiries, expiries_of(head), head.expiries, sizeof(Expiry))
            and copy(&sidecar.outline.holes, holes_of(head), head.holes, sizeof(Hole))
        ):
            raise MemoryError
        sidecar.cursor = RowCursor()
        sidecar.cursor.begin(
            data, <const unsigned char*>(holes_of(head) + head.holes), end, head.subjects, &sidecar.outline
        )
        return sidecar

    cpdef RowCursor take_rows(self):
        """The subjects as they were when this was made. Once: afterwards they are not here any more, and None."""
        cdef RowCursor cursor = self.cursor
        self.cursor = None
        return cursor

    # ---- while the segment grows ----

    cpdef int note(self, uint64_t seq, uint64_t pos, int64_t ts_ns, uint64_t size) except -1:
        """A message of `size` bytes was put at `pos`, behind everything else."""
        if not fits(&self.outline, seq, ts_ns) or pos < self.outline.size or pos >> OFFSET_BITS:
            raise ValueError(f"message {seq} at {pos} does not belong behind {self.outline.last_seq}")
        if not add_message(&self.outline, seq, pos, ts_ns, size):
            raise MemoryError
        return 0

    cpdef int note_expiry(self, uint64_t seq, int64_t expiry_ns) except -1:
        """The message that was just noted expires."""
        if not add_expiry(&self.outline, seq, expiry_ns):
            raise MemoryError
        return 0

    cpdef int note_control(self, uint64_t pos, uint64_t size) except -1:
        """A record that is no message was put at `pos`, behind everything else."""
        if pos < self.outline.size or pos >> OFFSET_BITS:
            raise ValueError(f"a control at {pos} does not belong behind {self.outline.size}")
        if not add_control(&self.outline, pos, size):
            raise MemoryError
        return 0

    # ---- look-ups ----

    cdef Py_ssize_t sample_before(self, uint64_t seq) noexcept nogil:
        """The last sample whose sequence is `seq` or smaller; -1: there is none, and no message either."""
        cdef Py_ssize_t low = 0, high = self.outline.samples.count, middle, reach = 1
        cdef uint64_t offset = seq - self.outline.base_seq, most
        if seq < self.outline.base_seq or high == 0:
            return -1
        most = self.sample(high - 1).seq_offset
        if offset >= most:
            return high - 1
        # Messages of one segment are much of a size: look where it should be, and from there ever further away. Each
        # sample that is looked at is most likely in no cache.
        middle = <Py_ssize_t>(offset * <uint64_t>(high - 1) // most)
        if self.sample(middle).seq_offset <= offset:
            low = middle + 1
            while low + reach < high and self.sample(low + reach).seq_offset <= offset:
                low += reach + 1
                reach *= 2
            high = min(high, low + reach)
        else:
            high = middle
            while high - reach > low and self.sample(high - reach).seq_offset > offset:
                high -= reach
                reach *= 2
            low = max(low, high - reach)
        while low < high:
            middle = (low + high) >> 1
            if self.sample(middle).seq_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    cdef Py_ssize_t sample_at_time(self, int64_t ts_ns) noexcept nogil:
        """The last sample before that time: the first message at or after it is behind, or is the first of all (-1)."""
        cdef Py_ssize_t low = 0, high = self.outline.samples.count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.sample(middle).ts_ns < ts_ns:
                low = middle + 1
            else:
                high = middle
        return low - 1

    # ---- for Python ----

    def find_seq(self, uint64_t seq) -> int:
        return self.sample_before(seq)

    def find_time(self, int64_t ts_ns) -> int:
        return self.sample_at_time(ts_ns)

    @property
    def base_seq(self) -> int:
        return self.outline.base_seq

    @property
    def last_seq(self) -> int:
        """Of messages; the base minus one: there are none."""
        return self.outline.last_seq

    @property
    def messages(self) -> int:
        return self.outline.messages

    @property
    def message_bytes(self) -> int:
        return self.outline.message_bytes

    @property
    def first_ts_ns(self) -> int:
        return self.outline.first_ts_ns

    @property
    def last_ts_ns(self) -> int:
        return self.outline.last_ts_ns

    @property
    def size(self) -> int:
        """Where the last record ends."""
        return self.outline.size

    @property
    def samples(self) -> list:
        return listed_samples(&self.outline)

    @property
    def controls(self) -> list:
        return listed_controls(&self.outline)

    @property
    def expiries(self) -> list:
        return listed_expiries(&self.outline)

    @property
    def holes(self) -> list:
        return listed_holes(&self.outline)


# ---- may an index file be used? ----


def refusal(bytes data not None, uint64_t base_seq, uint64_t size) -> str:
    """Why these bytes are no index of the segment with this base and size; "": they are one."""
    cdef const char* text = PyBytes_AS_STRING(data)
    cdef IndexHead* head = <IndexHead*>text
    cdef Py_ssize_t data_size = PyBytes_GET_SIZE(data)
    cdef uint32_t crc
    if data_size < INDEX_HEADER_SIZE + CRC_SIZE:
        return f"cut short: {data_size} bytes"
    if memcmp(head.magic, b"TIDEIDX1", 8) != 0:
        return "no index file"
    if head.crc != crc32c(text + 12, INDEX_HEADER_SIZE - 12):
        return "checksum of the header"
    if head.version != INDEX_VERSION:
        return f"version {head.version}"
    memcpy(&crc, text + data_size - CRC_SIZE, CRC_SIZE)
    if crc != crc32c(text + INDEX_HEADER_SIZE, data_size - INDEX_HEADER_SIZE - CRC_SIZE):
        return "checksum of the body"
    if base_seq == 0 or head.base_seq != base_seq:
        return f"base {head.base_seq}, not {base_seq}"
    if head.size != size:
        return f"made of {head.size} bytes, not {size}"
    if sections_size(head) > <uint64_t>data_size or not (
        sound_numbers(head) and sound_samples(head) and sound_exceptions(head)
    ):
        return "sections that do not add up"
    return ""


cdef uint64_t sections_size(IndexHead* head) noexcept nogil:
    """What the file has at least. Counts have 32 bits, so that the sum has room."""
    return (
        INDEX_HEADER_SIZE + head.samples * <uint64_t>sizeof(Sample) + head.controls * <uint64_t>sizeof(uint32_t)
        + head.expiries * <uint64_t>sizeof(Expiry) + head.holes * <uint64_t>sizeof(Hole)
        + head.subjects * <uint64_t>ROW_SIZE_LEAST + CRC_SIZE
    )


cdef inline Sample* samples_of(IndexHead* head) noexcept nogil:
    return <Sample*>(<char*>head + INDEX_HEADER_SIZE)


cdef inline uint32_t* controls_of(IndexHead* head) noexcept nogil:
    return <uint32_t*>(samples_of(head) + head.samples)


cdef inline Expiry* expiries_of(IndexHead* head) noexcept nogil:
    return <Expiry*>(controls_of(head) + head.controls)


cdef inline Hole* holes_of(IndexHead* head) noexcept nogil:
    return <Hole*>(expiries_of(head) + head.expiries)


cdef bint sound_numbers(IndexHead* head) noexcept nogil:
    """Whether the numbers of the header fit each other."""
    cdef uint64_t span = head.last_seq - (head.base_seq - 1)
    if head.size < SEGMENT_HEADER_SIZE or head.size >> OFFSET_BITS or head.zero:
        return False
    if head.messages == 0:
        return not (span or head.samples or head.subjects or head.expiries or head.holes)
    if head.last_seq < head.base_seq or (head.last_seq - head.base_seq) >> OFFSET_BITS:
        return False
    if head.messages > span or head.samples == 0 or head.subjects > head.messages or head.expiries > head.messages:
        return False
    # `message_bytes` may be more than the file has: a husk counts what is elsewhere.
    return head.last_ts_ns >= head.first_ts_ns


cdef bint sound_samples(IndexHead* head) noexcept nogil:
    """Whether samples ascend in every respect, within the segment."""
    cdef Sample* samples = samples_of(head)
    cdef uint32_t i
    for i in range(head.samples):
        if samples[i].pos < SEGMENT_HEADER_SIZE or samples[i].pos + <uint64_t>HEADER_SIZE > head.size:
            return False
        if samples[i].seq_offset > head.last_seq - head.base_seq:
            return False
        if samples[i].ts_ns < head.first_ts_ns or samples[i].ts_ns > head.last_ts_ns:
            return False
        if i and (
            samples[i].pos <= samples[i - 1].pos or samples[i].seq_offset <= samples[i - 1].seq_offset
            or samples[i].ts_ns < samples[i - 1].ts_ns
        ):
            return False
    return True


cdef bint sound_exceptions(IndexHead* head) noexcept nogil:
    """Whether controls, expiries and holes ascend, each within the segment."""
    cdef uint32_t* controls = controls_of(head)
    cdef Expiry* expiries = expiries_of(head)
    cdef Hole* holes = holes_of(head)
    cdef uint64_t floor = SEGMENT_HEADER_SIZE, missing = 0
    cdef uint32_t i
    for i in range(head.controls):
        if controls[i] < floor or controls[i] + <uint64_t>HEADER_SIZE > head.size:
            return False
        floor = controls[i] + <uint64_t>HEADER_SIZE
    floor = head.base_seq
    for i in range(head.expiries):
        if expiries[i].seq < floor or expiries[i].seq > head.last_seq:
            return False
        floor = expiries[i].seq + 1
    floor = head.base_seq
    for i in range(head.holes):
        if holes[i].first < floor or holes[i].first > head.last_seq or holes[i].count == 0:
            return False
        if holes[i].count > head.last_seq - holes[i].first:
            return False
        floor = holes[i].first + holes[i].count + 1
        missing += holes[i].count
    return head.messages == 0 or missing + head.messages == head.last_seq - head.base_seq + 1


cdef void forget_arrays(Outline* outline) noexcept nogil:
    cdef Vector empty = Vector(NULL, 0, 0)
    outline.samples = outline.controls = outline.expiries = outline.holes = empty


cdef bint copy(Vector* to, const void* items, Py_ssize_t count, size_t item_size) noexcept nogil:
    return count == 0 or append(to, items, count, item_size)


# ---- delete records ----


def encode_ranges(ranges not None) -> bytes:
    """The payload of a delete record: ascending `(first sequence, how many, bytes of their records)`."""
    cdef uint64_t floor = 0, first, count, size
    cdef unsigned char[3 * VARINT_SIZE_MOST] text
    cdef unsigned char* place
    pieces = []
    for first, count, size in ranges:
        if count == 0 or first < floor or first + count < first:
            raise ValueError(f"a range of {count} from {first} does not belong behind {floor}")
        place = put_varint(text, first - floor)
        place = put_varint(place, count)
        place = put_varint(place, size)
        pieces.append((<char*>text)[:place - text])
        floor = first + count
    return b"".join(pieces)


def decode_ranges(bytes data not None) -> list | None:
    """The ranges of a delete record's payload; None: it is none."""
    cdef const unsigned char* place = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef const unsigned char* end = place + PyBytes_GET_SIZE(data)
    cdef Range found
    cdef uint64_t floor = 0
    ranges = []
    while place < end:
        place = take_range(place, end, floor, &found)
        if place == NULL:
            return None
        ranges.append((found.first, found.count, found.size))
        floor = found.first + found.count
    return ranges
