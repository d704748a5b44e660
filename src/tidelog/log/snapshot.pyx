# cython: wraparound=True
"""The whole index of a log in one file, written when it is closed, so that opening it reads no messages.

A snapshot is used only if it belongs to exactly what is in the directory: the same log, the same segments, the same last
record. It is removed before the log is changed, so that it cannot be taken for true later. docs/formats/log.md has the bytes.
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from tidelog.base.varint cimport VARINT_SIZE_MOST, put_varint
from tidelog.log.index cimport SubjectIndex
from tidelog.log.outline cimport Outline, begin
from tidelog.log.posting cimport PostingTable
from tidelog.log.header import index_path, write_index
from tidelog.log.record import checksum
from tidelog.log.sidecar cimport RowCursor
from tidelog.log.store cimport Store
from tidelog.log.survey import survey

MAGIC = b"TIDESNP1"
VERSION = 1
FILE_NAME = "snapshot"
# log id, crc of the header of the last segment's tail, segments, first, last, messages, size, last time, subjects,
# deleted ranges, lost ranges, expiries
_HEAD = struct.Struct("<I16sIQQQQQqQQQQ")
_PAIR = struct.Struct("<QQ")
_SEGMENT = struct.Struct("<QQQQ")
# The end of the last segment, whose checksum tells whether it is still the same.
TAIL_SIZE = 4096

cdef enum:
    SNAPSHOT_BASE = 1

cdef struct Rows:
    PyObject* lists
    unsigned char* data
    Py_ssize_t size
    Py_ssize_t room
    bint failed


cdef bint visit_row(void* context, const char* key, Py_ssize_t size, uint32_t slot) noexcept nogil:
    cdef Rows* rows = <Rows*>context
    cdef Py_ssize_t needed = 2 + size + 3 * VARINT_SIZE_MOST + (<PostingTable>rows.lists).encoded_room(slot), room
    cdef Py_ssize_t deltas_size
    cdef unsigned char* grown
    cdef unsigned char* place
    cdef unsigned char* deltas
    if rows.room - rows.size < needed:
        room = rows.room * 2 + needed
        grown = <unsigned char*>realloc(rows.data, room)
        if grown == NULL:
            rows.failed = True
            return False
        rows.data = grown
        rows.room = room
    place = rows.data + rows.size
    place[0] = size & 0xFF
    place[1] = (size >> 8) & 0xFF
    memcpy(place + 2, key, size)
    place += 2 + size
    # Their size stands in front of the distances, so they are moved up once it is known.
    deltas = place + 3 * VARINT_SIZE_MOST
    deltas_size = (<PostingTable>rows.lists).encode(slot, deltas)
    place = put_varint(place, (<PostingTable>rows.lists).size(slot))
    place = put_varint(place, (<PostingTable>rows.lists).first(slot) - SNAPSHOT_BASE)
    place = put_varint(place, deltas_size)
    memmove(place, deltas, deltas_size)
    rows.size = place + deltas_size - rows.data
    return True


cdef bytes rows_of(SubjectIndex index):
    cdef Rows rows
    rows.lists = <PyObject*>index.lists
    rows.room = 1 << 16
    rows.size = 0
    rows.failed = False
    rows.data = <unsigned char*>malloc(rows.room)
    if rows.data == NULL:
        raise MemoryError
    try:
        index.tree.walk(visit_row, &rows)
        if rows.failed:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char*>rows.data, rows.size)
    finally:
        free(rows.data)


def tail_checksum(file, size) -> int:
    start_pos = max(0, size - TAIL_SIZE)
    return checksum(file.read(start_pos, size - start_pos))


def segment_figures(Store store not None) -> list:
    return [
        (segment.base_seq, segment.side.size, segment.dead_count, segment.dead_size) for segment in store.segments
    ]


def encode_snapshot(Store store not None, expiries) -> bytes:
    """Everything but what is in the segments' own index files."""
    segments = segment_figures(store)
    deleted, lost, due = store.deleted.ranges(), store.lost.ranges(), expiries.listed()
    last = store.segments[-1]
    head = _HEAD.pack(
        VERSION, store.log_id, tail_checksum(last.file_now(), last.side.size), len(segments), store.first_seq,
        store.last_seq, store.count, store.size, store.last_ts_ns, store.index.tree.count, len(deleted), len(lost), len(due),
    )
    body = b"".join([
        head,
        *(_SEGMENT.pack(*figures) for figures in segments),
        *(_PAIR.pack(*pair) for pair in (*deleted, *lost, *due)),
        rows_of(store.index),
    ])
    return MAGIC + checksum(body).to_bytes(4, "little") + body


def write_snapshot(disk, str directory, log) -> None:
    """Leave everything so that opening it reads indexes only: of the last segment, and of the whole."""
    last = log.store.segments[-1]
    write_index(
        disk, index_path(directory, last.base_seq),
        survey(last.file_now().read(0, last.side.size), last.base_seq, log.store.log_salt).index_bytes(),
    )
    write_index(disk, f"{directory}/{FILE_NAME}", encode_snapshot(log.store, log.expiries))


