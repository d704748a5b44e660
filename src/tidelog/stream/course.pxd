"""Door to a consumer's course: which messages are still to come, and how many."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.log.filter cimport Filter
from tidelog.log.log cimport Log
from tidelog.log.read cimport Batch, Reader
from tidelog.log.record cimport Head
from tidelog.log.tail cimport Run


cdef class Course:
    cdef readonly Log log
    cdef readonly Filter filter
    cdef Reader reader
    cdef readonly bint backward
    cdef Batch batch                     # what was loaded and not all taken; None: nothing
    cdef Py_ssize_t at
    cdef bint awaited                    # the next message is being brought
    cdef Run repeated                    # what `again` has found lies in it
    cdef uint64_t* skips                 # sequences that come first, ascending
    cdef Py_ssize_t skip_at
    cdef Py_ssize_t skip_count
    cdef uint64_t counted                # matches from `next_seq` to `counted_seq`
    cdef uint64_t counted_seq
    cdef uint64_t counted_from           # what `next_seq` was then
    cdef uint64_t removals               # of the store, up to which that is right

    cdef uint64_t next_seq(self) noexcept
    cdef Head* load(self, Py_ssize_t most) except? NULL
    cdef Head* again(self, uint64_t seq) except? NULL
    cdef Head* head(self) except? NULL
    cdef int take(self) noexcept
    cdef int release(self) except -1
    cdef bint ended(self) noexcept
    cdef uint64_t pending(self) except? 0
    cdef int count(self) except -1
    cdef bint disturbed(self) noexcept
    cdef uint64_t count_between(self, uint64_t start_seq, uint64_t last_seq) except? 0
    cdef int move_to(self, uint64_t seq) except -1
    cdef bytes pack_skips(self)
    cdef int change(self, Filter filter) except -1
