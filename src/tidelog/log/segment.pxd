"""Door to segments."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.log.tail cimport Run
from tidelog.log.sidecar cimport Sidecar


cdef class Segment:
    cdef readonly object disk
    cdef readonly str path
    cdef readonly uint64_t base_seq
    cdef readonly Sidecar side
    cdef object keys                     # to read packed segments
    cdef object file                     # None: closed for now
    cdef readonly bint sealed            # complete, synced and indexed: its file may be closed and opened again
    cdef readonly bint packed            # as far as is known: its file is compressed or encrypted
    cdef public bint husk                # only shells of its messages are in the file (log.husk)
    cdef public Segment warm             # of a husk: the whole segment, while it is here; None: it is elsewhere
    cdef public uint64_t used            # of a warm one: when it was, in the store's count of uses
    cdef public bint busy                # somebody changes its file: nobody else may, and it may not go
    cdef public bint stuck               # it cannot be rewritten, so nobody tries until the log is opened again
    cdef set repaired                    # positions in a packed file whose bytes were told to be wrong, and read right
    cdef list heard                      # where that is told: (segment, position), the store's
    cdef bint noted                      # the store has told that it is sparse
    cdef public uint64_t dead_count      # messages in it that are deleted
    cdef public uint64_t dead_size

    cdef object opened(self)
    cdef int begin_again(self) except -1
    cpdef bint is_sparse(self, uint64_t percent=?)
    cdef uint64_t live_size(self) noexcept
    cdef uint64_t end_pos(self) except? 0
    cdef uint64_t sequence_before(self, uint64_t pos) noexcept
    cdef uint64_t sequence_from(self, uint64_t pos) noexcept
    cdef Py_ssize_t sample_from(self, uint64_t pos) noexcept
    cdef Run read_one(self, uint64_t seq, uint32_t salt)
    cdef Run read_back(self, uint64_t seq, Py_ssize_t wanted, bint backward, uint32_t salt)
    cdef Run read_around(self, uint64_t seq, Py_ssize_t wanted, bint backward, uint32_t salt, bint erased=?)