class Contents:
    """What a snapshot says that has no `damage`, but for the subjects, which `take_rows` hands out."""

    def __init__(self, bytes data not None) -> None:
        cdef Py_ssize_t pos = 12 + _HEAD.size
        (
            self.version, self.log_id, self.tail_checksum, segments, self.first_seq, self.last_seq, self.messages, self.size,
            self.last_ts_ns, self.subjects, deleted, lost, due,
        ) = _HEAD.unpack_from(data, 12)
        # Base, size, and what is deleted of it: messages, and bytes of their records.
        self.segments = [_SEGMENT.unpack_from(data, pos + number * _SEGMENT.size) for number in range(segments)]
        pos += segments * _SEGMENT.size
        pairs = [_PAIR.unpack_from(data, pos + number * _PAIR.size) for number in range(deleted + lost + due)]
        self.deleted = pairs[:deleted]
        self.lost = pairs[deleted:deleted + lost]
        # When, and which.
        self.expiries = pairs[deleted + lost:]
        self.data = data
        self.rows_pos = pos + len(pairs) * _PAIR.size

    def mismatch(self, bytes log_id not None, list segments not None, tail: int) -> str:
        """Why it is not of a log with these segments (base, size) and this end; "": it is."""
        if self.log_id != log_id:
            return "of another log"
        if [row[:2] for row in self.segments] != segments:
            return "made of other segments"
        return "" if self.tail_checksum == tail else "made of another end of the last segment"

    def take_rows(self) -> RowCursor:
        cdef Outline outline
        cdef RowCursor cursor = RowCursor()
        cdef bytes data = self.data
        cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t pos = self.rows_pos
        begin(&outline, SNAPSHOT_BASE)
        outline.last_seq = self.last_seq
        outline.messages = self.messages
        cursor.begin(data, start + pos, start + PyBytes_GET_SIZE(data), self.subjects, &outline)
        return cursor


def segment_bases(file) -> list:
    """The segments that a snapshot is of, as far as it can be told from its beginning, which may be damaged."""
    head = file.read(12, _HEAD.size)
    if len(head) < _HEAD.size:
        return []
    count = min(_HEAD.unpack(head)[3], file.size // _SEGMENT.size)
    rows = file.read(12 + _HEAD.size, count * _SEGMENT.size)
    return [row[0] for row in _SEGMENT.iter_unpack(rows[: len(rows) // _SEGMENT.size * _SEGMENT.size])]


def damage(bytes data not None) -> str:
    """Why these bytes are no snapshot that can be read; "": they are one."""
    if len(data) < 12 + _HEAD.size:
        return f"cut short: {len(data)} bytes"
    if data[:8] != MAGIC:
        return "no snapshot"
    if int.from_bytes(data[8:12], "little") != checksum(data[12:]):
        return "checksum"
    version = _HEAD.unpack_from(data, 12)[0]
    return "" if version == VERSION else f"version {version}"


def load_snapshot(bytes data not None, Store store not None, expiries) -> bool:
    """Make the index of `store`, whose segments are there already, what the snapshot says. False: it is of something else."""
    last = store.segments[-1]
    if damage(data):
        return False
    contents = Contents(data)
    if contents.mismatch(
        store.log_id, [row[:2] for row in segment_figures(store)], tail_checksum(last.file_now(), last.side.size)
    ):
        return False
    if not load_rows(store, contents.take_rows()):
        return False
    for segment, (_, _, dead_count, dead_size) in zip(store.segments, contents.segments):
        segment.dead_count, segment.dead_size = dead_count, dead_size
    for start_seq, end_seq in contents.deleted:
        store.deleted.add_range(start_seq, end_seq)
    for start_seq, end_seq in contents.lost:
        store.lost.add_range(start_seq, end_seq)
    for expiry_ns, seq in contents.expiries:
        expiries.add(expiry_ns, seq)
    store.set_figures(contents.first_seq, contents.last_seq, contents.messages, contents.size, contents.last_ts_ns)
    return True


cpdef bint load_rows(Store store, RowCursor cursor) except -1:
    """Take all rows into the index, without what the store says is not there. False: they are not right."""
    cdef const char* subject
    cdef const unsigned char* deltas
    cdef Py_ssize_t subject_size, deltas_size
    cdef uint64_t first_seq, count, seq, i
    cdef uint64_t last_seq = cursor.base_seq + cursor.offset_most
    cdef SubjectIndex index = store.index
    cdef bint whole = (
        cursor.base_seq >= store.first_seq
        and store.deleted.count_range(cursor.base_seq, last_seq + 1) == 0
        and store.lost.count_range(cursor.base_seq, last_seq + 1) == 0
    )
    if whole:
        # Without the GIL, so that several logs are opened side by side.
        with nogil:
            while cursor.next_row(&subject, &subject_size, &first_seq, &count, &deltas, &deltas_size):
                index.extend(subject, subject_size, first_seq, count, deltas, deltas_size)
        return not cursor.broken
    while cursor.next_row(&subject, &subject_size, &first_seq, &count, &deltas, &deltas_size):
        seq = first_seq
        for i in range(count):
            if i:
                seq += next_delta(&deltas)
            if not (seq < store.first_seq or store.deleted.contains(seq) or store.lost.contains(seq)):
                store.index.add(subject, subject_size, seq)
    return not cursor.broken


cdef inline uint64_t next_delta(const unsigned char** place) noexcept nogil:
    """A varint that was checked before."""
    cdef uint64_t value = 0
    cdef int shift = 0
    while place[0][0] & 0x80:
        value |= <uint64_t>(place[0][0] & 0x7F) << shift
        shift += 7
        place[0] += 1
    value |= <uint64_t>place[0][0] << shift
    place[0] += 1
    return value
