"""Door to direct reads."""

from libc.stdint cimport uint64_t

from tidelog.log.log cimport Log
from tidelog.log.read cimport Reader
from tidelog.log.record cimport Head
from tidelog.stream.post cimport Post
from tidelog.subject.route cimport Route, Subscriber


cdef class Direct(Subscriber):
    cdef object account
    cdef readonly str name
    cdef bytes prefix                # of requests that name a subject
    cdef bytes stream_line           # `Nats-Stream: ...` and the next name
    cdef Log log
    cdef Post post
    cdef list subscriptions
    cdef char* text                  # where header blocks are put together
    cdef Py_ssize_t room

    cdef int answer(self, bytes reply, bytes body) except -1
    cdef int start(self, bytes reply, asked) except -1
    cdef int give_last(self, bytes reply, bytes subject, bint bare) except -1
    cdef int give_one(self, bytes reply, uint64_t seq, bint bare) except -1
    cdef char* reserve(self, Py_ssize_t size) except NULL
    cdef Py_ssize_t give(
        self, Route route, bytes reply, Head* head, bint bare, bint counted, uint64_t pending, uint64_t previous
    ) except -1
    cdef int say(self, bytes reply, str status) except -1


cdef class Delivery:
    cdef Direct direct
    cdef bytes reply
    cdef Reader reader               # None: `seqs` are given
    cdef list seqs
    cdef Py_ssize_t at               # in `seqs`
    cdef bint bare                   # without headers
    cdef uint64_t pending
    cdef uint64_t previous           # sequence of the message that was given last
    cdef uint64_t up_to_seq          # told at the end; 0: it is not
    cdef uint64_t valid_seq          # what `pending` was counted up to
    cdef long long left              # messages; -1: no bound
    cdef long long size_left
    cdef bint over
    cdef object due_ns               # until when what is awaited is waited for; 0: nothing is

    cpdef bint step(self) except -1
    cdef int give_some(self, Route route) except -1
    cdef bint take(self, Route route, Head* head) except -1
    cdef int finish(self) except -1
