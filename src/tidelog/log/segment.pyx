"""A segment: one file of records, and what is kept in memory to find them.

`side` knows where about every 4 KiB a message begins, so a look-up reads from the sample before it. Positions are those of
the plain records also where the file is packed. Of a husk the file has shells; while the segment itself is here as well,
that is another one, `warm`.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING

from tidelog.base import limits
from tidelog.disk.memory import MemoryFile
from tidelog.log.tail cimport parse_run, pick_from, pick_message
from tidelog.log.outline cimport SEGMENT_HEADER_SIZE, Sample
from tidelog.log.packed import PackedFile
from tidelog.log.plain import open_plain, read_range

cdef uint64_t DEAD_PERCENT = limits.COMPACT_DEAD_PERCENT
cdef uint64_t DEAD_SIZE = limits.COMPACT_DEAD_SIZE


cdef class Segment:
    def __init__(self, disk, str path, uint64_t base_seq, Sidecar side not None, file, keys, bint sealed) -> None:
        self.disk = disk
        self.path = path
        self.base_seq = base_seq
        self.side = side
        self.file = file
        self.packed = isinstance(file, PackedFile)
        self.keys = keys
        self.sealed = sealed
        self.repaired = set()
        self.heard = []

    cdef object opened(self):
        if self.file is None:
            self.file = open_plain(self.disk, self.path, self.keys)
            self.packed = isinstance(self.file, PackedFile)
            if self.packed:
                self.file.on_repair = self.note_repair
        return self.file

    def note_repair(self, pos: int) -> None:
        """The packed file is wrong there, and was read right."""
        if pos not in self.repaired:
            self.repaired.add(pos)
            self.heard.append((self, pos))

    def file_now(self) -> object:
        """The file, opened if it was closed."""
        return self.opened()

    def is_open(self) -> bool:
        return self.file is not None

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def close_if_sealed(self) -> None:
        if self.sealed:
            self.close()

    def set_sealed(self) -> None:
        self.sealed = True

    cpdef bint is_sparse(self, uint64_t percent=DEAD_PERCENT):
        """Whether it is complete, and so much in it is deleted that it should be rewritten."""
        return (
            self.sealed and not self.husk and self.dead_size >= DEAD_SIZE
            and self.dead_size * 100 >= self.side.outline.message_bytes * percent
        )

    def set_keys(self, keys) -> None:
        """From the next time on that the file is opened."""
        self.close_if_sealed()
        self.keys = keys

    def replace(self, Sidecar side not None, uint64_t gone_count, uint64_t gone_size, bint packed) -> None:
        """The file was rewritten, without so many dead messages, and has this index now."""
        self.close()
        self.side = side
        self.packed = packed
        self.noted = False
        self.repaired.clear()
        self.dead_count -= gone_count
        self.dead_size -= gone_size

    cdef uint64_t live_size(self) noexcept:
        """Bytes of the messages that are not deleted, wherever they are."""
        cdef uint64_t size = self.side.outline.message_bytes
        return size - self.dead_size if self.dead_size < size else 0

    cdef int begin_again(self) except -1:
        """There are no messages in it any more."""
        self.side = Sidecar.fresh(self.base_seq)
        self.noted = False
        self.dead_count = 0
        self.dead_size = 0
        return 0

    def place_of(self, uint64_t seq) -> tuple:
        """Between which positions a message is, if it is there."""
        cdef Sample* samples = self.side.sample(0)
        cdef Py_ssize_t first = self.side.sample_before(seq)
        cdef uint64_t end_pos = self.end_pos()
        if first < 0:
            # Or was, and is in front of all that is whole.
            return SEGMENT_HEADER_SIZE, min(end_pos, samples[0].pos) if self.side.outline.samples.count else end_pos
        if first + 1 < self.side.outline.samples.count:
            end_pos = min(end_pos, samples[first + 1].pos)
        return samples[first].pos, end_pos

    cdef Run read_one(self, uint64_t seq, uint32_t salt):
        """The message `seq` and no other; None: it is not found at once, and `read_around` looks more closely."""
        cdef Sample* samples = self.side.sample(0)
        cdef Py_ssize_t first = self.side.sample_before(seq)
        cdef uint64_t end_pos
        cdef bytearray data
        if first < 0:
            return None
        end_pos = self.end_pos()
        if first + 1 < self.side.outline.samples.count:
            end_pos = min(end_pos, samples[first + 1].pos)
        if end_pos <= samples[first].pos:
            return None
        file = self.opened()
        if type(file) is MemoryFile:
            # In place: most of what would be copied is not the message.
            data = file.data
            return pick_from(
                PyByteArray_AS_STRING(data) + samples[first].pos, end_pos - samples[first].pos, samples[first].pos,
                salt, seq,
            )
        return pick_message(
            read_range(file, samples[first].pos, end_pos - samples[first].pos), samples[first].pos, salt, seq
        )

    cdef Run read_around(self, uint64_t seq, Py_ssize_t wanted, bint backward, uint32_t salt, bint erased=False):
        """The messages from the sample before `seq` on, or back from the one behind it, in about `wanted` bytes.

        What is not written yet is not there: that is in the tail.
        """
        cdef Sample* samples = self.side.sample(0)
        cdef Py_ssize_t count = self.side.outline.samples.count
        cdef Py_ssize_t first = self.side.sample_before(seq), end
        cdef uint64_t start_pos, end_pos
        cdef object file = self.opened()
        if first < 0:
            first = 0
        if first >= count:
            return None
        end = first + 1
        if backward:
            end_pos = samples[end].pos if end < count else self.end_pos()
            while first > 0 and end_pos - samples[first - 1].pos <= <uint64_t>wanted:
                first -= 1
        else:
            while end < count and samples[end].pos - samples[first].pos < <uint64_t>wanted:
                end += 1
            end_pos = samples[end].pos if end < count else self.end_pos()
        start_pos = samples[first].pos
        end_pos = min(end_pos, self.end_pos())
        if end_pos <= start_pos:
            return None
        return parse_run(
            read_range(file, start_pos, end_pos - start_pos), start_pos, salt,
            self.base_seq + samples[first].seq_offset, self.side.outline.last_seq, erased,
        )

    cdef Run read_back(self, uint64_t seq, Py_ssize_t wanted, bint backward, uint32_t salt):
        """Either of the two, of a segment that has come back, and whose messages are all in it."""
        cdef Run run = self.read_one(seq, salt) if wanted < 0 else None
        return run if run is not None else self.read_around(seq, wanted, backward, salt)

    cdef uint64_t sequence_before(self, uint64_t pos) noexcept:
        """Of the last sample that is not behind `pos`; the base, if there is none."""
        cdef Py_ssize_t at = self.sample_from(pos + 1)
        return self.base_seq + (self.side.sample(at - 1).seq_offset if at else 0)

    cdef uint64_t sequence_from(self, uint64_t pos) noexcept:
        """Of the first sample at `pos` or behind it; behind the last message, if there is none."""
        cdef Py_ssize_t at = self.sample_from(pos)
        if at == self.side.outline.samples.count:
            return self.side.outline.last_seq + 1
        return self.base_seq + self.side.sample(at).seq_offset

    cdef Py_ssize_t sample_from(self, uint64_t pos) noexcept:
        """The first sample at `pos` or behind it."""
        cdef Py_ssize_t low = 0, high = self.side.outline.samples.count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.side.sample(middle).pos < pos:
                low = middle + 1
            else:
                high = middle
        return low

    cdef uint64_t end_pos(self) except? 0:
        return self.side.outline.size if self.sealed else self.opened().size
