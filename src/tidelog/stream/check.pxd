"""Door to the checks that a message passes before a stream takes it."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.log.log cimport Log
from tidelog.stream.budget cimport Budget
from tidelog.stream.dedupe cimport Dedupe
from tidelog.stream.parcel cimport Parcel, Staged
from tidelog.stream.post cimport Post
from tidelog.stream.publish cimport Fields
from tidelog.stream.receipt cimport Receipts
from tidelog.stream.taker cimport Takers
from tidelog.stream.tick cimport Tick
from tidelog.subject.route cimport Subscriber


cdef struct Draft:
    # A message on its way into the log. What the pointers mean stays where it is during the call.
    const char* subject
    Py_ssize_t subject_size
    const char* reply            # NULL: nobody waits for an answer
    Py_ssize_t reply_size
    const char* header
    Py_ssize_t header_size
    const char* payload
    Py_ssize_t payload_size
    int64_t ts_ns
    int64_t ttl_s                # 0: none, -1: for ever
    bint own                     # of the server itself: it need not ask, and who sent it is told what went wrong
    bint mirrored                # and of a mirror's origin, which has seen to everything
    bint transforms              # its subject may be mapped
    bint part                    # of an atomic batch
    bint told                    # who sent it is told by a raise that it is not stored


cdef class Checks(Subscriber):
    cdef readonly object config
    cdef readonly object account         # AccountStreams
    cdef readonly str name
    cdef readonly Log log
    cdef readonly dict consumers         # name -> consumer
    cdef Takers takers                   # which of them want what; None: nobody has asked yet
    cdef readonly bint stopped
    cdef readonly Receipts receipts
    cdef readonly Dedupe dedupe
    cdef readonly Tick tick
    cdef Post post
    cdef readonly Budget budget          # that its bytes count in
    cdef int64_t counted                 # so many of them are counted
    cdef int64_t promised                # and so many are promised to what came since
    cdef bytes last_id                   # of the newest message; empty: it had none
    cdef bint ids_loaded                 # the ids of what is in the log are in `dedupe`
    cdef bint touched                    # in the tick's list
    # Of the configuration, what a message can meet:
    cdef bint acks
    cdef bint special                    # every message is looked at closely
    cdef bint by_interest                # what nobody wants is not kept
    cdef bint sealed
    cdef bint rollups
    cdef bint ttls
    cdef int64_t ttl_least_s             # a time to live is not shorter than this; 0: as it likes
    cdef Py_ssize_t max_message_size
    cdef bint counts                     # each message is an increment
    cdef readonly object fast            # FastBatches; None: none are taken
    cdef readonly object batches         # AtomicBatches; None: none are taken
    cdef public Parcel parcel            # of the batch that was added to last; None: it has come to its end
    cdef Staged staged
    cdef readonly object schedules       # Schedules; None: there are none
    cdef readonly object inflight        # what is ahead of the message of a batch that is looked at; None: it is alone
    cdef object transform
    cdef object republish

    cdef int64_t check(self, Draft* draft, Fields* fields, list held) except -1
    cdef int clean(self, Draft* draft, Fields* fields, list held) except -1
    cdef int use_header(self, Draft* draft, Fields* fields, bytes header, list held) except -1
    cdef int check_expectations(self, Draft* draft, Fields* fields) except -1
    cdef int check_sequences(self, Draft* draft, Fields* fields) except -1
    cdef int64_t repeated(self, Draft* draft, Fields* fields) except -1
    cdef int check_rest(self, Draft* draft, Fields* fields, list held) except -1
    cdef int check_rollup(self, Draft* draft, bytes value) except -1
    cdef int count(self, Draft* draft, Fields* fields, list held) except -1
    cdef int check_room(self, Draft* draft) except -1
    cdef bint promise(self, int64_t size) noexcept
    cdef int take_ttl(self, Draft* draft, Fields* fields, list held) except -1
    cdef uint64_t last_seq_for(self, const char* subject, Py_ssize_t size) noexcept
    cdef int load_ids(self) except -1
    cdef int settle(self) except -1
