"""The side of a connection to which messages are delivered.

A delivery is two copies into the outbox: the prefix from the route and the tail from the receive buffer. A large tail is
not copied but borrowed, if whoever received it lends the buffer until it has been written (`FlushQueue.lend`). No object
is made and nothing is written to a socket here; the recipient joins the flush queue once, and is written once per tick.

Rules it keeps: own messages only with `echo`; auto-unsubscribe counts exactly; headers are cut for clients that do
not take them; who lets more than `max_pending` pile up is a slow consumer; a producer that fills an outbox faster than
it is written is remembered (`congested_by`), so that its connection pauses before it reads on.
"""

from libc.stdio cimport snprintf

from tidelog.base import limits

cdef Py_ssize_t CONGESTED_SIZE = limits.CONGESTED_SIZE
cdef Py_ssize_t BORROW = limits.BORROW_SIZE


cdef class FlushQueue:
    def __init__(self) -> None:
        self.waiting = []
        self.borrowers = []
        self.lent = self.lent_end = NULL

    cdef int add(self, Recipient recipient) except -1:
        self.waiting.append(recipient)
        if len(self.waiting) == 1 and self.wake is not None:
            self.wake()
        return 0

    cpdef list take(self):
        """The recipients that wait; each joins again with its next byte."""
        cdef list taken = self.waiting
        cdef Recipient recipient
        self.waiting = []
        for recipient in taken:
            recipient.queued = False
        return taken

    cdef bint lend(self, const char* data, Py_ssize_t size):
        """Let outboxes borrow from `data` until `settle`. False: somebody else is lending."""
        if self.lent != NULL:
            return False
        self.lent = data
        self.lent_end = data + size
        return True

    cdef int settle(self) except -1:
        """Nothing of what was lent is needed any more (NET-2)."""
        cdef list borrowers
        cdef Recipient recipient
        self.lent = self.lent_end = NULL
        if not self.borrowers:
            return 0
        borrowers, self.borrowers = self.borrowers, []
        for recipient in borrowers:
            try:
                recipient.outbox.own()
            except MemoryError:
                # Something of what it was to get is gone.
                recipient.owner.slow_consumer()
        return 0


cdef class Recipient(Subscriber):
    def __init__(self, FlushQueue queue, owner) -> None:
        self.outbox = Outbox()
        self.queue = queue
        self.owner = owner
        self.echo = True
        self.max_pending = 64 * 1024 * 1024
        self.watched_size = min(CONGESTED_SIZE, self.max_pending)

    def bound(self, Py_ssize_t max_pending) -> None:
        """Set how many unsent bytes end the connection."""
        self.max_pending = max_pending
        self.watched_size = min(CONGESTED_SIZE, max_pending)

    cdef int mark(self) except -1:
        if not self.queued:
            self.queued = True
            self.queue.add(self)
        return 0

    cdef int send(self, const char* data, Py_ssize_t size) except -1:
        """Queue protocol bytes that are not a delivery."""
        if self.closed:
            return 0
        self.outbox.append(data, size)
        self.mark()
        if self.outbox.size > self.max_pending:
            # Answers pile up like deliveries with a client that asks and never reads.
            self.owner.slow_consumer()
        return 0

    def write(self, bytes data) -> None:
        self.send(data, len(data))

    def shut(self) -> None:
        """Take nothing more."""
        self.closed = True

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef Subscription subscription = <Subscription>target.subscription
        cdef bint last = False
        if subscription.closed or self.closed or (publisher is self and not self.echo):
            return False
        subscription.delivered += 1
        if subscription.max_msgs > 0:
            if subscription.delivered > subscription.max_msgs:
                self.finish(subscription)
                return False
            last = subscription.delivered == subscription.max_msgs
        if not message.has_header:
            self.put(target.prefix + 1, target.prefix_size - 1, message)
            self.out_bytes += message.body_size
        elif self.headers:
            self.put(target.prefix, target.prefix_size, message)
            self.out_bytes += message.body_size
        else:
            self.deliver_without_header(target, message)
        self.out_msgs += 1
        if not self.queued:
            self.mark()
        if self.outbox.size > self.watched_size:
            self.crowded(publisher)
        if self.ledger is not None and message.reply != NULL:
            self.owner.note_reply(message.reply[:message.reply_size])
        if self.tracing:
            self.owner.trace_delivery(
                (target.prefix + (0 if message.has_header and self.headers else 1))[
                    :target.prefix_size - (0 if message.has_header and self.headers else 1)
                ],
                message.tail[:message.tail_size],
            )
        if last:
            self.finish(subscription)
        return True

    cdef inline int put(self, const char* prefix, Py_ssize_t prefix_size, Message* message) except -1:
        cdef FlushQueue queue
        if message.tail_size >= BORROW:
            queue = self.queue
            if queue.lent <= message.tail and message.tail + message.tail_size <= queue.lent_end:
                if not self.outbox.borrowing:
                    queue.borrowers.append(self)
                if self.outbox.borrow(prefix, prefix_size, message.tail, message.tail_size):
                    return 0
                if not self.outbox.borrowing:
                    queue.borrowers.pop()
        return self.outbox.append_pair(prefix, prefix_size, message.tail, message.tail_size)

    cdef int deliver_without_header(self, Target* target, Message* message) except -1:
        """For a client that takes no headers: `MSG`, and only the payload."""
        cdef char digits[32]
        cdef Py_ssize_t size = message.body_size - message.header_size
        cdef int count = snprintf(digits, sizeof(digits), "%zd\r\n", size)
        self.outbox.append(target.prefix + 1, target.prefix_size - 1)
        if message.reply != NULL:
            self.outbox.append(message.reply, message.reply_size)
            self.outbox.append(b" ", 1)
        self.outbox.append(digits, count)
        self.outbox.append_pair(message.body + message.header_size, size, b"\r\n", 2)
        self.out_bytes += size
        return 0

    cdef int crowded(self, Subscriber publisher) except -1:
        """Much waits unsent: too much ends the connection, less holds the producer back."""
        if self.outbox.size > self.max_pending:
            self.owner.slow_consumer()
        elif publisher is not None and publisher is not self and isinstance(publisher, Recipient):
            (<Recipient>publisher).congested_by = self
        return 0

    cdef int finish(self, Subscription subscription) except -1:
        self.owner.subscription_ended(subscription)
        return 0

    cdef Py_ssize_t backlog(self) noexcept:
        return self.outbox.size

    cdef object origin(self):
        return self.owner

    cdef bint accepts(self, Subscription subscription, bytes subject) except -1:
        return not self.filtered or self.owner.may_receive(subject, subscription.queue)

    cdef bint selective(self) noexcept:
        return self.filtered

    @property
    def pending_size(self) -> int:
        return self.outbox.size
