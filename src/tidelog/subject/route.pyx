"""How a message gets to those who listen: subscribers, their subscriptions, and routes compiled from these.

Promises
  * `Route.deliver` hands a message to every plain target, and to one of each queue group, chosen at random; the next one
    is tried when the chosen one refuses.
  * What a delivery needs per subscription (its `MSG <subject> <sid> `) is written when the route is compiled. A route
    that many subjects share, and a delivery under another subject, write it for each delivery instead.

Which subscriptions are on a route, and for how long it is good, is `subject.interest`'s.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcpy

# A route without targets: itself, its subject, and its place in the table.
cdef Py_ssize_t EMPTY_ROUTE_SIZE = 256
cdef enum:
    PREFIX_ROOM = 512    # a delivery's `HMSG <subject> <sid> ` on the stack; longer ones are allocated


cdef class Subscriber:
    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        raise NotImplementedError

    cdef bint accepts(self, Subscription subscription, bytes subject) except -1:
        """May this subscription receive this subject? Asked once per route."""
        return True

    cdef bint selective(self) noexcept:
        """Whether `accepts` may differ from subject to subject."""
        return False

    cdef int accepts_below(self, bytes prefix) except -2:
        """What `accepts` says of all subjects below `prefix`: 1 yes, 0 no, -1 it may differ."""
        return -1 if self.selective() else 1

    cdef Py_ssize_t backlog(self) noexcept:
        """Bytes that were delivered and wait to go out."""
        return 0

    cdef object origin(self):
        """Who this is when it publishes, for callbacks that must know; None: the server itself."""
        return None

    def identify(self):
        """`origin`, from Python."""
        return self.origin()


cdef class Callback(Subscriber):
    """The server's own subscriber: calls `function(subject, reply, payload, origin)`.

    `reply` is None when there is none; `origin` is who published, None for the server itself.
    """

    cdef object function

    def __init__(self, function) -> None:
        self.function = function
        self.internal = True

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        self.function(
            message.subject[:message.subject_size],
            message.reply[:message.reply_size] if message.reply != NULL else None,
            message.body[message.header_size:message.body_size],
            publisher.origin() if publisher is not None else None,
        )
        return True


cdef class Reception(Subscriber):
    """A part of the server that answers requests: calls `function(subject, reply, header, payload, origin)`.

    Subjects that begin with one of `elsewhere` are others' to answer: if none of them listens, nobody does.
    """

    cdef object function
    cdef tuple elsewhere

    def __init__(self, function, tuple elsewhere not None=()) -> None:
        self.function = function
        self.elsewhere = elsewhere
        self.internal = True

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        self.function(
            message.subject[:message.subject_size],
            message.reply[:message.reply_size] if message.reply != NULL else None,
            message.body[:message.header_size],
            message.body[message.header_size:message.body_size],
            publisher.origin() if publisher is not None else None,
        )
        return True

    cdef bint accepts(self, Subscription subscription, bytes subject) except -1:
        return not subject.startswith(self.elsewhere)

    cdef bint selective(self) noexcept:
        return len(self.elsewhere) > 0

    cdef int accepts_below(self, bytes prefix) except -2:
        if prefix.startswith(self.elsewhere):
            return 0
        return -1 if any(other.startswith(prefix) for other in self.elsewhere) else 1


cdef class Subscription:
    def __init__(self, bytes subject, bytes queue, bytes sid, Subscriber subscriber) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.subscriber = subscriber


cdef class Route:
    def __dealloc__(self):
        PyMem_Free(self.targets)
        PyMem_Free(self.group_ends)
        PyMem_Free(self.text)

    cdef Py_ssize_t deliver(self, Message* message, Subscriber publisher, Chance chance) except -1:
        """Hand `message` to everybody on the route. Returns how many took it."""
        cdef Py_ssize_t delivered = 0, i, group, start, end, size
        cdef Target* target
        if self.shared:
            return self.deliver_as(message.subject, message.subject_size, message, publisher, chance)
        for i in range(self.plain_count):
            target = &self.targets[i]
            delivered += (<Subscriber>target.subscriber).deliver(target, message, publisher)
        start = self.plain_count
        for group in range(self.group_count):
            end = self.group_ends[group]
            size = end - start
            i = chance.below(size) if size > 1 else 0
            for _ in range(size):
                target = &self.targets[start + i]
                if (<Subscriber>target.subscriber).deliver(target, message, publisher):
                    delivered += 1
                    break
                i = i + 1 if i + 1 < size else 0
            start = end
        return delivered

    cdef Py_ssize_t deliver_as(
        self, const char* subject, Py_ssize_t size, Message* message, Subscriber publisher, Chance chance
    ) except -1:
        """`deliver` under another subject than the route's own."""
        cdef char local[PREFIX_ROOM]
        cdef char* text = local
        cdef Py_ssize_t delivered = 0, i, group, start, end, members
        if size + self.longest_sid + 7 > PREFIX_ROOM:
            text = <char*>PyMem_Malloc(size + self.longest_sid + 7)
            if text == NULL:
                raise MemoryError
        try:
            memcpy(text, b"HMSG ", 5)
            memcpy(text + 5, subject, size)
            text[size + 5] = 32
            for i in range(self.plain_count):
                delivered += self.hand(i, text, size + 6, message, publisher)
            start = self.plain_count
            for group in range(self.group_count):
                end = self.group_ends[group]
                members = end - start
                i = chance.below(members) if members > 1 else 0
                for _ in range(members):
                    if self.hand(start + i, text, size + 6, message, publisher):
                        delivered += 1
                        break
                    i = i + 1 if i + 1 < members else 0
                start = end
        finally:
            if text != local:
                PyMem_Free(text)
        return delivered

    cdef bint hand(
        self, Py_ssize_t index, char* text, Py_ssize_t size, Message* message, Subscriber publisher
    ) except -1:
        """Deliver to one target with a prefix of its own: `text` has all of it but the sid."""
        cdef Target target = self.targets[index]
        cdef bytes sid = (<Subscription>target.subscription).sid
        memcpy(text + size, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid))
        size += PyBytes_GET_SIZE(sid)
        text[size] = 32
        target.prefix = text
        target.prefix_size = size + 1
        return (<Subscriber>target.subscriber).deliver(&target, message, publisher)

    cdef Py_ssize_t backlog(self) noexcept:
        """What waits to go out at the one for whom it is the most."""
        cdef Py_ssize_t i, most = 0
        for i in range(self.target_count):
            most = max(most, (<Subscriber>self.targets[i].subscriber).backlog())
        return most

    cdef list retrace(self, Message* message, Subscriber publisher, Chance chance, bint only):
        """`deliver`, for a message that is traced: `(subscription, taken)` for everybody who was on its way.

        `only`: nobody gets it, the way is all that is wanted.
        """
        cdef list way = []
        cdef Py_ssize_t i, group, start, end
        cdef Target* target
        cdef bint taken
        for i in range(self.plain_count):
            target = &self.targets[i]
            taken = only or (<Subscriber>target.subscriber).deliver(target, message, publisher)
            way.append((<Subscription>target.subscription, taken))
        start = self.plain_count
        for group in range(self.group_count):
            end = self.group_ends[group]
            i = chance.below(end - start)
            for _ in range(end - start):
                target = &self.targets[start + i]
                taken = only or (<Subscriber>target.subscriber).deliver(target, message, publisher)
                way.append((<Subscription>target.subscription, taken))
                if taken:
                    break
                i = i + 1 if i + 1 < end - start else 0
            start = end
        return way

    cdef int fill(self, list plain, list groups) except -1:
        """Write the targets and their prefixes."""
        cdef Py_ssize_t text_size = 0, i = 0, size
        cdef Subscription subscription
        cdef list members
        cdef char* out
        self.kept = plain.copy()
        for members in groups:
            self.kept.extend(members)
        self.plain_count = len(plain)
        self.target_count = len(self.kept)
        self.group_count = len(groups)
        for subscription in self.kept:
            text_size += PyBytes_GET_SIZE(self.subject) + PyBytes_GET_SIZE(subscription.sid) + 7
            self.longest_sid = max(self.longest_sid, PyBytes_GET_SIZE(subscription.sid))
        self.size = (
            EMPTY_ROUTE_SIZE + PyBytes_GET_SIZE(self.subject) + text_size
            + self.target_count * <Py_ssize_t>(sizeof(Target) + sizeof(PyObject*))
        )
        self.targets = <Target*>PyMem_Malloc(max(self.target_count, 1) * sizeof(Target))
        self.group_ends = <Py_ssize_t*>PyMem_Malloc(max(self.group_count, 1) * sizeof(Py_ssize_t))
        self.text = <char*>PyMem_Malloc(max(text_size, 1))
        if self.targets == NULL or self.group_ends == NULL or self.text == NULL:
            raise MemoryError
        out = self.text
        for subscription in self.kept:
            self.targets[i].subscription = <PyObject*>subscription
            self.targets[i].subscriber = <PyObject*>subscription.subscriber
            self.targets[i].prefix = out
            memcpy(out, b"HMSG ", 5)
            out += 5
            size = PyBytes_GET_SIZE(self.subject)
            memcpy(out, PyBytes_AS_STRING(self.subject), size)
            self.targets[i].own = out
            self.targets[i].own_size = size
            out[size] = 32
            out += size + 1
            size = PyBytes_GET_SIZE(subscription.sid)
            memcpy(out, PyBytes_AS_STRING(subscription.sid), size)
            out[size] = 32
            out += size + 1
            self.targets[i].prefix_size = out - self.targets[i].prefix
            i += 1
        size = self.plain_count
        for i, members in enumerate(groups):
            size += len(members)
            self.group_ends[i] = size
        return 0
