"""A record: one message, or one fact about messages, as it lies in a segment. docs/formats/log.md has the bytes.

Promises
  * `valid` says yes only to what `encode` wrote, unaltered: the checksum covers header and body, but for itself.
  * Checksums are salted by log (`salt`): bytes that somebody sends as a payload cannot pass for a record of the log that
    stores them, whatever is torn or damaged around them.
  * `resync` finds the first valid record behind damage, so that damage costs the records that it hit and no more.

Records are read where they lie. Nothing here allocates, opens or remembers.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from tidelog.base import limits

cdef extern from "crc32c.h":
    void tidelog_crc32c_prepare() nogil
    uint32_t tidelog_crc32c(const void* data, size_t size) nogil
    uint32_t tidelog_crc32c_by_table(const unsigned char* data, size_t size) nogil

tidelog_crc32c_prepare()

cdef Py_ssize_t SALT_SEARCH = limits.SALT_SEARCH_SIZE

RECORD_HEADER_SIZE = HEADER_SIZE


cdef uint32_t crc32c(const void* data, size_t size) noexcept nogil:
    return tidelog_crc32c(data, size)


cdef int64_t expiry_of(Head* head) noexcept nogil:
    """When the message expires; 0: never."""
    cdef int64_t expiry_ns = 0
    if head.flags & HAS_EXPIRY:
        memcpy(&expiry_ns, <const char*>head + HEADER_SIZE, EXPIRY_SIZE)
    return expiry_ns


cdef Py_ssize_t encoded_size(
    Py_ssize_t subject_size, Py_ssize_t header_size, Py_ssize_t payload_size, bint expires
) noexcept nogil:
    return HEADER_SIZE + (EXPIRY_SIZE if expires else 0) + subject_size + header_size + payload_size


cdef void seal_record(Head* head, uint32_t salt) noexcept nogil:
    head.crc = tidelog_crc32c(<const char*>head + 4, head.size - 4) ^ salt


cdef Head* encode(
    char* place, uint32_t salt, uint64_t seq, int64_t ts_ns, int64_t expiry_ns,
    const char* subject, Py_ssize_t subject_size,
    const char* header, Py_ssize_t header_size,
    const char* payload, Py_ssize_t payload_size,
) noexcept nogil:
    """A message at `place`, which has room for `encoded_size`."""
    cdef Head* head = <Head*>place
    cdef char* rest = place + HEADER_SIZE
    head.size = <uint32_t>encoded_size(subject_size, header_size, payload_size, expiry_ns != 0)
    head.seq = seq
    head.ts_ns = ts_ns
    head.kind = MESSAGE
    head.flags = 0
    head.subject_size = <uint16_t>subject_size
    head.header_size = <uint32_t>header_size
    if expiry_ns:
        head.flags = HAS_EXPIRY
        memcpy(rest, &expiry_ns, EXPIRY_SIZE)
        rest += EXPIRY_SIZE
    memcpy(rest, subject, subject_size)
    rest += subject_size
    if header_size:
        memcpy(rest, header, header_size)
        rest += header_size
    memcpy(rest, payload, payload_size)
    seal_record(head, salt)
    return head


cdef Head* encode_control(
    char* place, uint32_t salt, int kind, int flags, uint64_t seq, int64_t ts_ns, const char* payload,
    Py_ssize_t payload_size,
) noexcept nogil:
    """A record of another kind; `place` has room for HEADER_SIZE and the payload."""
    cdef Head* head = <Head*>place
    head.size = <uint32_t>(HEADER_SIZE + payload_size)
    head.seq = seq
    head.ts_ns = ts_ns
    head.kind = <uint8_t>kind
    head.flags = <uint8_t>flags
    head.subject_size = 0
    head.header_size = 0
    memcpy(place + HEADER_SIZE, payload, payload_size)
    seal_record(head, salt)
    return head


cdef bint plausible(const char* data, Py_ssize_t room) noexcept nogil:
    """What can be said of a record without its checksum, in O(1)."""
    cdef Head* head = <Head*>data
    if room < HEADER_SIZE or head.size < HEADER_SIZE or head.size > <uint64_t>room:
        return False
    if head.kind < MESSAGE or head.kind > SKIP or head.flags > (HAS_EXPIRY | ERASED | SHELL):
        return False
    if head.flags & SHELL and (
        head.kind != MESSAGE or head.header_size
        or <uint64_t>front_size(head) + head.subject_size + SHELL_SIZE != head.size
    ):
        return False
    return <uint64_t>front_size(head) + head.subject_size + head.header_size <= head.size


cdef bint valid(const char* data, Py_ssize_t room, uint32_t salt) noexcept nogil:
    """Whether a record begins at `data` and lies in the `room` bytes there."""
    if not plausible(data, room):
        return False
    return ((<Head*>data).crc ^ salt) == tidelog_crc32c(data + 4, (<Head*>data).size - 4)


cdef Py_ssize_t find_message(const char* data, Py_ssize_t size, uint64_t seq, uint32_t salt) noexcept nogil:
    """Where the valid message `seq` begins in bytes that begin with a record; -1: the sizes do not lead to it.

    Only that record is read from end to end, those before it are passed by what they say of their size.
    """
    cdef Py_ssize_t at = 0
    cdef Head* head
    while plausible(data + at, size - at):
        head = <Head*>(data + at)
        if head.kind == MESSAGE and head.seq >= seq:
            return at if head.seq == seq and valid(data + at, size - at, salt) else -1
        at += head.size
    return -1


cdef Py_ssize_t resync(
    const char* data, Py_ssize_t size, Py_ssize_t start, uint32_t salt, uint64_t seq_least, uint64_t seq_most
) noexcept nogil:
    """Where, from `start` on, the first valid record with a sequence in the bounds begins; -1: nowhere.

    Reads whatever looks like a record, each time from end to end: for bytes that are few. `survey` has its own search.
    """
    cdef Py_ssize_t at
    cdef Head* head
    for at in range(start, size - HEADER_SIZE + 1):
        head = <Head*>(data + at)
        if seq_least <= head.seq <= seq_most and valid(data + at, size - at, salt):
            return at
    return -1


# ---- for Python: tests and tools ----


def checksum(bytes data not None) -> int:
    return tidelog_crc32c(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def checksum_by_table(bytes data not None) -> int:
    return tidelog_crc32c_by_table(<const unsigned char*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def encode_message(
    uint64_t seq, int64_t ts_ns, bytes subject not None, bytes header not None, bytes payload not None,
    int64_t expiry_ns=0, uint32_t salt=0
) -> bytes:
    cdef Py_ssize_t size = encoded_size(len(subject), len(header), len(payload), expiry_ns != 0)
    cdef bytes record = PyBytes_FromStringAndSize(NULL, size)
    encode(
        PyBytes_AS_STRING(record), salt, seq, ts_ns, expiry_ns,
        PyBytes_AS_STRING(subject), len(subject), PyBytes_AS_STRING(header), len(header),
        PyBytes_AS_STRING(payload), len(payload),
    )
    return record


def encode_fact(
    int kind, uint64_t seq, int64_t ts_ns, bytes payload not None, uint32_t salt=0, int flags=0
) -> bytes:
    cdef bytes record = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + len(payload))
    encode_control(PyBytes_AS_STRING(record), salt, kind, flags, seq, ts_ns, PyBytes_AS_STRING(payload), len(payload))
    return record


def is_valid(bytes data not None, Py_ssize_t pos=0, uint32_t salt=0) -> bool:
    return valid(PyBytes_AS_STRING(data) + pos, PyBytes_GET_SIZE(data) - pos, salt)


def find_valid(bytes data not None, Py_ssize_t start, uint64_t seq_least, uint64_t seq_most, uint32_t salt=0) -> int:
    return resync(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start, salt, seq_least, seq_most)


def find_salt(bytes data not None, Py_ssize_t pos) -> int | None:
    """The salt under which the longest row of records from `pos` on is valid. One alone proves nothing: it is valid under
    some salt whatever its bytes are.
    """
    cdef const char* place = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), left = SALT_SEARCH, longest = 0, count, end
    cdef uint32_t salt, found = 0
    while pos <= size - HEADER_SIZE and left > 0:
        if not plausible(place + pos, size - pos):
            pos += 1
            continue
        end = pos + head_at(place + pos).size
        left -= end - pos
        salt = head_at(place + pos).crc ^ tidelog_crc32c(place + pos + 4, end - pos - 4)
        count = 1
        while valid(place + end, size - end, salt):
            end += head_at(place + end).size
            count += 1
        if count == 1:
            pos += 1
            continue
        if end - pos > longest:
            longest, found = end - pos, salt
        pos = end
    return found if longest else None


def decode(bytes data not None, Py_ssize_t pos=0, uint32_t salt=0) -> dict:
    """The fields of the valid record at `pos`."""
    if not is_valid(data, pos, salt):
        raise ValueError(f"no valid record at {pos}")
    cdef Head* head = head_at(PyBytes_AS_STRING(data) + pos)
    cdef const char* body = body_of(head)
    return {
        "size": head.size,
        "seq": head.seq,
        "ts_ns": head.ts_ns,
        "kind": head.kind,
        "flags": head.flags,
        "expiry_ns": expiry_of(head),
        "subject": subject_of(head)[:head.subject_size],
        "header": body[:head.header_size],
        "payload": body[head.header_size:body_size(head)],
    }
