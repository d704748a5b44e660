"""Another name for a part of a subject space: what is published below one prefix goes to whoever listens below another.

    interest.insert(Subscription(b"$JS.hub.API.>", b"", b"", Alias(interest, chance, b"$JS.hub.API.", b"$JS.API.")))

A message is delivered under its new subject; its reply and its publisher stay. If nobody listens there, the message was
not taken, and who sent it is told so.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base.chance cimport Chance
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Route, Subscriber, Subscription, Target
from tidelog.wire.parser cimport Message


cdef class Alias(Subscriber):
    """`elsewhere`: subjects that begin with one of these have an alias of their own."""

    cdef Interest interest
    cdef Chance chance
    cdef Py_ssize_t cut
    cdef bytes put
    cdef tuple elsewhere

    def __init__(
        self, Interest interest not None, Chance chance not None, bytes prefix not None, bytes put not None,
        tuple elsewhere not None=(),
    ) -> None:
        self.internal = True
        self.interest = interest
        self.chance = chance
        self.cut = len(prefix)
        self.put = put
        self.elsewhere = elsewhere

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef Message renamed = message[0]
        cdef bytes subject = self.put + message.subject[self.cut:message.subject_size]
        cdef Route route = self.interest.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        renamed.subject = PyBytes_AS_STRING(subject)
        renamed.subject_size = PyBytes_GET_SIZE(subject)
        renamed.is_hinted = False
        return route.target_count > 0 and route.deliver(&renamed, publisher, self.chance) > 0

    cdef bint accepts(self, Subscription subscription, bytes subject) except -1:
        return not subject.startswith(self.elsewhere)

    cdef bint selective(self) noexcept:
        return len(self.elsewhere) > 0
