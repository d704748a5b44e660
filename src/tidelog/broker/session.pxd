"""Door to the session."""

from libc.stdint cimport int64_t

from tidelog.base.bytemap cimport ByteMap
from tidelog.base.chance cimport Chance
from tidelog.broker.recipient cimport Recipient
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Route, Subscription
from tidelog.wire.parser cimport Message, Operations


cdef class Session(Operations):
    cdef readonly Recipient recipient
    cdef object broker
    cdef Chance chance
    cdef Interest interest
    cdef Route last_route            # of the last subject published: the parser's hint
    cdef ByteMap allowed             # subject -> may publish; only with rights on publishing
    cdef bint guarded                # look at every publish: rights, verbose, pedantic, trace, mappings
    cdef object mapping              # of the account's subjects; None: none
    cdef bint no_responders
    cdef bint verbose
    cdef bint pedantic
    cdef public bint tracing
    cdef readonly bint suspended     # waits for a decision elsewhere; feed no more until `resume`
    cdef public bint connected       # CONNECT has been accepted
    cdef bint first_pong_sent
    cdef dict subs                   # sid -> Subscription
    cdef readonly int64_t in_msgs
    cdef readonly int64_t in_bytes
    cdef public int64_t last_in_ns   # monotonic
    cdef public int64_t stalls
    cdef public int pings_out
    # What others read (broker.view.SessionView) and the broker sets.
    cdef public object cid, kind, transport, host, port, start_ns, last_activity_ns, rtt_ns
    cdef public object account, user, rights, connect, nonce, reason
    cdef public object tls_version, tls_cipher, tls_first, peer_certificate, certificate
    cdef public object auth_timer, ping_timer, rtt_start_ns, label, web, login

    cdef Py_ssize_t feed(self, const char* data, Py_ssize_t size) except -1
    cdef bint may_publish(self, Message* message) except -1
    cdef bint travel(self, Message* message, Route route) except -1
    cdef int tell_no_responders(self, Message* message) except -1
    cdef int subscribe(self, const char* argument, Py_ssize_t size) except -1
    cdef int unsubscribe(self, const char* argument, Py_ssize_t size) except -1
    cdef bint reserved_subject(self, Message* message)
    cdef bint reserved_reply(self, Message* message)
    cdef update_guard(self)
    cdef void remember(self, Route route)
