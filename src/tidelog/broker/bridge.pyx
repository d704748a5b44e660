"""Bridges between the subject spaces of accounts: what one exports and another imports.

    exporter.insert(Subscription(b"orders.>", b"", b"", StreamBridge(importer, chance, rewrite)))
    importer.insert(Subscription(b"ask.me", b"", b"", ServiceBridge(there, back, replies, rewrite, many)))

A stream's messages are handed to whoever listens in the importer. A request goes to whoever listens in the exporter, with
a reply subject of the exporter's own, below `_R_.`; what is answered there goes back to the reply subject that the
requester named. `rewrite` makes the new subject of the old one; None: they are the same.

Promises
  * A message was taken if somebody behind the bridge took it; so a requester hears that nobody is there.
  * A message that is shown under another subject than it is sent to (as consumers do) is shown like that behind it, too.
  * Messages do not run in circles: after `limits.BRIDGES_DEEP` bridges nobody is there.
  * At most `limits.BRIDGED_REPLIES` replies are waited for in one account; the oldest is given up for a new one.

What it does not do: know who may import what (tidelog.serve.option_link).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from tidelog.base import limits
from tidelog.base.chance cimport Chance
from tidelog.stream.post cimport Post
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Route, Subscriber, Subscription, Target
from tidelog.wire.parser cimport Message

from tidelog.stream.advisory import new_id

cdef int DEEPEST = limits.BRIDGES_DEEP
cdef Py_ssize_t REPLIES = limits.BRIDGED_REPLIES
# How many bridges the message that is under way has crossed.
cdef int crossed = 0


cdef class Bridge(Subscriber):
    cdef Interest interest   # where it leads
    cdef Chance chance
    cdef object rewrite

    cdef bint selective(self) noexcept:
        # A route of its own for each subject, so that the target says which one it is.
        return True

    cdef bytes renamed(self, Target* target):
        """The subject behind the bridge. What came was subscribed to, so it matches, even if wildcards stand in it."""
        cdef bytes subject = target.own[:target.own_size]
        return subject if self.rewrite is None else self.rewrite(subject)

    cdef bint lead(self, Target* target, Message* message, Subscriber publisher) except -1:
        """Hand over a message as it is, but for its subject."""
        global crossed
        cdef Message copy = message[0]
        cdef bytes subject = self.renamed(target)
        cdef Route route
        if crossed >= DEEPEST:
            return False
        route = self.interest.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if route.target_count == 0:
            return False
        copy.is_hinted = False
        crossed += 1
        try:
            if shown_as(message, target.own, target.own_size):
                copy.subject = PyBytes_AS_STRING(subject)
                copy.subject_size = PyBytes_GET_SIZE(subject)
                return route.deliver(&copy, publisher, self.chance) > 0
            return route.deliver_as(copy.subject, copy.subject_size, &copy, publisher, self.chance) > 0
        finally:
            crossed -= 1


cdef bint shown_as(Message* message, const char* subject, Py_ssize_t size) noexcept:
    return message.subject_size == size and memcmp(message.subject, subject, size) == 0


cdef class StreamBridge(Bridge):
    """Listens in the exporter."""

    def __init__(self, Interest importer not None, Chance chance not None, rewrite) -> None:
        self.internal = True
        self.interest = importer
        self.chance = chance
        self.rewrite = rewrite

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        return self.lead(target, message, publisher)


cdef class ServiceBridge(Bridge):
    """Listens in the importer. `many`: a request may have more than one answer."""

    cdef Post there
    cdef Post back
    cdef Replies replies
    cdef bint many

    def __init__(
        self, Post there not None, Post back not None, Replies replies not None, Chance chance not None, rewrite, bint many
    ) -> None:
        self.internal = True
        self.interest = there.interest
        self.chance = chance
        self.there = there
        self.back = back
        self.replies = replies
        self.rewrite = rewrite
        self.many = many

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        global crossed
        cdef bytes subject, reply
        cdef Route route
        cdef bint taken
        if message.reply == NULL:
            return self.lead(target, message, publisher)
        subject = self.renamed(target)
        if crossed >= DEEPEST:
            return False
        route = self.interest.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if route.target_count == 0:
            return False
        reply = self.replies.await_for(self.back, message.reply[:message.reply_size], self.many)
        crossed += 1
        try:
            taken = self.there.forward(
                route, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
                PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), message.body, message.header_size,
                message.body + message.header_size, message.body_size - message.header_size,
            ) > 0
        finally:
            crossed -= 1
        if not taken:
            self.replies.close(reply)
        return taken


cdef class ReplyBridge(Subscriber):
    """Listens in the exporter on the reply subject of one request."""

    cdef Replies replies
    cdef bytes own
    cdef Post back
    cdef bytes reply
    cdef bint many

    def __cinit__(self):
        self.internal = True

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef const char* shown = message.subject
        cdef Py_ssize_t shown_size = message.subject_size
        cdef Py_ssize_t taken
        cdef Route route = self.back.interest.route(PyBytes_AS_STRING(self.reply), PyBytes_GET_SIZE(self.reply))
        if shown_as(message, PyBytes_AS_STRING(self.own), PyBytes_GET_SIZE(self.own)):
            shown = PyBytes_AS_STRING(self.reply)
            shown_size = PyBytes_GET_SIZE(self.reply)
        if not self.many:
            self.replies.close(self.own)
        if route.target_count == 0:
            self.replies.close(self.own)
            return False
        taken = self.back.forward(
            route, shown, shown_size, message.reply, message.reply_size, message.body, message.header_size,
            message.body + message.header_size, message.body_size - message.header_size,
        )
        return taken > 0


cdef class Replies:
    """The replies that are waited for in one account, oldest first."""

    cdef Interest interest
    cdef Chance chance
    cdef dict waiting        # own subject -> subscription

    def __init__(self, Interest interest not None, Chance chance not None) -> None:
        self.interest = interest
        self.chance = chance
        self.waiting = {}

    cdef bytes await_for(self, Post back, bytes reply, bint many):
        """A subject, whose messages go to `reply` behind `back`."""
        cdef ReplyBridge bridge = ReplyBridge()
        cdef bytes own = b"_R_." + new_id(self.chance).encode()
        if len(self.waiting) >= REPLIES:
            self.close(next(iter(self.waiting)))
        bridge.replies = self
        bridge.own = own
        bridge.back = back
        bridge.reply = reply
        bridge.many = many
        subscription = Subscription(own, b"", b"", bridge)
        self.waiting[own] = subscription
        self.interest.insert(subscription)
        return own

    cdef int close(self, bytes own) except -1:
        subscription = self.waiting.pop(own, None)
        if subscription is not None:
            self.interest.remove(subscription)
        return 0

    def __len__(self) -> int:
        return len(self.waiting)

    def clear(self) -> None:
        for own in list(self.waiting):
            self.close(own)
