"""Which consumers want messages of a subject, and whether one of them is not done with a message.

    takers = Takers(consumers)
    takers.add(consumer), takers.remove(consumer)       one whose filter changes is removed and added
    takers.wants(subject, size)                         cdef: whether anybody does
    takers.is_free(seq, log)                            cdef: whether all are done with a message

Promises
  * Who wants a subject is looked up in a tree, once per subject: those who want something else cost nothing.
  * Of a message that several want, one who still needs it is remembered. So an acknowledgement looks at that one, mostly,
    and from there on around; all are looked at once, before the message goes.
  * What is remembered is bounded, and forgotten as soon as a consumer comes, goes or changes: it saves time, and
    nothing rests on it.

A consumer that was done with a message may need it again, after it has been moved back: nothing here takes it for granted
that one who was passed over stays done.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t

from tidelog.base import limits
from tidelog.log.log cimport Log
from tidelog.subject.route cimport Subscription

cdef Py_ssize_t SUBJECTS = limits.TAKER_SUBJECTS_KEPT
cdef Py_ssize_t PLACES = limits.TAKER_PLACES_KEPT


cdef class Taker(Subscriber):
    """A consumer in the tree."""


cdef class Takers:
    def __init__(self, consumers) -> None:
        self.interest = Interest()
        self.takers = {}
        self.known = {}
        self.places = {}
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer) -> None:
        cdef Taker taker = Taker()
        taker.consumer = consumer
        taker.subscriptions = [
            Subscription(pattern, b"", b"", taker) for pattern in consumer.filter.patterns or (b">",)
        ]
        self.takers[consumer] = taker
        for subscription in taker.subscriptions:
            self.interest.insert(subscription)
        self.forget()

    def remove(self, consumer) -> None:
        cdef Taker taker = self.takers.pop(consumer, None)
        if taker is not None:
            for subscription in taker.subscriptions:
                self.interest.remove(subscription)
        self.forget()

    def forget(self) -> None:
        self.known.clear()
        self.places.clear()

    cdef list of(self, bytes subject):
        """The consumers that want messages of a subject."""
        found = self.known.get(subject)
        if found is None:
            if len(self.known) >= SUBJECTS:
                self.known.clear()
            plain, _ = self.interest.match(subject)
            found = list({(<Taker>(<Subscription>one).subscriber).consumer: None for one in plain})
            self.known[subject] = found
        return found

    cdef bint wants(self, const char* subject, Py_ssize_t size) except -1:
        return len(self.of(PyBytes_FromStringAndSize(subject, size))) > 0

    cdef bint is_free(self, uint64_t seq, Log log) except -1:
        """Whether there is such a message, and all who want it are done with it."""
        cdef list consumers
        cdef Py_ssize_t at, i, count
        place = self.places.get(seq)
        if place is not None:
            consumers, at = place
            if consumers[at].needs(seq):
                return False
        else:
            subject = log.subject(seq) if seq <= log.horizon.committed_seq else None
            if subject is None:
                return False
            consumers, at = self.of(subject), 0
        count = len(consumers)
        for i in range(at, at + count):
            if i >= count:
                i -= count
            if consumers[i].needs(seq):
                if len(self.places) >= PLACES:
                    self.places.clear()
                self.places[seq] = (consumers, i)
                return False
        self.places.pop(seq, None)
        return True
