"""One pass over the bytes of a segment, which finds everything that its index says, and what is damaged.

Promises
  * Whatever the bytes are, the pass ends, reads nothing outside of them, and takes only valid records, each once and in
    order. Damage costs the records that it hit and no more (docs/formats/log.md, "What recovery does with a segment").
  * A record that is valid and out of order (a sequence that does not ascend or is out of bounds, a message's timestamp
    that falls, a control with a subject) is damage as well: whoever reads on may rely on the order.
  * `index_bytes` depends on the records only: it is the same whenever it is made from the same bytes.
  * The pass runs without the GIL, so that it can be made in a worker thread while the loop goes on.

How: an `Outline` for the numbers and a `Roster` for the subjects, filled record by record. Nothing refers to the bytes
when the pass is over. Behind damage every position may look like the head of a large record (a client may have sent
nothing else), so that checksums there are taken from a `Stretch`, which makes the search linear.

It decides nothing: to cut a torn tail, or to call it damage, is up to the caller.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy, memset

from tidelog.base import limits
from tidelog.base.vector cimport push, release
from tidelog.log.outline cimport (
    INDEX_HEADER_SIZE, INDEX_VERSION, OFFSET_BITS, SEGMENT_HEADER_SIZE, Expiry, Hole, IndexHead, Sample, add_control,
    add_expiry, add_message, begin, drop, fits, listed_controls, listed_expiries, listed_holes, listed_samples,
)
from tidelog.log.record cimport (
    DELETE, ERASED, HAS_EXPIRY, HEADER_SIZE, MESSAGE, SKIP, TRIM, crc32c, expiry_of, head_at, plausible, subject_of, valid,
    whole_size,
)
from tidelog.log.stretch cimport Stretch

cdef Py_ssize_t RESYNC_SIZE = limits.LOG_RESYNC_SIZE


def survey(
    data not None, uint64_t base_seq, uint32_t salt, uint64_t seq_most=0xFFFF_FFFF_FFFF_FFFF, Py_ssize_t expected_end=0
) -> Survey:
    """What is in a segment whose bytes, with its header, are `data`.

    `seq_most`: no record can have a greater sequence. `expected_end`: up to there are records for certain (the size of a
    sealed segment, what was synced of an open one), so that what is none before it is damage and not a torn tail.
    """
    cdef Survey found = Survey(base_seq, salt, seq_most)
    cdef Py_buffer view
    cdef bint done
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len >> OFFSET_BITS:
            raise ValueError(f"a segment of {view.len} bytes: its positions would not fit")
        if expected_end > view.len:
            raise ValueError(f"records are expected up to {expected_end}, and there are {view.len} bytes")
        with nogil:
            done = found.run(<const char*>view.buf, view.len, expected_end)
    finally:
        PyBuffer_Release(&view)
    if not done:
        raise MemoryError
    return found


cdef class Survey:
    def __init__(self, uint64_t base_seq, uint32_t salt, uint64_t seq_most) -> None:
        if base_seq == 0:
            raise ValueError("sequences begin at 1")
        begin(&self.outline, base_seq)
        self.roster = Roster()
        self.stretch = Stretch()
        self.seen = base_seq - 1
        self.seq_most = seq_most
        self.salt = salt

    def __dealloc__(self):
        drop(&self.outline)
        release(&self.damaged)

    cdef bint run(self, const char* data, Py_ssize_t size, Py_ssize_t expected_end) noexcept nogil:
        """The pass, once. False: there is no memory."""
        cdef Py_ssize_t pos = SEGMENT_HEADER_SIZE, next_pos
        cdef Head* head
        cdef bint done
        while pos < size:
            head = head_at(data + pos)
            if not valid(data + pos, size - pos, self.salt):
                next_pos = self.search(data, size, pos, expected_end)
                if next_pos < 0:
                    break
                done = self.note_damage(pos, next_pos - pos)
            else:
                next_pos = pos + <Py_ssize_t>head.size
                if self.in_order(head):
                    done = self.take(head, pos)
                else:
                    done = self.note_damage(pos, head.size)
            if not done:
                return False
            pos = next_pos
        if pos < expected_end:
            if not self.note_damage(pos, expected_end - pos):
                return False
            pos = expected_end
        self.outline.size = pos
        self.torn_size = size - pos if size > pos else 0
        return self.roster.arrange()

    cdef bint in_order(self, Head* head) noexcept nogil:
        """Whether a valid record may stand behind those before it."""
        if head.seq > self.seq_most:
            return False
        if head.kind == MESSAGE:
            # A control may name a message that is damaged: no later one has its sequence.
            return head.seq > self.seen and fits(&self.outline, head.seq, head.ts_ns)
        if head.seq < self.seen or head.subject_size or head.header_size:
            return False
        if head.flags and (head.kind != DELETE or head.flags != ERASED):
            return False
        return (head.kind != TRIM and head.kind != SKIP) or head.size == HEADER_SIZE + sizeof(uint64_t)

    cdef bint take(self, Head* head, Py_ssize_t pos) noexcept nogil:
        """False: there is no memory."""
        self.seen = head.seq
        if head.kind != MESSAGE:
            return add_control(&self.outline, pos, head.size)
        if not add_message(&self.outline, head.seq, pos, head.ts_ns, head.size):
            return False
        # Limits and figures count what was stored, wherever it is now.
        self.outline.message_bytes += <uint64_t>whole_size(head) - <uint64_t>head.size
        # What is erased is deleted: it has no subject any more, and need not expire.
        if head.flags & ERASED:
            return True
        if head.flags & HAS_EXPIRY and not add_expiry(&self.outline, head.seq, expiry_of(head)):
            return False
        return self.roster.add(subject_of(head), head.subject_size, <uint32_t>(head.seq - self.outline.base_seq))

    cdef Py_ssize_t search(
        self, const char* data, Py_ssize_t size, Py_ssize_t pos, Py_ssize_t expected_end
    ) noexcept nogil:
        """Where the next record begins that can be taken, behind `pos` where none does; -1: not within reach."""
        cdef Py_ssize_t stop = min(max(pos + RESYNC_SIZE, expected_end), size - HEADER_SIZE + 1), at
        cdef Head* head
        for at in range(pos + 1, stop):
            head = head_at(data + at)
            if not self.seen <= head.seq <= self.seq_most or not plausible(data + at, size - at):
                continue
            if self.in_order(head) and (head.crc ^ self.salt) == self.stretch.crc(data, at + 4, at + head.size):
                return at
        return -1

    cdef bint note_damage(self, Py_ssize_t pos, Py_ssize_t size) noexcept nogil:
        """False: there is no memory."""
        cdef Damage* damage
        if self.damaged.count:
            damage = <Damage*>self.damaged.items + (self.damaged.count - 1)
            if damage.pos + damage.size == <uint64_t>pos:
                damage.size += size
                return True
        damage = <Damage*>push(&self.damaged, sizeof(Damage))
        if damage == NULL:
            return False
        damage.pos = pos
        damage.size = size
        return True

    # ---- the index file ----

    def index_bytes(self) -> bytes:
        """The index file of the segment."""
        cdef bytes index = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.index_size())
        cdef unsigned char* place = <unsigned char*>PyBytes_AS_STRING(index)
        with nogil:
            self.write_index(place)
        return index

    cdef uint64_t index_size(self) noexcept nogil:
        return (
            INDEX_HEADER_SIZE + self.outline.samples.count * sizeof(Sample) + self.outline.controls.count * sizeof(uint32_t)
            + self.outline.expiries.count * sizeof(Expiry) + self.outline.holes.count * sizeof(Hole)
            + self.roster.rows_size + sizeof(uint32_t)
        )

    cdef void write_index(self, unsigned char* place) noexcept nogil:
        """At `place`, which has room for `index_size`."""
        cdef Outline* outline = &self.outline
        cdef IndexHead head
        cdef unsigned char* body = place + INDEX_HEADER_SIZE
        cdef unsigned char* rest = body
        cdef uint32_t crc
        memset(&head, 0, sizeof(head))
        memcpy(head.magic, b"TIDEIDX1", 8)
        head.version = INDEX_VERSION
        head.base_seq = outline.base_seq
        head.last_seq = outline.last_seq
        head.size = outline.size
        head.messages = outline.messages
        head.message_bytes = outline.message_bytes
        head.first_ts_ns = outline.first_ts_ns
        head.last_ts_ns = outline.last_ts_ns
        head.samples = <uint32_t>outline.samples.count
        head.subjects = <uint32_t>self.roster.subjects.count
        head.controls = <uint32_t>outline.controls.count
        head.expiries = <uint32_t>outline.expiries.count
        head.holes = <uint32_t>outline.holes.count
        head.crc = crc32c(<char*>&head + 12, INDEX_HEADER_SIZE - 12)
        memcpy(place, &head, INDEX_HEADER_SIZE)
        rest = put_section(rest, &outline.samples, sizeof(Sample))
        rest = put_section(rest, &outline.controls, sizeof(uint32_t))
        rest = put_section(rest, &outline.expiries, sizeof(Expiry))
        rest = put_section(rest, &outline.holes, sizeof(Hole))
        rest = self.roster.write_rows(rest)
        crc = crc32c(body, rest - body)
        memcpy(rest, &crc, sizeof(crc))

    cdef bytes row_bytes(self):
        """The rows of the index file, alone."""
        cdef bytes rows = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.roster.rows_size)
        cdef unsigned char* place = <unsigned char*>PyBytes_AS_STRING(rows)
        with nogil:
            self.roster.write_rows(place)
        return rows

    # ---- for Python ----

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
    def end(self) -> int:
        """Where the last record ends; `torn_size` bytes behind it are none."""
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

    @property
    def damages(self) -> list:
        cdef Damage* damages = <Damage*>self.damaged.items
        return [(damages[i].pos, damages[i].size) for i in range(self.damaged.count)]

    @property
    def subject_count(self) -> int:
        return self.roster.subjects.count

    @property
    def subjects(self) -> dict:
        """`{subject: sequences}` in byte order."""
        return self.roster.listed(self.outline.base_seq)


cdef unsigned char* put_section(unsigned char* place, Vector* items, size_t item_size) noexcept nogil:
    if items.count:
        memcpy(place, items.items, items.count * item_size)
    return place + items.count * item_size
