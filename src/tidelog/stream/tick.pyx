"""A tick of the server, as streams see it: who took something, and when.

Streams join a list with the first message of a tick; at its end they are committed once. Messages that one publisher
sends in one tick carry one time, that of the first: they arrived in one burst, and to ask a clock for each would cost
more than to store it. So a message is stamped at most a burst early, never late, and an acknowledgement that somebody
has seen is never followed by an older stamp.
"""


cdef class Tick:
    def __init__(self, clock) -> None:
        self.clock = clock
        self.waiting = []

    cdef int64_t now_ns(self, Subscriber publisher) except? 0:
        """What `publisher` sends now is stamped with this."""
        if self.stamp_ns == 0 or publisher is not self.publisher:
            self.stamp_ns = self.clock.now_ns()
            self.publisher = publisher
        return self.stamp_ns

    cpdef int touch(self, stream) except -1:
        """`stream` has something to commit."""
        self.waiting.append(stream)
        if len(self.waiting) == 1 and self.wake is not None:
            self.wake()
        return 0

    cpdef list take(self):
        """The streams that wait; each joins again with what it takes next. The tick is over."""
        cdef list taken = self.waiting
        self.waiting = []
        self.stamp_ns = 0
        self.publisher = None
        return taken

    def is_waiting(self) -> bool:
        return len(self.waiting) > 0
