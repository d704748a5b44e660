"""Door to routes: who listens, and how a message is handed to them."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from tidelog.base.chance cimport Chance
from tidelog.wire.parser cimport Message


cdef struct Target:
    PyObject* subscription       # borrowed: the route keeps it alive
    PyObject* subscriber
    const char* prefix           # "HMSG <subject> <sid> "; one byte further begins "MSG ..."
    Py_ssize_t prefix_size
    const char* own              # the route's subject
    Py_ssize_t own_size


cdef class Subscriber:
    """Somebody to whom messages are delivered: a client's session, a stream, or a part of the server itself."""

    cdef readonly bint internal      # part of the server: not counted among the subscriptions
    # Returns whether the message was taken. `publisher` is None when the server itself publishes.
    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1
    cdef bint accepts(self, Subscription subscription, bytes subject) except -1
    cdef bint selective(self) noexcept
    cdef int accepts_below(self, bytes prefix) except -2
    cdef Py_ssize_t backlog(self) noexcept
    cdef object origin(self)


cdef class Subscription:
    cdef readonly bytes subject
    cdef readonly bytes queue            # empty: a plain subscription
    cdef readonly bytes sid
    cdef readonly Subscriber subscriber
    cdef public int64_t max_msgs         # ends after so many deliveries; 0: no bound
    cdef public int64_t delivered
    cdef readonly bint closed


cdef class Route:
    """The compiled answer to "who gets a message on this subject?"."""

    cdef readonly bytes subject          # of a shared route: the prefix
    cdef readonly bint shared            # stands for all subjects below a prefix
    cdef uint64_t generation             # good while equal to the interest's; 0: dropped
    cdef Target* targets                 # plain ones first, then the groups' members, group by group
    cdef Py_ssize_t plain_count
    cdef Py_ssize_t target_count
    cdef Py_ssize_t group_count
    cdef Py_ssize_t size                 # bytes that it takes, about
    cdef Py_ssize_t* group_ends
    cdef char* text
    cdef Py_ssize_t longest_sid
    cdef list kept
    cdef int fill(self, list plain, list groups) except -1

    cdef Py_ssize_t deliver(self, Message* message, Subscriber publisher, Chance chance) except -1
    cdef Py_ssize_t deliver_as(
        self, const char* subject, Py_ssize_t size, Message* message, Subscriber publisher, Chance chance
    ) except -1
    cdef bint hand(
        self, Py_ssize_t index, char* text, Py_ssize_t size, Message* message, Subscriber publisher
    ) except -1
    cdef Py_ssize_t backlog(self) noexcept
    cdef list retrace(self, Message* message, Subscriber publisher, Chance chance, bint only)
