"""Door to the store: what a log holds, without policies and without readers."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.base.seqset cimport SequenceSet
from tidelog.log.tail cimport Run, Tail
from tidelog.log.index cimport SubjectIndex
from tidelog.log.record cimport Head
from tidelog.log.segment cimport Segment
from tidelog.log.shelf cimport Shelf


cdef enum:
    # In place of bytes that are wanted: nothing but the one message.
    ALONE = -1
    # How many of those that have gone are known by their sequences.
    REMOVALS_KEPT = 1024


cdef bint is_near(Run run, uint64_t seq) noexcept nogil


cdef class Store(Shelf):
    cdef readonly bytes log_id
    cdef uint32_t salt
    cdef readonly Py_ssize_t segment_size
    cdef Segment open_segment
    cdef readonly SubjectIndex index
    cdef readonly SequenceSet lost       # no messages either, by damage
    cdef readonly Tail tail
    cdef readonly uint64_t last_seq      # newest that was given to a message, or skipped
    cdef readonly uint64_t count
    cdef readonly uint64_t size          # bytes of all messages' records
    cdef readonly int64_t last_ts_ns
    cdef uint32_t slot                   # of the subject that was appended last
    cdef Run recent                    # read from a file last, for look-ups that stay near
    cdef Run recent_heads              # likewise, for those that ask for no more than heads
    cdef readonly uint64_t uses        # of segments that have come back
    cdef public object on_wanted       # called with a husk that somebody wants to read, and whether backwards
    cdef list gone                       # (seq, record size) deleted since the last commit
    cdef list erasing                    # the same, of those to be erased
    cdef list unerased                   # of which the log says so, and nobody has seen to it yet
    cdef list rolled                     # complete segments that nobody has seen to yet
    cdef list repaired                   # (segment, position) of bits that were read right though they are not
    cdef bint trimmed                    # since the last commit
    cdef bint overdue                           # the next message begins another segment
    cdef public object on_lost                  # called with (start_seq, end_seq) when damage is found
    cdef readonly uint64_t removals      # messages that have gone since this was opened
    cdef uint64_t* removed               # the last of them, in a ring of REMOVALS_KEPT

    cdef Head* append(
        self, int64_t ts_ns, int64_t expiry_ns,
        const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size,
    ) except NULL
    cdef tuple measure(self, Segment segment, uint64_t seq, uint64_t end_seq, SequenceSet without)
    cdef Run run_for(self, uint64_t seq, Py_ssize_t wanted, bint backward)
    cdef Run near(self, uint64_t seq, Py_ssize_t wanted)
    cdef Run heads_for(self, uint64_t seq, Py_ssize_t wanted, bint backward)
    cdef Run near_heads(self, uint64_t seq, Py_ssize_t wanted)
    cdef Segment bodies_of(self, Segment segment, uint64_t seq, bint backward)
    cdef Run read(self, Segment segment, uint64_t seq, Py_ssize_t wanted, bint backward)
    cdef Run hold(self, uint64_t seq, Py_ssize_t* at)
    cdef Py_ssize_t remove(self, uint64_t seq) except -1
    cdef Py_ssize_t remove_for_good(self, uint64_t seq) except -1
    cdef int put_control(self, int kind, bytes payload, int flags=?) except -1
    cdef int put_deletes(self, list gone, int flags) except -1
    cdef uint64_t present_from(self, uint64_t seq) noexcept
    cdef Py_ssize_t size_of(self, uint64_t seq) except -1
    cdef int miss(self, Run run, uint64_t start_seq, uint64_t end_seq) except -1
    cdef int advance_first(self) except -1
    cdef void note_removal(self, uint64_t seq) noexcept
    cdef int put_controls(self) except -1
    cdef uint64_t seq_at_time(self, int64_t ts_ns) except? 0
    cdef bint is_away(self, uint64_t seq)
    cdef bint absent(self, uint64_t seq) noexcept nogil
