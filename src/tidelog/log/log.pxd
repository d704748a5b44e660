"""Door to logs."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.log.bound cimport Bounds
from tidelog.log.horizon cimport Horizon
from tidelog.log.index cimport Selection
from tidelog.log.record cimport Head
from tidelog.log.store cimport Store


cdef class Log:
    cdef readonly Store store
    cdef readonly Horizon horizon
    cdef readonly object committer
    cdef readonly object settings
    cdef readonly object disk
    cdef object clock
    cdef object worker
    cdef readonly object expiries               # when messages expire
    cdef object ceiling                # which sequences may be given out; None: any
    cdef readonly object keeper                 # seals, compacts and removes segments
    cdef readonly object refusal       # why nothing may be appended; None: it may
    cdef readonly object failure       # the same, when it is final
    cdef readonly bint closed
    cdef public object on_commit       # called when readers see more
    cdef public object on_idle         # called when work in the background has ended: `next_due_ns` may be another
    cdef public object on_failure      # called once, with the failure
    cdef public object on_expiry       # called with what is too old, instead of removing it, if it says so
    cdef uint64_t aging_seq            # messages before it are kept for ever
    cdef object selections             # of filters that are asked for again and again
    cdef Selection asked               # the last one of them
    cdef uint64_t ceiling_seq          # no sequence beyond it may be given out yet
    cdef list deleting                 # who waits for the commit that says what was deleted
    cdef Bounds bounds                 # limits that an append can meet

    cdef uint64_t append_raw(
        self, const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size, int64_t ts_ns, int64_t expiry_ns,
    ) except 0
    cdef uint64_t pass_over(self, const char* subject, Py_ssize_t subject_size) except 0
    cdef int check_taken(self) except -1
    cdef object refuse(self, error, str what)
    cdef Head* aging(self) except? NULL
    cpdef uint64_t counted_size(self) noexcept
    cdef int enforce_limits(self) except -1
