"""Door to readers."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.log.tail cimport Run
from tidelog.log.filter cimport Filter
from tidelog.log.horizon cimport Horizon
from tidelog.log.index cimport Selection, SubjectIndex
from tidelog.log.record cimport Head
from tidelog.log.store cimport Store


cdef object message_of(Head* head)


cdef class Batch:
    cdef Head** heads
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size          # bytes of their records
    cdef list runs                       # that the heads lie in
    cdef readonly list facts
    cdef readonly bint ended               # the range is done; nothing will come any more
    cdef readonly bint awaited             # what is next is elsewhere, and is being brought

    cdef int add(self, Head* head, Run run) except -1


cdef class Reader:
    cdef Store store
    cdef Horizon horizon
    cdef readonly Filter filter
    cdef Selection selection               # None: no filter
    cdef readonly bint backward
    cdef readonly uint64_t next_seq
    cdef readonly uint64_t stop_seq        # inclusive
    cdef readonly int64_t stop_ts_ns       # inclusive; only if by_time
    cdef bint by_time
    cdef int64_t left                      # messages still to be read; -1: no bound
    cdef readonly uint64_t opened_seq      # what was committed when this was opened
    cdef uint64_t wanted_seq               # backwards: down to here it reads, if retention lets it
    cdef readonly bint ended
    cdef bint strict                       # trimmed is an error
    cdef bint bare                         # heads are enough
    cdef object callback
    cdef Run run
    cdef Py_ssize_t at

    cdef Head* look(self, uint64_t seq, Py_ssize_t wanted) except? NULL
    cdef int read_forward(self, Batch batch, Py_ssize_t most, Py_ssize_t size) except -1
    cdef int read_backward(self, Batch batch, Py_ssize_t most, Py_ssize_t size) except -1
    cdef bint take(self, Batch batch, Head* head) except -1
    cdef bint pass_absent(self, Batch batch) except -1
    cdef bint pass_absent_backward(self, Batch batch) except -1
    cdef uint64_t not_beyond_stop(self, uint64_t end_seq) noexcept
    cdef int tell_lost(self, Batch batch, uint64_t start_seq, uint64_t end_seq) except -1
