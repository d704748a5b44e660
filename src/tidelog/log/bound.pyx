"""The limits that an append can meet: what is refused for them, and what goes instead.

Promises
  * APPEND-1: all is arithmetic on figures that are always there; only to learn the size of one message it may be read.

What it does not do: ages, which are a matter of time (`log`), or say in the log what went (`store`).
"""

from libc.stdint cimport uint32_t

from tidelog.base.errors import StorageError
from tidelog.log.filter import Filter
from tidelog.subject.node cimport NO_VALUE


class LimitReached(StorageError):
    """The message would go beyond a limit, and the settings say to refuse it. `limit` names which."""

    def __init__(self, limit: str, text: str) -> None:
        super().__init__(text)
        self.limit = limit


cdef class Bounds:
    def __init__(self, Store store not None, settings) -> None:
        bounds = settings.limits
        self.store = store
        self.max_messages = bounds.max_messages
        self.max_size = bounds.max_size
        self.uncounted = settings.uncounted
        self.max_per_subject = bounds.max_per_subject
        self.discard_new = bounds.discard_new
        self.discard_new_per_subject = bounds.discard_new_per_subject
        self.any = bool(bounds.max_messages or bounds.max_size or bounds.max_per_subject)

    cdef int check(self, const char* subject, Py_ssize_t subject_size, Py_ssize_t size) except -1:
        """Refuse what the settings say to refuse."""
        cdef Store store = self.store
        cdef uint32_t slot = NO_VALUE
        cdef bint replaces
        cdef uint64_t whole
        size -= self.uncounted
        if self.max_size and <uint64_t>size > self.max_size:
            raise LimitReached("size", f"a message of {size} bytes does not fit into a log of {self.max_size}")
        if not (self.discard_new or self.discard_new_per_subject):
            return 0
        if self.max_per_subject:
            slot = store.index.tree.find(subject, subject_size)
        replaces = slot != NO_VALUE and store.index.lists.size(slot) >= self.max_per_subject
        if replaces and self.discard_new and self.discard_new_per_subject:
            raise LimitReached("per subject", "maximum messages per subject exceeded")
        if not self.discard_new:
            return 0
        if self.max_messages and store.count >= self.max_messages and not replaces:
            raise LimitReached("messages", "maximum messages exceeded")
        whole = self.counted_size() + size
        if self.max_size and whole > self.max_size and not (
            replaces
            and whole <= self.max_size + store.size_of(store.index.lists.first(slot)) - self.uncounted
        ):
            raise LimitReached("size", "maximum bytes exceeded")
        return 0

    cdef uint64_t counted_size(self) noexcept:
        """Bytes of all messages, as limits and figures count them."""
        cdef uint64_t left_out = self.uncounted * self.store.count
        # Bytes that were found damaged are gone from the size before their number is known.
        return self.store.size - left_out if left_out < self.store.size else 0

    cdef int enforce(self) except -1:
        """Remove what is too much behind an append."""
        cdef Store store = self.store
        if self.max_per_subject:
            while store.index.lists.size(store.slot) > self.max_per_subject:
                store.remove(store.index.lists.first(store.slot))
        self.enforce_total()
        return 0

    def enforce_total(self) -> None:
        """Likewise, but for subjects."""
        cdef Store store = self.store
        if self.discard_new:
            return
        if self.max_messages:
            while store.count > self.max_messages:
                store.remove(store.first_seq)
        if self.max_size:
            while self.counted_size() > self.max_size and store.count > 1:
                store.remove(store.first_seq)

    def beyond(self) -> list:
        """Subjects that have more messages than they may."""
        if not self.max_per_subject:
            return []
        return [
            subject for subject, count, _, _ in self.store.index.subjects(Filter()) if count > self.max_per_subject
        ]
