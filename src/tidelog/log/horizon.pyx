"""How far readers of a log see, and who wants to hear when that moves.

    follower = Follower(horizon, filter, callback, last_seq)
    follower.wait()           call back, once, when a message that its filter matches is committed
    follower.rest()           do not
    follower.end()            nothing more is wanted, ever

Promises
  * FOLLOW-1: who waits is called when a message that they want is committed, once; who is called for nothing was
    called for something that could not be told apart.
  * FOLLOW-2: what is appended costs a look at one number, however many follow, unless somebody wants it.

How it works: followers with a filter are kept as subscriptions are (`subject.interest`). An append notes the route of its
subject; a write closes the list of what was noted, and when the write is committed, those on its routes are called. That
nobody wants a subject is remembered by the number which the index has for it, until another follower comes. Followers
that want everything, and those whom something may concern that was appended before they came, are called by
whatever is committed.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

from tidelog.base import limits
from tidelog.subject.route cimport Subscription

cdef Py_ssize_t WAKE_ALL = limits.FOLLOWERS_WAKE_ALL
cdef enum:
    WANTED = 1                # the lowest bit of a mark


cdef bint is_plain(const char* subject, Py_ssize_t size) noexcept nogil:
    """Whether no token is empty: interest knows no other subjects."""
    cdef Py_ssize_t i, start = 0
    for i in range(size):
        if subject[i] == c".":
            if i == start:
                return False
            start = i + 1
    return size > start


cdef class Horizon:
    def __init__(self, uint64_t committed_seq) -> None:
        self.committed_seq = committed_seq
        self.armed = {}
        self.choosy = {}
        self.heard = []
        self.unwoken = []
        self.turn = self.changed = 1

    def __dealloc__(self):
        free(self.marks)

    # ---- what the log tells ----

    cdef int note(self, uint32_t slot, bint fresh, const char* subject, Py_ssize_t size) except -1:
        """A message was appended. `slot`: the number of its subject; `fresh`: which was another's before, maybe.

        A mark is twice the turn in which it was made, and one more if somebody wants the subject: then the route is
        noted once a turn. Otherwise it is good until a follower comes.
        """
        cdef uint64_t mark
        cdef Route route
        if slot >= self.marks_room:
            self.make_room(slot)
        mark = self.marks[slot]
        if not fresh and (mark >> 1 == self.turn if mark & WANTED else mark >> 1 >= self.changed):
            return 0
        if is_plain(subject, size):
            route = self.interest.route(subject, size)
            if route.target_count == 0:
                self.marks[slot] = self.turn << 1
                return 0
            self.heard_targets += route.target_count
        else:
            # Whom that concerns is not known.
            route = None
            self.heard_targets += WAKE_ALL * self.followers
        self.marks[slot] = self.turn << 1 | WANTED
        self.heard.append(route)
        return 0

    cdef int make_room(self, uint32_t slot) except -1:
        cdef uint32_t room = max(1024, self.marks_room * 2)
        cdef uint64_t* grown
        while room <= slot:
            room *= 2
        grown = <uint64_t*>realloc(self.marks, room * sizeof(uint64_t))
        if grown == NULL:
            raise MemoryError
        memset(grown + self.marks_room, 0, (room - self.marks_room) * sizeof(uint64_t))
        self.marks = grown
        self.marks_room = room
        return 0

    cdef int wrote(self, uint64_t seq) except -1:
        """All that was appended is written, up to `seq`."""
        if self.heard:
            self.unwoken.append((seq, self.heard_targets, self.heard))
            self.heard = []
            self.heard_targets = 0
            self.turn += 1
        return 0

    cdef int wake(self) except -1:
        """Readers see more than before: call those who wait for it."""
        cdef dict armed
        cdef uint64_t seq
        if self.armed:
            armed = self.armed
            self.armed = {}
            for one in armed:
                one.wake()
        while self.unwoken:
            seq, targets, routes = self.unwoken[0]
            if seq > self.committed_seq:
                break
            del self.unwoken[0]
            if self.choosy:
                self.wake_choosy(routes, targets)
        return 0

    cdef int wake_choosy(self, list routes, Py_ssize_t targets) except -1:
        cdef Route route
        cdef Follower follower
        cdef Py_ssize_t i
        if targets >= WAKE_ALL * len(self.choosy):
            # To look at all who are on the routes would cost more than to call some for nothing.
            for follower in list(self.choosy):
                if follower.waits:
                    follower.wake()
            return 0
        for route in routes:
            for i in range(route.target_count):
                follower = <Follower>route.targets[i].subscriber
                if follower.waits:
                    follower.wake()
            if not self.choosy:
                break
        return 0

    # ---- followers ----

    cdef int enter(self, Follower follower) except -1:
        if self.interest is None:
            self.interest = Interest()
        follower.subscriptions = [Subscription(pattern, b"", b"", follower) for pattern in follower.filter.patterns]
        for subscription in follower.subscriptions:
            self.interest.insert(subscription)
        self.followers += 1
        self.watched = True
        self.turn += 1
        self.changed = self.turn
        return 0

    cdef int leave(self, Follower follower) except -1:
        for subscription in follower.subscriptions:
            self.interest.remove(subscription)
        follower.subscriptions = None
        self.followers -= 1
        if self.followers == 0:
            self.watched = False
            self.interest = None
            free(self.marks)
            self.marks = NULL
            self.marks_room = 0
        return 0

    def waiting(self) -> int:
        """How many want to hear of more."""
        return len(self.armed) + len(self.choosy)


cdef class Follower(Subscriber):
    def __init__(self, Horizon horizon not None, Filter filter not None, callback, uint64_t last_seq) -> None:
        """`last_seq`: of the newest message that was appended, committed or not."""
        self.internal = True
        self.horizon = horizon
        self.filter = filter
        self.callback = callback
        self.unheard_seq = last_seq
        if not filter.everything:
            horizon.enter(self)

    cdef int arm(self, bint anything) except -1:
        """Call back, once; `anything`: whatever is committed."""
        self.disarm()
        if anything or self.subscriptions is None or self.unheard_seq > self.horizon.committed_seq:
            self.horizon.armed[self] = None
        else:
            self.waits = True
            self.horizon.choosy[self] = None
        return 0

    cdef int disarm(self) except -1:
        if self.waits:
            self.waits = False
            del self.horizon.choosy[self]
        else:
            self.horizon.armed.pop(self, None)
        return 0

    cdef int close(self) except -1:
        self.disarm()
        if self.subscriptions is not None:
            self.horizon.leave(self)
        self.callback = None
        return 0

    def wake(self) -> None:
        if self.waits:
            self.waits = False
            del self.horizon.choosy[self]
        if self.callback is not None:
            self.callback()

    # ---- from Python ----

    def wait(self, bint anything=False) -> None:
        self.arm(anything)

    def rest(self) -> None:
        self.disarm()

    def end(self) -> None:
        self.close()
