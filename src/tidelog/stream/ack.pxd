"""Door to acknowledgements: what stands in their subjects and bodies."""

from libc.stdint cimport int64_t, uint64_t


cdef enum AckKind:
    ACK
    NAK
    PROGRESS
    NEXT
    TERM
    OTHER


cdef struct AckSubject:
    # `$JS.ACK.<stream>.<consumer>.<count>.<seq>.<dseq>.<ts>.<pending>`; the key lies in the subject.
    const char* key        # `<stream>.<consumer>`
    Py_ssize_t key_size
    int64_t count          # which delivery this is about; -1: no number
    int64_t seq
    int64_t dseq


cdef bint read_ack_subject(const char* subject, Py_ssize_t size, AckSubject* into) noexcept nogil
cdef AckKind ack_kind(const char* body, Py_ssize_t size) noexcept nogil
