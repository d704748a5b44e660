"""The gate of an account: acknowledgements, answers of flow control and requests for messages come in here.

One subscriber takes them for all consumers of the account, so that however many there are, an acknowledgement finds the
one that it is for with a single look-up, and its subject, which is used once, shares a route with all others.

What is for no consumer, or an acknowledgement for one that wants none, is not taken: whoever waits for an answer is told
that nobody is there.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memchr, memcmp

from tidelog.stream.ack cimport AckSubject, ack_kind, read_ack_subject
from tidelog.stream.metadata import API_LEVEL
from tidelog.subject.route import Subscription
from tidelog.subject.route cimport Target

ACK_PREFIX = b"$JS.ACK."
FLOW_PREFIX = b"$JS.FC."
NEXT_PREFIX = b"$JS.API.CONSUMER.MSG.NEXT."
RESET_PREFIX = b"$JS.API.CONSUMER.RESET."
cdef enum:
    ACK_SIZE = 8
    FLOW_SIZE = 7
    NEXT_SIZE = 26
    RESET_SIZE = 23
REQUIRED_LEVEL = b"Nats-Required-Api-Level"


cdef class Gate(Subscriber):
    def __init__(self, interest) -> None:
        self.internal = True
        self.consumers = ByteMap()
        interest.share_below(ACK_PREFIX)
        for subject in (ACK_PREFIX + b">", FLOW_PREFIX + b">", NEXT_PREFIX + b"*.*", RESET_PREFIX + b"*.*"):
            interest.insert(Subscription(subject, b"", b"", self))

    def admit(self, Consumer consumer not None) -> None:
        self.consumers.store(key_of(consumer), consumer)

    def dismiss(self, Consumer consumer not None) -> None:
        cdef bytes key = key_of(consumer)
        if self.find(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) is consumer:
            self.consumers.discard(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))

    cdef Consumer find(self, const char* key, Py_ssize_t size):
        cdef PyObject* found = self.consumers.look_up(key, size)
        return <Consumer>found if found != NULL else None

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef AckSubject about
        cdef Consumer consumer
        cdef const char* body = message.body + message.header_size
        cdef Py_ssize_t size = message.body_size - message.header_size
        if message.subject_size > ACK_SIZE and memcmp(message.subject, PyBytes_AS_STRING(ACK_PREFIX), ACK_SIZE) == 0:
            if not read_ack_subject(message.subject, message.subject_size, &about):
                return False
            consumer = self.find(about.key, about.key_size)
            if consumer is None or not consumer.acks:
                return False
            consumer.take_ack(&about, ack_kind(body, size), body, size, message.reply, message.reply_size)
            return True
        if memcmp(message.subject, PyBytes_AS_STRING(NEXT_PREFIX), min(NEXT_SIZE, message.subject_size)) == 0:
            return self.take_request(message)
        if memcmp(message.subject, PyBytes_AS_STRING(RESET_PREFIX), min(RESET_SIZE, message.subject_size)) == 0:
            return self.pass_on(message, publisher)
        return self.take_answer(message)

    cdef bint pass_on(self, Message* message, Subscriber publisher) except -1:
        """A request that the desk answers, if there is such a consumer."""
        if self.find(message.subject + RESET_SIZE, message.subject_size - RESET_SIZE) is None or self.desk is None:
            return False
        self.desk(
            message.subject[:message.subject_size],
            message.reply[:message.reply_size] if message.reply != NULL else None,
            message.body[:message.header_size],
            message.body[message.header_size:message.body_size],
            publisher.origin() if publisher is not None else None,
        )
        return True

    cdef bint take_request(self, Message* message) except -1:
        """Somebody wants messages."""
        cdef Consumer consumer = self.find(message.subject + NEXT_SIZE, message.subject_size - NEXT_SIZE)
        if consumer is None:
            return False
        if message.reply == NULL:
            return True
        if message.header_size and needs_more(message.body[:message.header_size]):
            consumer.post.publish(
                message.reply[:message.reply_size], b"", header=b"NATS/1.0 412 Required Api Level\r\n\r\n"
            )
            return True
        consumer.ask(
            message.reply[:message.reply_size], message.body[message.header_size:message.body_size]
        )
        return True

    cdef bint take_answer(self, Message* message) except -1:
        """`$JS.FC.<stream>.<consumer>.<id>`: somebody has read what was delivered."""
        cdef const char* key = message.subject + FLOW_SIZE
        cdef const char* end = message.subject + message.subject_size
        cdef const char* dot = <const char*>memchr(key, c".", end - key)
        cdef Consumer consumer
        if dot != NULL:
            dot = <const char*>memchr(dot + 1, c".", end - dot - 1)
        if dot == NULL:
            return False
        consumer = self.find(key, dot - key)
        if consumer is None:
            return False
        consumer.flow_answered(message.subject, message.subject_size, message.body, message.header_size)
        return True


cdef bytes key_of(Consumer consumer):
    return b"%s.%s" % (consumer.stream.name.encode(), consumer.name.encode())


def needs_more(header: bytes) -> bool:
    """Whether a request needs a level of the API that is not built."""
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == REQUIRED_LEVEL:
            value = value.strip()
            return bool(value) and not (value.isdigit() and int(value) <= API_LEVEL)
    return False
