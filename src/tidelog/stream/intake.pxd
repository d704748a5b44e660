"""Door to intake: what a stream does with the messages that it is given."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.stream.check cimport Checks, Draft
from tidelog.stream.publish cimport Fields
from tidelog.subject.route cimport Subscriber, Target
from tidelog.wire.parser cimport Message


cdef class Intake(Checks):
    cdef int mark(self) except -1
    cdef int store(self, Draft* draft, Fields* fields, bytes tail=*) except -1
    cdef uint64_t append(self, Draft* draft, Fields* fields) except 0
    cdef uint64_t put(self, Draft* draft) except 0
    cdef int answer(self, Draft* draft, bytes text) except -1
    cdef int consider(self, Draft* draft, Fields* fields) except -1
    cdef int hand_over(self, Draft* draft, Fields* fields) except -1
    cdef bint pack(self, Draft* draft, Fields* fields) except -1
    cdef int draw_up(self, Draft* draft, Fields* fields, bytes subject, bytes header, bytes payload) except -1
    cdef int keep(self, Draft* draft, Fields* fields, bytes tail) except -1
    cdef int roll_up(self, Draft* draft, Fields* fields, uint64_t seq) except -1
    cdef bint wanted(self, const char* subject, Py_ssize_t size) except -1


cdef bint is_fast(Draft* draft) noexcept nogil
