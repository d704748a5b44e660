"""The requests that wait at a pull consumer, and who of them gets the next message.

Promises
  * CONSUMER-3: requests are served in the order in which they came, one message each in turn; one of a lower priority
    only when there is none of a higher one.
  * CONSUMER-4: a request ends in exactly one way: with its last message, with a status, or without a word when nobody
    listens to it any more.
  * What ends a request is told in the peer's words, with what was still wanted of it.

A request costs an object; a message that it gets costs none.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef enum:
    # What `pass_pin` says of a request.
    SERVE
    SKIP
    ENDED



cdef class Request:
    def __init__(self, bytes reply not None, asked, int64_t now_ns) -> None:
        self.reply = reply
        self.left = asked.batch
        self.room = asked.max_bytes
        self.no_wait = asked.no_wait
        self.due_ns = now_ns + asked.expires if asked.expires else 0
        self.heartbeat_ns = max(asked.idle_heartbeat, 0)
        self.beat_ns = now_ns + self.heartbeat_ns if self.heartbeat_ns else 0
        self.group = asked.group
        self.pin = asked.id.encode()
        self.min_pending = asked.min_pending
        self.min_ack_pending = asked.min_ack_pending
        self.priority = asked.priority


cdef class Waiting:
    def __init__(self, owner, Post post not None, config) -> None:
        self.owner = owner
        self.post = post
        self.most = config.max_waiting
        self.overflows = config.priority_policy == "overflow"
        self.pins = config.priority_policy == "pinned_client"
        self.prioritizes = config.priority_policy == "prioritized"
        self.pin = b""

    # ---- the queue ----

    cdef int add(self, Request request) except -1:
        """There is room for it."""
        if self.prioritizes:
            self.insert(request)
        else:
            request.next = None
            if self.last is None:
                self.first = request
            else:
                self.last.next = request
            self.last = request
        self.count += 1
        self.hurried += request.no_wait
        return 0

    cdef int insert(self, Request request) except -1:
        """Behind all that are as urgent or more."""
        cdef Request before = None, behind = self.first
        while behind is not None and behind.priority <= request.priority:
            before, behind = behind, behind.next
        request.next = behind
        if before is None:
            self.first = request
        else:
            before.next = request
        if behind is None:
            self.last = request
        return 0

    cdef int drop(self, Request before, Request request) except -1:
        """Take `request`, which stands behind `before`, out of the queue."""
        if before is None:
            self.first = request.next
        else:
            before.next = request.next
        if self.last is request:
            self.last = before
        request.next = None
        request.route = None
        self.count -= 1
        self.hurried -= request.no_wait
        return 0

    cdef int cycle(self) except -1:
        """The first one goes to the end."""
        cdef Request request = self.first
        if self.last is not request:
            self.first = request.next
            request.next = None
            self.last.next = request
            self.last = request
        return 0

    def clear(self) -> None:
        while self.first is not None:
            self.drop(None, self.first)

    def requests(self) -> list:
        """All of them, in their order."""
        cdef Request request = self.first
        found = []
        while request is not None:
            found.append(request)
            request = request.next
        return found

    cdef int64_t batches(self) noexcept:
        """How many messages all of them want together."""
        cdef Request request = self.first
        cdef int64_t total = 0
        while request is not None:
            total += request.left
            request = request.next
        return total

    cdef bint wanted(self, Request request):
        """Whether somebody listens to where it wants its messages."""
        if request.route is None or request.route.generation != self.post.interest.generation:
            request.route = self.post.interest.route(PyBytes_AS_STRING(request.reply), PyBytes_GET_SIZE(request.reply))
        return request.route.target_count > 0

    # ---- who is next ----

    cdef Request find_for(self, Py_ssize_t size, int64_t pending, int64_t ack_pending, int64_t now_ns):
        """Who gets the next message, of `size` bytes; None: nobody. Those who cannot get it any more are told so.

        `pending` messages are there with it, and `ack_pending` wait for an acknowledgement.
        """
        cdef Request request
        cdef Py_ssize_t passed = 0
        cdef bint unpinned = self.pins and not self.pin
        cdef int answer
        while self.first is not None:
            request = self.first
            if request.due_ns and request.due_ns <= now_ns:
                self.tell(request, b"408 Request Timeout")
                self.drop(None, request)
                continue
            if self.pins:
                answer = self.pass_pin(request, now_ns)
                if answer == ENDED:
                    continue
                if answer == SKIP:
                    self.cycle()
                    passed += 1
                    if passed >= self.count:
                        return None
                    continue
            if self.overflows and (request.min_pending > 0 or request.min_ack_pending > 0) and not (
                (request.min_pending > 0 and request.min_pending <= pending)
                or (request.min_ack_pending > 0 and request.min_ack_pending <= ack_pending)
            ):
                self.cycle()
                passed += 1
                if passed >= self.count:
                    return None
                continue
            if request.room > 0 and size > request.room:
                self.tell(request, b"409 Message Size Exceeds MaxBytes")
                if unpinned:
                    self.unpin()
                self.drop(None, request)
                continue
            if self.wanted(request):
                return request
            self.drop(None, request)
        return None

    cdef int pass_pin(self, Request request, int64_t now_ns) except -1:
        """Whether a request may be served, as far as pins go."""
        if not self.pin and not request.pin:
            self.claim(request, now_ns)
            return SERVE
        if self.pin and request.pin == self.pin:
            return SERVE
        if not request.pin:
            return SKIP
        self.tell(request, b"423 Nats-Wrong-Pin-Id")
        self.drop(None, request)
        return ENDED

    cdef int claim(self, Request request, int64_t now_ns) except -1:
        """Whoever sent this gets everything from now on."""
        if request.group:
            self.pin = request.pin = self.owner.new_pin()
            self.pinned_ns = self.owner.wall_ns()
            self.hold_pin(now_ns)
            self.owner.pinned()
        return 0

    def hold_pin(self, int64_t now_ns) -> None:
        """The pinned client has been heard of."""
        self.pin_due_ns = now_ns + self.owner.config.priority_timeout

    def unpin(self) -> None:
        self.pin = b""
        self.pinned_ns = self.pin_due_ns = 0

    cdef int take(self, Request request, int64_t now_ns) except -1:
        """The first request gets a message, and goes to the end if it wants more."""
        request.left -= 1
        request.delivered += 1
        if request.heartbeat_ns:
            request.beat_ns = now_ns + request.heartbeat_ns
        if request.left <= 0:
            self.drop(None, request)
        elif self.count > 1:
            if self.prioritizes:
                self.first = request.next
                if self.first is None:
                    self.last = None
                self.insert(request)
            else:
                self.cycle()
        return 0

    cdef int give_back(self, Request request) except -1:
        """What it was to get was not taken: nobody listens any more."""
        cdef Request before = None, other = self.first
        while other is not None and other is not request:
            before, other = other, other.next
        if other is not None:
            self.drop(before, request)
        return 0

    # ---- time, and the end ----

    cdef int settle(self, int64_t now_ns, bint at_end, bint beats) except -1:
        """End what is due. `at_end`: nothing more can be delivered now; `beats`: send heartbeats that are due."""
        cdef Request before = None, request = self.first, behind
        while request is not None:
            behind = request.next
            if request.due_ns and request.due_ns <= now_ns:
                self.tell(request, b"408 Request Timeout")
                self.drop(before, request)
            elif at_end and request.no_wait and (request.due_ns == 0 or request.delivered > 0):
                self.say(request.reply, b"NATS/1.0 404 No Messages\r\n\r\n")
                self.drop(before, request)
            elif (beats or at_end) and not self.wanted(request):
                self.drop(before, request)
            else:
                if beats and request.beat_ns and request.beat_ns <= now_ns:
                    self.say(request.reply, self.owner.heartbeat())
                    request.beat_ns = now_ns + request.heartbeat_ns
                before = request
            request = behind
        return 0

    cdef int64_t next_due(self) noexcept:
        """When `settle` has something to do next; 0: never."""
        cdef Request request = self.first
        cdef int64_t due_ns = self.pin_due_ns
        while request is not None:
            if request.due_ns and (due_ns == 0 or request.due_ns < due_ns):
                due_ns = request.due_ns
            if request.beat_ns and (due_ns == 0 or request.beat_ns < due_ns):
                due_ns = request.beat_ns
            request = request.next
        return due_ns

    def end_all(self, bytes status not None) -> None:
        """End all requests with a status, such as `409 Consumer Deleted`."""
        while self.first is not None:
            self.say(self.first.reply, b"NATS/1.0 %s\r\n\r\n" % status)
            self.drop(None, self.first)

    def end_range(self) -> None:
        """Nothing will come any more: whoever asks has seen all there is."""
        while self.first is not None:
            self.say(self.first.reply, b"NATS/1.0 404 No Messages\r\nTidelog-End: range\r\n\r\n")
            self.drop(None, self.first)

    cdef int tell(self, Request request, bytes status) except -1:
        """A status, and what was still wanted."""
        return self.say(
            request.reply,
            b"NATS/1.0 %s\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n" % (status, request.left, request.room),
        )

    cdef int say(self, bytes reply, bytes status) except -1:
        self.post.send(
            PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0,
            PyBytes_AS_STRING(status), PyBytes_GET_SIZE(status), b"", 0,
        )
        return 0
