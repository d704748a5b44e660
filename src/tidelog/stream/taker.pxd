"""Door to takers: which consumers want a message, where what nobody wants is not kept."""

from libc.stdint cimport uint64_t

from tidelog.log.log cimport Log
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Subscriber


cdef class Taker(Subscriber):
    cdef object consumer
    cdef list subscriptions


cdef class Takers:
    cdef Interest interest
    cdef dict takers                     # consumer -> Taker
    cdef dict known                      # subject -> list of the consumers that want it
    cdef dict places                     # seq -> (such a list, who of it still needs the message)

    cdef list of(self, bytes subject)
    cdef bint wants(self, const char* subject, Py_ssize_t size) except -1
    cdef bint is_free(self, uint64_t seq, Log log) except -1
