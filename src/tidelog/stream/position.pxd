"""Door to positions: where a consumer stands in its stream."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.log.filter cimport Filter
from tidelog.stream.ack cimport AckSubject
from tidelog.stream.course cimport Course
from tidelog.stream.pending cimport Item, PendingTable
from tidelog.stream.stream cimport Stream


cdef class Position:
    cdef readonly Stream stream
    cdef readonly str name
    cdef readonly object config
    cdef readonly Filter filter
    cdef readonly PendingTable table
    cdef readonly bint closed
    cdef Course course
    cdef object clock
    cdef object keeper                     # told when there is something new to be kept
    cdef public bint dirty                 # and was told, and has not kept it yet
    # `dseq` and `delivered_seq` are those of the newest delivery.
    cdef readonly uint64_t dseq
    cdef readonly uint64_t delivered_seq
    cdef uint64_t floor_dseq               # everything up to here is done
    cdef uint64_t floor_seq
    cdef bint quiet                        # nobody is told of messages that have gone
    cdef readonly int64_t delivered_ns     # when something was delivered last, by the wall; 0: never
    cdef readonly int64_t acked_ns
    cdef uint64_t removals                 # of the store, up to which the table knows
    cdef bint held                         # there is more to deliver, a little later
    cdef int64_t now_ns                    # monotonic, as of the last time that it mattered
    # Of the configuration:
    cdef bint acks                         # acknowledgements are waited for
    cdef bint acks_all                     # and one stands for all before it
    cdef bint flows                        # acknowledgements may come for what was not noted as delivered
    cdef int64_t max_pending
    cdef int64_t max_deliver
    cdef int64_t ack_wait_ns
    cdef list backoff
    cdef int sample_percent

    cpdef int pump(self) except -1
    cdef int remember(self, int64_t due_ns) except -1
    cdef int changed(self) except -1
    cdef int64_t wait_ns(self, uint32_t count)
    cdef bint removes(self) noexcept
    cdef bint done(self, AckSubject* about, bint sampled) except -1
    cdef int settle(self, Item* item) except -1
    cdef bint done_all(self, uint64_t seq, uint64_t dseq) except -1
    cdef int nak(self, AckSubject* about, bytes body) except -1
    cdef int progress(self, uint64_t seq) except -1
    cdef int exceeded(self, Item* item, uint32_t deliveries) except -1
    cdef int follow_removals(self) except -1
    cdef int gone(self, uint64_t seq) except -1
    cdef int expire(self) except -1
    cdef bint wait_warm(self) except -1
