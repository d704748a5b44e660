"""Door to parcels: the messages of a batch that wait for its commit."""

from libc.stdint cimport int64_t, uint32_t

from tidelog.base.vector cimport Vector

cdef packed struct PartSize:
    uint32_t subject
    uint32_t header
    uint32_t payload


cdef class Staged:
    cdef public Py_ssize_t batches
    cdef public Py_ssize_t fast_batches
    cdef public int64_t size
    cdef public int64_t most             # bytes of all of them


cdef class Parcel:
    cdef readonly bytes batch_id
    cdef public bint plain               # none of its messages asks for anything else
    cdef public int64_t due_ns           # when it is given up
    cdef int64_t ts_ns                   # of the burst in which something came last
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t most        # messages that it may have
    cdef readonly int64_t size           # bytes of what came
    cdef Vector data                     # PartSize, subject, header, payload, one message behind the other
    cdef Py_ssize_t last                 # where the newest one begins

    cdef int put(
        self, const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size,
    ) except -1
