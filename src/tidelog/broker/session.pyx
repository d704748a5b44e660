"""One connection as the broker sees it: what it says is read here, what it is told waits in its `Recipient`.

The session turns operations into deeds: publish along a route, subscribe, answer PING. It knows no sockets: bytes come
in through `feed`, bytes go out through the recipient's outbox, and the end is told to the broker.

On the way of a message from `feed` to the outboxes no Python object is made. The route of the last subject is
remembered, so that a flood on one subject compares a few bytes and goes. Whatever else might have to be looked at
(rights, verbose, pedantic, trace) hides behind one flag, `guarded`.

The slow parts (CONNECT, authentication, what happens at the end) are in `broker.broker` and `broker.admission`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcmp

cdef extern from "<string.h>":
    void* memmem(const void* haystack, size_t size, const void* needle, size_t needle_size)

from tidelog.base import limits
from tidelog.base.errors import ProtocolError
from tidelog.broker.reply import ReplyLedger
from tidelog.broker.text import go_quote, is_json_object
from tidelog.wire.parser cimport (
    VERB_CONNECT, VERB_ERR, VERB_INFO, VERB_PING, VERB_PONG, VERB_SUB, VERB_UNSUB, Verb, parse,
)

cdef Py_ssize_t ALLOWED_ENTRIES = limits.RIGHTS_CACHE_ENTRIES
cdef Py_ssize_t ALLOWED_SUBJECT_SIZE = limits.RIGHTS_CACHE_SUBJECT_SIZE
# What has more digits is no number, as the peer reads it.
cdef Py_ssize_t BOUND_DIGITS = 9
cdef bytes BLANKS = bytes.maketrans(b"\t\r\n", b"   ")
cdef bytes PONG = b"PONG\r\n"
cdef bytes OK = b"+OK\r\n"


cdef class Session(Operations):
    def __init__(self, broker, Recipient recipient not None, Chance chance not None) -> None:
        self.broker = broker
        self.recipient = recipient
        self.chance = chance
        self.allowed = None
        self.subs = {}
        self.verbose = True
        self.pedantic = True
        self.guarded = True
        # What waits for CONNECT or comes from the transport is empty until then.
        self.user = self.tls_version = self.tls_cipher = self.reason = ""
        self.peer_certificate = b""
        self.tls_first = False
        self.rtt_ns = self.rtt_start_ns = 0

    # ---- bytes in ----

    cdef Py_ssize_t feed(self, const char* data, Py_ssize_t size) except -1:
        """Read operations from the front of `data`; returns how many bytes were used. Ends the session on an error."""
        if self.recipient.closed:
            return size
        if self.suspended:
            return 0
        try:
            return parse(self, data, size)
        except ProtocolError as error:
            self.fail(error)
            return size

    def receive(self, bytes data) -> int:
        """`feed` from Python: for tests and for transports that hand over objects."""
        return self.feed(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef int on_first_byte(self, char byte) except -1:
        self.broker.first_verb_without_connect(self)
        return 0

    cdef int on_line(self, Verb verb, const char* argument, Py_ssize_t size) except -1:
        if self.tracing:
            self.broker.trace_line(self, verb, argument[:size])
        if verb == VERB_PING:
            self.recipient.send(PONG, 6)
            if not self.first_pong_sent and self.connected:
                self.first_pong_sent = True
                self.broker.first_pong_sent(self)
        elif verb == VERB_SUB:
            self.subscribe(argument, size)
        elif verb == VERB_UNSUB:
            self.unsubscribe(argument, size)
        elif verb == VERB_PONG:
            self.broker.pong_received(self)
        elif verb == VERB_CONNECT:
            self.broker.connect_received(self, argument[:size])
        elif verb == VERB_INFO and not is_json_object(argument[:size]):
            raise ProtocolError("", "Protocol Violation", "INFO without a document")
        elif verb == VERB_ERR:
            raise ProtocolError("", "Parse Error", f"Client Error {argument[:size].decode('utf-8', 'replace')}")
        return 0

    cdef int on_oversize(self, Py_ssize_t size) except -1:
        raise ProtocolError(
            "Maximum Payload Violation",
            "Maximum Message Payload Exceeded",
            f"maximum payload exceeded: {size} vs {self.max_payload}",
        )

    # ---- publish ----

    cdef int on_publish(self, Message* message) except -1:
        cdef Route route = self.last_route
        cdef bytes mapped
        self.in_msgs += 1
        self.in_bytes += message.body_size
        if self.mapping is not None:
            mapped = self.mapping.apply(message.subject[:message.subject_size])
            if mapped is None:
                return 0
            message.subject = PyBytes_AS_STRING(mapped)
            message.subject_size = PyBytes_GET_SIZE(mapped)
            message.is_hinted = False
        if self.guarded and not self.may_publish(message):
            return 0
        # Subjects and replies that only servers use begin with `$` or `_`; look closer at those.
        if (message.subject[0] == 36 or message.subject[0] == 95) and self.reserved_subject(message):
            return 0
        if message.reply != NULL and (message.reply[0] == 36 or message.reply[0] == 95) and (
            self.reserved_reply(message)
        ):
            return 0
        if self.verbose:
            self.recipient.send(OK, 5)
        if not message.is_hinted or route.generation != self.interest.generation:
            route = self.interest.route(message.subject, message.subject_size)
            self.remember(route)
        if message.has_header and memmem(message.body, message.header_size, b"Nats-Trace-", 11) != NULL:
            if self.travel(message, route):
                return 0
        elif route.target_count and route.deliver(message, self.recipient, self.chance):
            return 0
        if message.reply != NULL and self.no_responders:
            self.tell_no_responders(message)
        return 0

    cdef void remember(self, Route route):
        """Let the parser compare the next subject with that of `route` first; None: with nothing."""
        self.last_route = route
        if route is None or route.shared:
            self.hint_size = 0
        else:
            self.hint = PyBytes_AS_STRING(route.subject)
            self.hint_size = PyBytes_GET_SIZE(route.subject)

    cdef bint may_publish(self, Message* message) except -1:
        """The closer look, for sessions with rights, pedantic ones and traced ones."""
        cdef PyObject* known
        cdef bytes subject
        if self.tracing:
            self.broker.trace_publish(self, message.subject[:message.subject_size], message.tail[:message.tail_size])
        if self.pedantic and not self.broker.is_valid_literal(message.subject[:message.subject_size]):
            self.say_error("Invalid Publish Subject")
        if self.allowed is None:
            return True
        known = self.allowed.look_up(message.subject, message.subject_size)
        if known != NULL:
            if <object>known is True:
                return True
            subject = message.subject[:message.subject_size]
        else:
            subject = message.subject[:message.subject_size]
            if self.allowed.count >= ALLOWED_ENTRIES:
                self.allowed.clear()
            allowed = self.rights.may_publish(subject)
            if message.subject_size <= ALLOWED_SUBJECT_SIZE:
                self.allowed.store(subject, bool(allowed))
            if allowed:
                return True
        if self.recipient.ledger is not None and self.broker.reply_allowed(self, subject):
            return True
        self.say_error(f"Permissions Violation for Publish to {go_quote(subject)}")
        self.broker.publish_violation(self, subject)
        return False

    cdef bint reserved_subject(self, Message* message):
        """Refuse what only servers say to each other."""
        cdef bytes subject
        cdef bint is_gateway = begins(message.subject, message.subject_size, b"_GR_.", 5) or (
            begins(message.subject, message.subject_size, b"$GR.", 4)
        )
        if not is_gateway and (
            not begins(message.subject, message.subject_size + 1, b"$NRG.", 5) or self.broker.is_system(self)
        ):
            return False
        subject = message.subject[:message.subject_size]
        self.say_error(f"Permissions Violation for Publish to {go_quote(subject)}")
        self.broker.publish_violation(self, subject)
        return True

    cdef bint reserved_reply(self, Message* message):
        cdef bytes reply
        if not (
            begins(message.reply, message.reply_size + 1, b"_R_.", 4)
            or begins(message.reply, message.reply_size, b"_GR_.", 5)
            or begins(message.reply, message.reply_size, b"$GR.", 4)
            or begins(message.reply, message.reply_size, b"$JS.ACK.", 8)
        ):
            return False
        reply = message.reply[:message.reply_size]
        self.say_error(f"Permissions Violation for Publish with Reply of {go_quote(reply)}")
        self.broker.publish_violation(self, reply)
        return True

    cdef bint travel(self, Message* message, Route route) except -1:
        """Deliver a message with trace headers; whether it is done with."""
        cdef list way
        journey = self.broker.begin_journey(
            self, message.subject[:message.subject_size], message.body[:message.header_size], message.body_size
        )
        if journey is True:
            return route.deliver(message, self.recipient, self.chance) > 0
        if journey is False:
            return True
        way = route.retrace(message, self.recipient, self.chance, journey.only)
        self.broker.end_journey(journey, way)
        return any([taken for _, taken in way])

    cdef int tell_no_responders(self, Message* message) except -1:
        """Nobody took a request: say so on the publisher's own plain subscription to the reply."""
        cdef Route route = self.interest.route(message.reply, message.reply_size)
        cdef Py_ssize_t i
        cdef Subscription subscription
        cdef bytes answer, subject
        for i in range(route.plain_count):
            subscription = <Subscription>route.targets[i].subscription
            if subscription.subscriber is self.recipient and not subscription.closed:
                subject = message.subject[:message.subject_size]
                answer = b"HMSG %s %s %d %d\r\nNATS/1.0 503\r\nNats-Subject: %s\r\n\r\n\r\n" % (
                    message.reply[:message.reply_size], subscription.sid, 32 + len(subject), 32 + len(subject), subject,
                )
                self.recipient.send(answer, len(answer))
                return 0
        return 0

    # ---- subscribe ----

    cdef int subscribe(self, const char* argument, Py_ssize_t size) except -1:
        cdef list words = words_of(argument[:size])
        cdef bytes subject, queue, sid
        cdef Subscription subscription
        if len(words) == 2:
            subject, sid = words
            queue = b""
        elif len(words) == 3:
            subject, queue, sid = words
        else:
            raise ProtocolError("", "Protocol Violation", f"SUB parse error: {argument[:size]!r}")
        refusal = self.broker.subscribe_refusal(self, subject, queue, sid)
        if refusal is not None:
            self.say_error(refusal)
            return 0
        if sid not in self.subs:
            subscription = Subscription(subject, queue, sid, self.recipient)
            if not self.interest.insert(subscription):
                self.say_error("Invalid Subject")
                return 0
            self.subs[sid] = subscription
        if self.verbose:
            self.recipient.send(OK, 5)
        return 0

    cdef int unsubscribe(self, const char* argument, Py_ssize_t size) except -1:
        cdef list words = words_of(argument[:size])
        cdef Subscription subscription
        cdef int64_t bound = -1
        if not 1 <= len(words) <= 2:
            raise ProtocolError("", "Protocol Violation", f"UNSUB parse error: {argument[:size]!r}")
        if len(words) == 2 and len(words[1]) <= BOUND_DIGITS and words[1].isdigit():
            bound = int(words[1])
        subscription = self.subs.get(words[0])
        if subscription is not None:
            if bound > 0 and bound > subscription.delivered:
                subscription.max_msgs = bound
            else:
                self.subscription_ended(subscription)
        if self.verbose:
            self.recipient.send(OK, 5)
        return 0

    def subscription_ended(self, Subscription subscription not None) -> None:
        """Take a subscription away: unsubscribed, used up, or no longer allowed."""
        if self.subs.get(subscription.sid) is subscription:
            del self.subs[subscription.sid]
        self.interest.remove(subscription)

    def drop_subscriptions(self) -> None:
        for subscription in list(self.subs.values()):
            self.interest.remove(subscription)
        self.subs.clear()

    def subscriptions(self) -> list:
        return list(self.subs.values())

    # ---- what the broker decides ----

    def bind(self, account, Interest interest not None, rights, user) -> None:
        """Become `user` in `account`, with `rights` (None: all of them)."""
        self.account = account
        self.interest = interest
        self.mapping = account.mapping
        self.remember(None)
        self.user = user
        self.set_rights(rights)

    def set_rights(self, rights) -> None:
        self.rights = rights
        self.remember(None)
        self.allowed = ByteMap() if rights is not None and not rights.publish_is_free else None
        self.recipient.filtered = rights is not None and bool(rights.permissions.subscribe.deny)
        self.recipient.ledger = None
        if rights is not None and rights.responses is not None:
            self.recipient.ledger = ReplyLedger(rights.responses)
        self.update_guard()

    def set_options(self, connect, bint headers) -> None:
        """Take over what CONNECT says about the conversation."""
        self.connect = connect
        self.verbose = connect.verbose
        self.pedantic = connect.pedantic
        self.recipient.echo = connect.echo
        self.headers = self.recipient.headers = headers
        self.no_responders = connect.no_responders and headers
        self.update_guard()

    @property
    def awaiting_connect(self) -> bool:
        """Authentication is due: nothing but CONNECT is welcome."""
        return self.shy

    @awaiting_connect.setter
    def awaiting_connect(self, bint on) -> None:
        self.shy = on

    def set_tracing(self, bint on) -> None:
        self.tracing = self.recipient.tracing = on
        self.update_guard()

    cdef update_guard(self):
        self.guarded = self.allowed is not None or self.pedantic or self.tracing

    def say(self, bytes line) -> None:
        """Send a protocol line."""
        self.recipient.send(line, len(line))

    def say_ok(self) -> None:
        if self.verbose:
            self.recipient.send(OK, 5)

    def say_error(self, str text) -> None:
        if self.tracing:
            self.broker.trace_error(self, text)
        self.say(f"-ERR '{text}'\r\n".encode("utf-8", "surrogateescape"))

    def suspend(self) -> None:
        """Read no further operation until `resume`."""
        self.suspended = True
        self.stopped = True

    def resume(self) -> None:
        self.suspended = False
        if self.recipient.connection is not None:
            self.recipient.connection.resume()

    def stop(self) -> None:
        """Leave the parser after this operation: the session has ended."""
        self.stopped = True

    def fail(self, error) -> None:
        self.broker.protocol_failed(self, error)

    # ---- told by the recipient ----

    def slow_consumer(self) -> None:
        self.broker.slow_consumer(self)

    def note_reply(self, bytes reply) -> None:
        self.broker.note_reply(self, reply)

    def may_receive(self, bytes subject, bytes queue) -> bool:
        return self.rights is None or self.rights.may_receive(subject, queue or None)

    def trace_delivery(self, bytes prefix, bytes tail) -> None:
        self.broker.trace_delivery(self, prefix, tail)

    # ---- seen from outside (broker.view) ----

    @property
    def out_msgs(self) -> int:
        return self.recipient.out_msgs

    @property
    def out_bytes(self) -> int:
        return self.recipient.out_bytes

    @property
    def pending_size(self) -> int:
        return self.recipient.outbox.size

    @property
    def closed(self) -> bool:
        return self.recipient.closed

    @property
    def subscription_count(self) -> int:
        return len(self.subs)

    @property
    def account_name(self) -> str:
        return self.account.name if self.account is not None else ""

    @property
    def client_name(self) -> str:
        return self.connect.name if self.connect is not None else ""

    @property
    def lang(self) -> str:
        return self.connect.lang if self.connect is not None else ""

    @property
    def version(self) -> str:
        return self.connect.version if self.connect is not None else ""


cdef inline bint begins(const char* text, Py_ssize_t size, const char* prefix, Py_ssize_t prefix_size) noexcept:
    """Whether `text` is `prefix` and at least one byte more."""
    return size > prefix_size and memcmp(text, prefix, prefix_size) == 0


cdef list words_of(bytes line):
    """Cut at spaces, tabs and returns only: other control bytes are part of a word, as at the peer."""
    return [word for word in line.translate(BLANKS).split(b" ") if word]
