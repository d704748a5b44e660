"""Door to consumers."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.log.horizon cimport Follower
from tidelog.log.record cimport Head
from tidelog.stream.ack cimport AckKind, AckSubject
from tidelog.stream.position cimport Position
from tidelog.stream.post cimport Post
from tidelog.stream.pull cimport Request, Waiting
from tidelog.stream.push cimport Pace
from tidelog.subject.route cimport Route

cdef enum:
    REPLY_ROOM = 768


cdef class Consumer(Position):
    cdef readonly int64_t created_ns
    cdef readonly Waiting waiting          # None: a push consumer
    cdef readonly Pace pace
    cdef readonly bint active              # a push consumer is listened to
    cdef readonly int64_t paused_until_ns  # by the wall; 0: it is not
    cdef Post post
    cdef object timers
    cdef Follower follower                 # None: not started
    cdef bint headers_only
    cdef int64_t inactive_ns               # how long it may be so; 0: for ever
    cdef int64_t idle_ns                   # when somebody was there last
    cdef bytes front                       # `$JS.ACK.<stream>.<consumer>.`
    cdef char reply[REPLY_ROOM]
    cdef bytes deliver_subject
    cdef Route route                       # of a push consumer
    cdef bint pumping
    cdef bint again
    cdef Py_ssize_t budget                 # messages until others have their turn
    cdef Py_ssize_t budget_size            # and bytes
    cdef object timer
    cdef int64_t armed_ns                  # when the timer is due; 0: there is none

    cdef int deliver_some(self) except -1
    cdef bint ready(self) except -1
    cdef bint has_room_for_more(self, Route route) except -1
    cdef int deliver_again(self) except -1
    cdef bint deliver_new(self) except -1
    cdef Py_ssize_t wanted(self) noexcept
    cdef bint offer(self, Head* head, uint64_t dcount, uint64_t left, bint fresh) except -1
    cdef bint offer_push(
        self, Head* head, bytes header, Py_ssize_t size, Py_ssize_t reply_size, uint64_t dcount, bint fresh
    ) except -1
    cdef int served(self, Request request, Py_ssize_t size) except -1
    cdef bint hand_over(
        self, Head* head, bytes header, Py_ssize_t reply_size, Route route, uint64_t dcount, bint fresh
    ) except -1
    cdef int take_back(self, Head* head, bint fresh) except -1
    cdef Route push_route(self)
    cdef int take_ack(
        self, AckSubject* about, AckKind kind, const char* body, Py_ssize_t size, const char* reply, Py_ssize_t reply_size
    ) except -1
    cdef int flow_answered(
        self, const char* subject, Py_ssize_t size, const char* header, Py_ssize_t header_size
    ) except -1
