"""Door to the recipient: the side of a connection to which messages are delivered."""

from libc.stdint cimport int64_t

from tidelog.broker.outbox cimport Outbox
from tidelog.subject.route cimport Subscriber, Subscription, Target
from tidelog.wire.parser cimport Message


cdef class FlushQueue:
    """Recipients with something new to send, and who must be told that there are some."""

    cdef list waiting
    cdef public object wake          # called when the first one comes
    # Memory that may be borrowed until `settle`, and who has borrowed some.
    cdef const char* lent
    cdef const char* lent_end
    cdef list borrowers

    cdef int add(self, Recipient recipient) except -1
    cpdef list take(self)
    cdef bint lend(self, const char* data, Py_ssize_t size)
    cdef int settle(self) except -1


cdef class Recipient(Subscriber):
    cdef readonly Outbox outbox
    cdef FlushQueue queue
    cdef public object owner         # the session: told of slow consumption and of subscriptions that end
    cdef public object connection    # who writes the outbox to a socket
    cdef public bint echo
    cdef public bint headers
    cdef public bint closed
    cdef bint queued                 # in the flush queue
    cdef public bint filtered        # some subscriptions may receive only part of what they match
    cdef public bint tracing
    cdef public Py_ssize_t max_pending
    cdef Py_ssize_t watched_size     # above this an append is looked at more closely
    cdef readonly int64_t out_msgs
    cdef readonly int64_t out_bytes
    cdef public object ledger        # replies that may be published, under allow_responses; None: no such rule
    cdef public Recipient congested_by   # as a publisher: whose outbox it has filled beyond what is good
    cdef public dict held_back       # keys: connections that wait for this outbox to shrink

    cdef int send(self, const char* data, Py_ssize_t size) except -1
    cdef int mark(self) except -1
    cdef int put(self, const char* prefix, Py_ssize_t prefix_size, Message* message) except -1
    cdef int crowded(self, Subscriber publisher) except -1
    cdef int deliver_without_header(self, Target* target, Message* message) except -1
    cdef int finish(self, Subscription subscription) except -1
