"""Door to the requests that wait at a pull consumer."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.stream.post cimport Post
from tidelog.subject.route cimport Route


cdef class Request:
    cdef readonly bytes reply
    cdef readonly int64_t left           # messages still wanted
    cdef readonly int64_t delivered
    cdef readonly int64_t room           # bytes still wanted; 0: no bound, or none left
    cdef readonly bint no_wait
    cdef int64_t due_ns                  # when it ends; 0: never
    cdef int64_t heartbeat_ns            # 0: none
    cdef int64_t beat_ns                 # when the next heartbeat is due
    cdef readonly str group
    cdef readonly bytes pin
    cdef int64_t min_pending
    cdef int64_t min_ack_pending
    cdef int priority
    cdef Route route                     # where replies go, while its generation is good
    cdef Request next


cdef class Waiting:
    cdef Post post
    cdef object owner                    # the consumer: told of pins
    cdef Request first
    cdef Request last
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t most
    cdef Py_ssize_t hurried              # of them do not wait
    cdef bint overflows                  # what its priority policy is
    cdef bint pins
    cdef bint prioritizes
    cdef readonly bytes pin              # of the client that gets everything; empty: nobody is it
    cdef readonly int64_t pinned_ns      # since when; by the wall
    cdef int64_t pin_due_ns              # when that ends; monotonic
    cdef readonly int64_t active_ns      # when somebody asked, or got something, last

    cdef int add(self, Request request) except -1
    cdef int insert(self, Request request) except -1
    cdef int drop(self, Request before, Request request) except -1
    cdef int cycle(self) except -1
    cdef bint wanted(self, Request request)
    cdef Request find_for(self, Py_ssize_t size, int64_t pending, int64_t ack_pending, int64_t now_ns)
    cdef int pass_pin(self, Request request, int64_t now_ns) except -1
    cdef int claim(self, Request request, int64_t now_ns) except -1
    cdef int take(self, Request request, int64_t now_ns) except -1
    cdef int give_back(self, Request request) except -1
    cdef int settle(self, int64_t now_ns, bint at_end, bint beats) except -1
    cdef int64_t next_due(self) noexcept
    cdef int64_t batches(self) noexcept
    cdef int tell(self, Request request, bytes status) except -1
    cdef int say(self, bytes reply, bytes status) except -1
