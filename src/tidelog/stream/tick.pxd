"""Door to the tick: which streams took something since the last commit, and what time it is."""

from libc.stdint cimport int64_t

from tidelog.subject.route cimport Subscriber


cdef class Tick:
    cdef object clock
    cdef public object wake          # called when the first stream comes
    cdef list waiting
    cdef int64_t stamp_ns            # 0: nobody has asked yet
    cdef Subscriber publisher        # whose messages carry the stamp

    cdef int64_t now_ns(self, Subscriber publisher) except? 0
    cpdef int touch(self, stream) except -1
    cpdef list take(self)
