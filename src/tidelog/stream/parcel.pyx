# cython: wraparound=True
"""A parcel: the messages of an atomic batch that wait for its commit, in one block of memory.

No object is made for a message that asks for nothing but to be in its batch: `Intake` puts it here as it came, and takes
it from here into the log.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from tidelog.base import limits
from tidelog.base.vector cimport append, release, reserve


cdef class Staged:
    """How much waits in all batches of a server, and how many fast ones run."""

    def __init__(self) -> None:
        self.most = limits.ATOMIC_BATCHES_SIZE


cdef class Parcel:
    def __init__(self, bytes batch_id not None, Py_ssize_t most) -> None:
        self.batch_id = batch_id
        self.most = most
        self.plain = True

    def __dealloc__(self):
        release(&self.data)

    cdef int put(
        self, const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size,
    ) except -1:
        cdef PartSize sizes
        if not reserve(&self.data, sizeof(PartSize) + subject_size + header_size + payload_size, 1):
            raise MemoryError
        sizes.subject = <uint32_t>subject_size
        sizes.header = <uint32_t>header_size
        sizes.payload = <uint32_t>payload_size
        self.last = self.data.count
        append(&self.data, &sizes, sizeof(PartSize), 1)
        append(&self.data, subject, subject_size, 1)
        append(&self.data, header, header_size, 1)
        append(&self.data, payload, payload_size, 1)
        self.count += 1
        self.size += subject_size + header_size + payload_size
        return 0

    def add(self, bytes subject not None, bytes header not None, bytes payload not None) -> None:
        self.put(
            PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header),
            PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )

    def set_last_header(self, bytes header not None) -> None:
        """The newest message has another header; what that weighs is not counted."""
        subject, _, payload = self.parts()[-1]
        size = self.size
        self.data.count = self.last
        self.count -= 1
        self.add(subject, header, payload)
        self.size = size

    def parts(self) -> list:
        """Subject, header and payload of each."""
        cdef Py_ssize_t at = 0
        cdef PartSize sizes
        cdef char* place
        cdef list parts = []
        while at < self.data.count:
            memcpy(&sizes, self.data.items + at, sizeof(PartSize))
            place = self.data.items + at + sizeof(PartSize)
            parts.append((
                place[:sizes.subject], place[sizes.subject:sizes.subject + sizes.header],
                place[sizes.subject + sizes.header:sizes.subject + sizes.header + sizes.payload],
            ))
            at += sizeof(PartSize) + sizes.subject + sizes.header + sizes.payload
        return parts
