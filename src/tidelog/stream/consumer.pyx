"""A consumer: delivers the messages of a stream to those who want them, and again until they say that they are done.

    consumer = Consumer(stream, name, config, created_ns, keeper, course)
    consumer.start()
    consumer.pump()                         deliver what can be: something was stored, asked for, or is done
    consumer.ask(reply, body)               a request of a client for more (pull consumers)
    consumer.take_ack(...)                  by the gate: an acknowledgement (tidelog.stream.ack)
    consumer.needs(seq)                     whether it is not done with a message (retention by interest)

Promises
  * CONSUMER-1, CONSUMER-2: what comes, and how much is left (tidelog.stream.course).
  * CONSUMER-3, CONSUMER-4: who gets it (tidelog.stream.pull).
  * CONSUMER-5, CONSUMER-6: how often, and how many at once (tidelog.stream.position).
  * CONSUMER-7: a consumer with nothing to do costs nothing: it has no task, is in no list that anybody walks through,
    and has at most one timer.
  * A message costs no object on its way from the log to those who get it.

How it works: everything is delivered by `pump`, which goes on until nothing more can be, somebody else should have
their turn, or nobody wants anything. Who calls it needs not know whether there is something to do.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from tidelog.base import limits
from tidelog.base.instant import instant_ns
from tidelog.log.record cimport body_of, body_size, subject_of
from tidelog.stream import consumer_event
from tidelog.stream.advisory import new_id
from tidelog.stream.ack cimport ACK, NAK, NEXT, PROGRESS, TERM
from tidelog.stream.heading cimport header_of, made_header, with_line, write_numbers
from tidelog.stream.heading import last_sequences
from tidelog.stream.pending cimport Item
from tidelog.stream.pull_request import Refused, read_request
from tidelog.stream.stream cimport Stream

cdef Py_ssize_t BATCH = limits.CONSUMER_BATCH
cdef Py_ssize_t TURN = limits.CONSUMER_TURN
cdef Py_ssize_t TURN_SIZE = limits.CONSUMER_TURN_SIZE
cdef Py_ssize_t CONGESTED = limits.CONGESTED_SIZE
cdef int64_t CONGESTED_NS = limits.CONSUMER_CONGESTED_NS
cdef enum:
    NUMBERS_ROOM = 110       # five numbers and the dots between them


cdef class Consumer(Position):
    def __init__(self, stream, name, config, int64_t created_ns, keeper, course) -> None:
        super().__init__(stream, name, keeper, course)
        self.created_ns = created_ns
        self.post = self.stream.post
        self.timers = stream.account.engine.timers
        self.front = b"$JS.ACK.%s.%s." % (stream.name.encode(), name.encode())
        if len(self.front) + NUMBERS_ROOM > REPLY_ROOM:
            raise ValueError(f"the names {stream.name!r} and {name!r} are too long together")
        memcpy(self.reply, PyBytes_AS_STRING(self.front), PyBytes_GET_SIZE(self.front))
        self.idle_ns = self.now_ns
        self.take_config(config)
        self.pace = Pace(config, self.stream.log.store.last_seq, self.burst(), self.now_ns)
        if config.is_pull:
            self.waiting = Waiting(self, self.post, config)
            self.waiting.active_ns = self.now_ns

    def take_config(self, config) -> None:
        self.take_policies(config)
        self.headers_only = config.headers_only
        self.inactive_ns = max(config.inactive_threshold, 0)
        self.paused_until_ns = instant_ns(config.pause_until) if config.pause_until else 0
        self.deliver_subject = config.deliver_subject.encode()
        self.route = None

    def burst(self) -> int:
        """The largest message that a rate must let through."""
        size = self.stream.config.max_msg_size
        return size if size > 0 else limits.CONSUMER_BURST_SIZE

    # ---- life ----

    def start(self) -> None:
        """Be ready to deliver; `pump` begins with it."""
        self.follow()
        if self.waiting is None:
            self.post.interest.watch(self.deliver_subject, self.interest_changed)
            self.active = self.listened_to()
        self.schedule()

    def follow(self) -> None:
        """Hear of what is committed and matches."""
        if self.follower is not None:
            self.follower.close()
        self.follower = self.stream.log.follow(self.filter, self.pump)

    def stop(self, bytes status=None) -> None:
        """Deliver nothing more. Who waits is told `status`, if there is one."""
        if self.closed:
            return
        self.closed = True
        if self.follower is not None:
            self.follower.close()
        self.stream.log.leave_warm(self.pump)
        if self.waiting is None:
            self.post.interest.unwatch(self.deliver_subject, self.interest_changed)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.waiting is not None:
            if status is not None:
                self.waiting.end_all(status)
            self.waiting.clear()

    def update(self, config, filter) -> None:
        """Go on with another configuration, which was checked."""
        before = self.config
        if self.waiting is None and before.deliver_subject != config.deliver_subject:
            self.post.interest.unwatch(self.deliver_subject, self.interest_changed)
            self.post.interest.watch(config.deliver_subject.encode(), self.interest_changed)
        self.take_config(config)
        self.now_ns = self.clock.monotonic_ns()
        if filter != self.filter:
            self.filter = filter
            self.course.change(filter)
            self.follow()
            self.stream.filter_changed(self)
        if self.waiting is None:
            self.active = self.listened_to()
            if before.rate_limit_bps != config.rate_limit_bps:
                self.pace.set_rate(config.rate_limit_bps, self.burst(), self.now_ns)
            if before.deliver_subject != config.deliver_subject:
                self.give_all_again()
        if before.ack_wait != config.ack_wait or before.backoff != config.backoff:
            self.count_time_anew()
        if before.inactive_threshold != config.inactive_threshold:
            self.idle_ns = self.now_ns
        self.changed()
        self.schedule()
        self.pump()

    def reset_to(self, uint64_t seq) -> None:
        """Begin anew with `seq`."""
        self.move_to(seq)
        self.pump()

    # ---- delivering ----

    cpdef int pump(self) except -1:
        """Deliver what can be delivered now."""
        cdef uint64_t before = self.dseq
        if self.pumping or self.closed:
            self.again = True
            return 0
        self.pumping = True
        self.budget = TURN
        self.budget_size = TURN_SIZE
        try:
            self.again = True
            while self.again and not self.closed:
                self.again = False
                self.deliver_some()
        finally:
            self.pumping = False
            self.course.release()
        if self.dseq != before:
            self.delivered_ns = self.clock.now_ns()
            self.changed()
        return 0

    cdef int deliver_some(self) except -1:
        cdef bint at_end = True
        self.held = False
        self.now_ns = self.clock.monotonic_ns()
        self.follow_removals()
        if self.ready():
            if self.table.queued:
                self.deliver_again()
            if self.table.queued == 0:
                at_end = self.deliver_new()
        if self.closed:
            return 0
        if self.course.ended():
            self.waiting.end_range()
        if self.waiting is not None:
            if self.waiting.hurried and self.pace.hold_ns <= self.now_ns and not self.held:
                self.waiting.settle(self.now_ns, at_end, False)
            if self.waiting.count:
                self.follower.arm(not at_end)
        elif self.active:
            self.follower.arm(not at_end)
        return 0

    cdef bint ready(self) except -1:
        """Whether somebody wants something, and may have it."""
        if self.paused_until_ns and self.paused_until_ns > self.clock.now_ns():
            return False
        if self.pace.hold_ns > self.now_ns:
            return False
        if self.waiting is not None:
            while self.waiting.count and not self.waiting.wanted(self.waiting.first):
                self.waiting.drop(None, self.waiting.first)
            return self.waiting.count > 0 and self.has_room_for_more(self.waiting.first.route)
        return self.active and not self.pace.stalled() and self.has_room_for_more(self.push_route())

    cdef bint has_room_for_more(self, Route route) except -1:
        """Whether this may go on now: others have their turn, and nobody is flooded who reads slowly."""
        self.held = True
        if self.budget <= 0 or self.budget_size <= 0:
            self.remember(self.now_ns)
        elif route.backlog() > CONGESTED:
            self.remember(self.now_ns + CONGESTED_NS)
        else:
            self.held = False
        return not self.held

    cdef int deliver_again(self) except -1:
        """What was not acknowledged, in the order in which that became known."""
        cdef Item* item
        cdef Head* head
        cdef uint64_t seq
        while self.ready():
            seq = self.table.first_queued()
            if seq == 0:
                return 0
            item = self.table.find(seq)
            if self.max_deliver > 0 and item.count + 2 > <uint64_t>self.max_deliver:
                self.exceeded(item, item.count + 1)
                continue
            head = self.course.again(seq)
            if self.course.awaited:
                return self.wait_warm()
            if head == NULL:
                self.gone(seq)
                continue
            if not self.offer(head, item.count + 2, self.course.pending(), False):
                return 0
        return 0

    cdef bint deliver_new(self) except -1:
        """What was not delivered yet. False: more is held back until something is acknowledged."""
        cdef Head* head
        while self.ready():
            if self.max_pending > 0 and self.table.pending >= self.max_pending:
                return False
            head = self.course.load(self.wanted())
            if head == NULL:
                return self.wait_warm() if self.course.awaited else True
            while head != NULL:
                if not self.offer(head, 1, self.course.counted - 1, True):
                    return True
                head = self.course.head() if self.table.queued == 0 and self.budget_size > 0 else NULL
            self.course.release()
        return True

    cdef Py_ssize_t wanted(self) noexcept:
        """How many messages to load at once."""
        cdef Py_ssize_t most = min(BATCH, self.budget)
        if self.max_pending > 0:
            most = min(most, self.max_pending - self.table.pending)
        if self.waiting is not None:
            most = min(most, max(self.waiting.first.left, self.waiting.count))
        return max(most, 1)

    cdef bint offer(self, Head* head, uint64_t dcount, uint64_t left, bint fresh) except -1:
        """Deliver a message for the `dcount`th time; `left` are still to come. False: nobody takes more now."""
        cdef Py_ssize_t front_size = PyBytes_GET_SIZE(self.front), size
        cdef Py_ssize_t reply_size = write_numbers(self.reply + front_size, head, dcount, self.dseq + 1, left) + front_size
        cdef bytes header = made_header(head) if self.headers_only else None
        cdef int64_t ts_ns = head.ts_ns
        cdef Request request
        size = head.subject_size + reply_size + (len(header) if header is not None else body_size(head))
        self.budget -= 1
        self.budget_size -= size
        if self.pace.hold(size, head.seq, head.ts_ns, self.now_ns):
            self.remember(self.pace.hold_ns)
            return False
        if self.waiting is None:
            return self.offer_push(head, header, size, reply_size, dcount, fresh)
        while True:
            request = self.waiting.find_for(size, left + 1, self.table.pending, self.now_ns)
            if request is None:
                return False
            if self.waiting.pins:
                header = with_line(
                    made_header(head) if self.headers_only else header_of(head),
                    b"Nats-Pin-Id: %s\r\n" % self.waiting.pin,
                )
            if self.hand_over(head, header, reply_size, request.route, dcount, fresh):
                self.pace.spend(size, ts_ns, self.now_ns)
                self.served(request, size)
                return not self.closed and self.waiting.count > 0
            self.waiting.give_back(request)

    cdef int served(self, Request request, Py_ssize_t size) except -1:
        """A request, the first one, has got a message."""
        self.waiting.active_ns = self.now_ns
        if self.waiting.first is not request:
            # It ended while it was served.
            return 0
        if request.room > 0:
            request.room -= size
            if request.room == 0:
                request.left = 1
        self.waiting.take(request, self.now_ns)
        if request.left <= 0 and request.room > 0:
            self.waiting.tell(request, b"409 Batch Completed")
        return 0

    cdef bint offer_push(
        self, Head* head, bytes header, Py_ssize_t size, Py_ssize_t reply_size, uint64_t dcount, bint fresh
    ) except -1:
        cdef int64_t ts_ns = head.ts_ns
        cdef Route route
        cdef bint pressed
        route = self.push_route()
        if route.target_count == 0 or not self.hand_over(head, header, reply_size, route, dcount, fresh):
            self.interest_changed(False)
            return False
        self.pace.spend(size, ts_ns, self.now_ns)
        if self.pace.window:
            pressed = self.acks_all and self.flows and self.max_pending > 0 and self.table.pending >= self.max_pending
            if self.pace.must_ask(size, pressed):
                self.ask_flow()
        return not self.closed and not self.pace.stalled()

    cdef bint hand_over(
        self, Head* head, bytes header, Py_ssize_t reply_size, Route route, uint64_t dcount, bint fresh
    ) except -1:
        """Deliver to `route`, and note that. False: nobody took it, and nothing is noted.

        `header`: to be sent instead of the message's own.
        """
        cdef const char* body = body_of(head)
        cdef Py_ssize_t payload_size = body_size(head) - head.header_size, taken
        cdef Item* item
        cdef int64_t due_ns = 0
        self.dseq += 1
        if self.acks:
            if self.ack_wait_ns:
                due_ns = self.now_ns + (self.wait_ns(<uint32_t>(dcount - 1)) if self.backoff else self.ack_wait_ns)
                self.remember(due_ns)
            self.table.track(head.seq, self.dseq, self.now_ns, due_ns)
        if header is None:
            taken = self.post.forward(
                route, subject_of(head), head.subject_size, self.reply, reply_size,
                body, head.header_size, body + head.header_size, payload_size,
            )
        else:
            taken = self.post.forward(
                route, subject_of(head), head.subject_size, self.reply, reply_size,
                PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header),
                body + head.header_size, 0 if self.headers_only else payload_size,
            )
        if taken == 0:
            self.take_back(head, fresh)
            return False
        if fresh:
            self.course.take()
            self.delivered_seq = head.seq if self.course.backward else max(self.delivered_seq, head.seq)
        else:
            item = self.table.find(head.seq)
            if item != NULL:
                self.table.count_up(item, 1)
        if not self.acks and self.removes():
            self.stream.acked(self, head.seq)
        return True

    cdef int take_back(self, Head* head, bint fresh) except -1:
        """Nobody took what was noted as delivered."""
        cdef Item* item
        self.dseq -= 1
        if self.acks and fresh:
            self.table.untrack(head.seq)
        elif self.acks:
            item = self.table.find(head.seq)
            if item != NULL and item.pending:
                self.table.enqueue(item)
        return 0

    # ---- pushing ----

    cdef Route push_route(self):
        if self.route is None or self.route.generation != self.post.interest.generation:
            self.route = self.post.interest.route(
                PyBytes_AS_STRING(self.deliver_subject), PyBytes_GET_SIZE(self.deliver_subject)
            )
        return self.route

    def listened_to(self) -> bool:
        """Whether somebody listens to where a push consumer delivers, in its group if it has one. Streams do not count."""
        plain, groups = self.post.interest.targets(self.deliver_subject)
        queue = self.config.deliver_group.encode()
        members = [one for group in groups for one in group if one.queue == queue or not queue]
        return any(not isinstance(one.subscriber, Stream) for one in (members if queue else plain + members))

    def interest_changed(self, bint pump=True) -> None:
        """Somebody began or ceased to listen to where this delivers."""
        active = self.listened_to()
        if active == self.active:
            return
        self.active = active
        self.now_ns = self.idle_ns = self.clock.monotonic_ns()
        if active and pump:
            self.pump()
        self.schedule()

    def ask_flow(self) -> None:
        """The question of flow control. Who answers has read everything in front of it."""
        question = b"$JS.FC.%s.%s.%s" % (
            self.stream.name.encode(), self.name.encode(), new_id(self.stream.account.chance)[:4].encode()
        )
        self.pace.ask(question)
        self.post.publish(self.deliver_subject, b"", header=b"NATS/1.0 100 FlowControl Request\r\n\r\n", reply=question)

    cdef int flow_answered(
        self, const char* subject, Py_ssize_t size, const char* header, Py_ssize_t header_size
    ) except -1:
        """The question of flow control was answered; the headers may say up to where all is done."""
        cdef AckSubject about
        if self.waiting is not None or not self.pace.answer(subject, size):
            return 0
        if self.flows and self.acks_all and header_size:
            about.dseq, about.seq = last_sequences(header[:header_size])
            if about.seq > 0:
                about.count = 1
                self.done(&about, False)
        self.pump()
        return 0

    def heartbeat(self) -> bytes:
        """What is sent when nothing else is."""
        lines = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n" % (
            self.dseq, self.delivered_seq if self.course.backward else self.course.next_seq() - 1
        )
        if self.waiting is None and self.pace.question:
            lines += b"Nats-Consumer-Stalled: %s\r\n" % self.pace.question
        return lines + b"\r\n"

    # ---- what clients send ----

    def ask(self, bytes reply not None, bytes body not None) -> None:
        """A request for messages."""
        if self.waiting is None:
            self.post.publish(reply, b"", header=b"NATS/1.0 409 Consumer is push based\r\n\r\n")
            return
        self.now_ns = self.clock.monotonic_ns()
        try:
            asked = read_request(body, self.config, self.waiting.pin)
        except Refused as refusal:
            self.post.publish(reply, b"", header=b"NATS/1.0 %s\r\n\r\n" % str(refusal).encode())
            return
        request = Request(reply, asked, self.now_ns)
        if self.waiting.pin and request.pin == self.waiting.pin:
            self.waiting.hold_pin(self.now_ns)
        if asked.no_wait and not self.has_room(request):
            self.waiting.active_ns = self.now_ns
            return
        if self.waiting.count >= self.waiting.most:
            self.waiting.settle(self.now_ns, False, True)
        if self.waiting.count >= self.waiting.most:
            if not request.heartbeat_ns:
                self.post.publish(reply, b"", header=b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n")
            return
        self.waiting.active_ns = self.now_ns
        self.waiting.add(request)
        self.remember(request.due_ns)
        self.remember(request.beat_ns)
        if self.waiting.prioritizes:
            # One that is more urgent may be in the same burst.
            self.remember(self.now_ns)
        else:
            self.pump()

    def has_room(self, Request request not None) -> bool:
        """Whether a request that does not wait can expect something; else it is told so."""
        self.follow_removals()
        there = self.course.pending() + self.table.queued
        if there == 0 and not request.due_ns and not self.course.backward:
            self.post.publish(request.reply, b"", header=b"NATS/1.0 404 No Messages\r\n\r\n")
            return False
        if there > 0 and self.waiting.count:
            self.waiting.settle(self.now_ns, False, True)
            if there < self.waiting.batches():
                self.post.publish(request.reply, b"", header=b"NATS/1.0 408 Requests Pending\r\n\r\n")
                return False
        return True

    cdef int take_ack(
        self, AckSubject* about, AckKind kind, const char* body, Py_ssize_t size, const char* reply, Py_ssize_t reply_size
    ) except -1:
        """An acknowledgement; who gave a `reply` (else NULL) is told that it was seen."""
        cdef bint answered = about.seq > 0
        if kind == ACK:
            answered = self.done(about, True) and about.seq > 0
        elif kind == TERM:
            answered = self.done(about, False) and about.seq > 0
            reason = body[5:size].strip().decode("utf-8", "replace")
            consumer_event.terminated(self, about.seq, about.dseq, about.count, reason)
        elif kind == NEXT:
            self.done(about, True)
            if reply != NULL:
                self.ask(reply[:reply_size], body[4:size])
            return 0
        elif kind == NAK:
            self.nak(about, body[:size])
        elif kind == PROGRESS:
            self.progress(<uint64_t>max(about.seq, 0))
        if reply != NULL and answered:
            self.post.send(reply, reply_size, NULL, 0, NULL, 0, b"", 0)
        return 0

    # ---- pinned clients ----

    def new_pin(self) -> bytes:
        return new_id(self.stream.account.chance).encode()

    def wall_ns(self) -> int:
        return self.clock.now_ns()

    def pinned(self) -> None:
        """A client gets everything from now on."""
        self.remember(self.waiting.pin_due_ns)
        consumer_event.pinned(self, self.config.priority_groups[0], self.waiting.pin.decode())

    def unpin(self, reason: str) -> None:
        """Whoever asks next is pinned."""
        if self.waiting.pin:
            self.waiting.unpin()
            consumer_event.unpinned(self, self.config.priority_groups[0], reason)

    # ---- time ----

    cdef int remember(self, int64_t due_ns) except -1:
        """Something is due then, in monotonic time; 0: nothing."""
        if due_ns and (self.armed_ns == 0 or due_ns < self.armed_ns) and not self.closed:
            if self.timer is not None:
                self.timer.cancel()
            self.armed_ns = due_ns
            self.timer = self.timers.at(due_ns, self.pass_time)
        return 0

    def schedule(self) -> None:
        """See to it that this is looked at when something is due."""
        self.remember(self.table.next_due())
        if self.paused_until_ns:
            wall_ns = self.clock.now_ns()
            if self.paused_until_ns > wall_ns:
                self.remember(self.clock.monotonic_ns() + self.paused_until_ns - wall_ns)
        if self.pace.hold_ns > self.now_ns:
            self.remember(self.pace.hold_ns)
        if self.waiting is not None:
            self.remember(self.waiting.next_due())
            if self.inactive_ns:
                self.remember(max(self.waiting.active_ns, self.idle_ns) + self.inactive_ns)
            return
        if self.active:
            self.remember(self.pace.beat_ns)
        elif self.inactive_ns:
            self.remember(self.idle_ns + self.inactive_ns)

    def pass_time(self) -> None:
        """Something may be due."""
        self.timer = None
        self.armed_ns = 0
        self.now_ns = self.clock.monotonic_ns()
        self.expire()
        if self.paused_until_ns and self.paused_until_ns <= self.clock.now_ns():
            self.paused_until_ns = 0
            self.keeper.resumed(self)
        if self.waiting is not None:
            if self.waiting.count:
                self.idle_ns = self.now_ns
            self.waiting.settle(self.now_ns, not self.held, True)
            if self.waiting.pin_due_ns and self.waiting.pin_due_ns <= self.now_ns:
                self.unpin("timeout")
        elif self.active and self.pace.beat_ns and self.pace.beat_ns <= self.now_ns:
            self.pace.beat_ns = self.now_ns + self.pace.heartbeat_ns
            self.post.publish(self.deliver_subject, b"", header=self.heartbeat())
            if self.flows and self.acks_all and self.table.pending and not self.pace.question:
                self.ask_flow()
        if self.pace.hold_ns <= self.now_ns:
            self.pace.hold_ns = 0
        self.pump()
        if not self.closed and not self.check_idle():
            self.schedule()

    def check_idle(self) -> bool:
        """Whether nobody has been there for too long: then this ends."""
        cdef int64_t since_ns = self.idle_ns
        if not self.inactive_ns or self.active:
            return False
        if self.waiting is not None:
            if self.waiting.count:
                return False
            since_ns = max(since_ns, self.waiting.active_ns)
            # Somebody may still be working on something.
            since_ns = max(since_ns, self.table.latest_due())
        if since_ns + self.inactive_ns > self.now_ns:
            self.remember(since_ns + self.inactive_ns)
            return False
        self.keeper.inactive(self)
        return True
