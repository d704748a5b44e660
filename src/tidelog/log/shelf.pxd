"""Door to the shelf: the segments of a log, in order."""

from libc.stdint cimport uint64_t

from tidelog.base.seqset cimport SequenceSet
from tidelog.log.segment cimport Segment


cdef class Shelf:
    cdef readonly object disk
    cdef readonly str path
    cdef readonly object keys            # to read packed segments
    cdef readonly list segments          # ascending; the last one is open
    cdef list bases                      # their base sequences
    cdef list sparse                     # segments that have become so, and nobody has seen to it yet
    cdef readonly SequenceSet deleted    # no messages between first_seq and last_seq, and known why
    cdef readonly uint64_t first_seq     # of the oldest message; last_seq + 1 when there is none
    cdef readonly uint64_t cold_size     # bytes of the messages in segments that are husks
    cdef readonly uint64_t husk_end      # from there on no segment is a husk
    cdef public uint64_t kept_seq        # no segment that goes beyond it may go

    cdef Segment segment_of(self, uint64_t seq)
    cdef uint64_t end_of(self, Segment segment)
    cdef int note_sparse(self, Segment segment) except -1
