"""Door to records: laid over bytes, never copied out of them."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    HEADER_SIZE = 32
    EXPIRY_SIZE = 8
    # Behind the subject of a shell: the size of the whole record, uint32.
    SHELL_SIZE = 4

cdef enum Kind:
    MESSAGE = 1
    DELETE = 2
    TRIM = 3
    SKIP = 4

cdef enum Flag:
    HAS_EXPIRY = 1
    ERASED = 2
    SHELL = 4            # headers and payload are elsewhere

# An expiry that never comes: retention by age passes the message, too.
cdef enum:
    FOREVER = 0x7FFF_FFFF_FFFF_FFFF

# The header as it lies in the file. The machines that we run on are little-endian.
cdef packed struct Head:
    uint32_t crc
    uint32_t size
    uint64_t seq
    int64_t ts_ns
    uint8_t kind
    uint8_t flags
    uint16_t subject_size
    uint32_t header_size

cdef inline Head* head_at(const char* data) noexcept nogil:
    return <Head*>data

cdef inline Py_ssize_t front_size(Head* head) noexcept nogil:
    """Bytes before the subject."""
    return HEADER_SIZE + (EXPIRY_SIZE if head.flags & HAS_EXPIRY else 0)

cdef inline const char* subject_of(Head* head) noexcept nogil:
    return <const char*>head + front_size(head)

cdef inline const char* body_of(Head* head) noexcept nogil:
    """Headers and payload."""
    return <const char*>head + front_size(head) + head.subject_size

cdef inline Py_ssize_t body_size(Head* head) noexcept nogil:
    return <Py_ssize_t>head.size - front_size(head) - head.subject_size

cdef inline uint32_t whole_size(Head* head) noexcept nogil:
    """Of the record as it was stored, of which this may be a shell."""
    return (<uint32_t*>body_of(head))[0] if head.flags & SHELL else head.size

cdef int64_t expiry_of(Head* head) noexcept nogil

cdef uint32_t crc32c(const void* data, size_t size) noexcept nogil
cdef Py_ssize_t encoded_size(
    Py_ssize_t subject_size, Py_ssize_t header_size, Py_ssize_t payload_size, bint expires
) noexcept nogil
cdef void seal_record(Head* head, uint32_t salt) noexcept nogil
cdef Head* encode(
    char* place, uint32_t salt, uint64_t seq, int64_t ts_ns, int64_t expiry_ns,
    const char* subject, Py_ssize_t subject_size,
    const char* header, Py_ssize_t header_size,
    const char* payload, Py_ssize_t payload_size,
) noexcept nogil
cdef Head* encode_control(
    char* place, uint32_t salt, int kind, int flags, uint64_t seq, int64_t ts_ns, const char* payload,
    Py_ssize_t payload_size,
) noexcept nogil
cdef bint plausible(const char* data, Py_ssize_t room) noexcept nogil
cdef bint valid(const char* data, Py_ssize_t room, uint32_t salt) noexcept nogil
cdef Py_ssize_t find_message(const char* data, Py_ssize_t size, uint64_t seq, uint32_t salt) noexcept nogil
cdef Py_ssize_t resync(
    const char* data, Py_ssize_t size, Py_ssize_t start, uint32_t salt, uint64_t seq_least, uint64_t seq_most
) noexcept nogil
