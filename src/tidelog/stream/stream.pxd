"""Door to streams."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.stream.intake cimport Intake


cdef class Stream(Intake):
    cdef readonly int64_t created_ns
    cdef public int64_t due_ns           # when the engine looks at the log next; 0: never
    cdef bint refusing                   # the log takes nothing, and the operator was told
    cdef str cold_trouble                # why the cold tier does not do what it should, and the operator was told
    cdef list subscriptions
    cdef readonly object feeds           # Feeds of a mirror or from sources; None: there are none
    cdef bint work_queue
    cdef public object keeper            # ConsumerSet; None: not yet

    cdef int tell_refusing(self) except -1
    cdef int filter_changed(self, consumer) except -1
    cpdef bint acked(self, consumer, uint64_t seq) except -1
