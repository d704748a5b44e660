"""Messages of a stream, read directly: raw, without a consumer, one or many with one request.

    $JS.API.DIRECT.GET.<stream>              what the body says (stream.direct_request)
    $JS.API.DIRECT.GET.<stream>.<subject>    the newest message of a subject

Promises
  * What is answered is committed.
  * A batch is read from the log's blocks, where messages lie as they are sent, without an object per message. A long one
    is sent in slices, one per tick, so that others have their turn; each slice goes out before the next is made.
  * A batch ends with `204 EOB`, which says how many messages of the same kind are still behind it. Backwards, the end
    also says from which sequence it was read, fixed when it began: `Nats-UpTo-Sequence`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from tidelog.base import limits
from tidelog.base.digits cimport NUMBER_SIZE_MOST, TIMESTAMP_SIZE_MOST, put_decimal, put_timestamp
from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns
from tidelog.log.fact import Awaited
from tidelog.log.filter cimport Filter
from tidelog.log.read cimport Batch
from tidelog.log.record cimport body_of, body_size, subject_of
from tidelog.log.tail cimport Run
from tidelog.stream.direct_request import Refused, read_options, read_request
from tidelog.stream.metadata import asks_too_much
from tidelog.stream.patience import Patience
from tidelog.subject.node cimport NO_VALUE
from tidelog.subject.route import Subscription
from tidelog.subject.route cimport Target
from tidelog.wire.parser cimport Message

PREFIX = b"$JS.API.DIRECT.GET."
GROUP = b"_sys_"

cdef Py_ssize_t MULTI_MOST = limits.DIRECT_SUBJECTS
cdef Py_ssize_t SLICE_SIZE = limits.DIRECT_SLICE_SIZE
cdef Py_ssize_t SLICE_COUNT = limits.DIRECT_SLICE_COUNT
cdef long long SIZE_MOST = limits.DIRECT_BATCH_SIZE
cdef enum:
    # Names of the header lines with their ends, and the numbers in them.
    LINES_SIZE = 160 + TIMESTAMP_SIZE_MOST + 3 * NUMBER_SIZE_MOST

EVERYTHING = Filter()


cdef char* put(char* out, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(out, text, size)
    return out + size


cdef class Direct(Subscriber):
    def __init__(self, account, Log log not None, str name not None) -> None:
        self.internal = True
        self.account = account
        self.name = name
        self.log = log
        self.post = account.post
        self.prefix = PREFIX + name.encode() + b"."
        self.stream_line = b"Nats-Stream: " + name.encode() + b"\r\nNats-Subject: "
        self.subscriptions = []

    def __dealloc__(self):
        free(self.text)

    def listen(self, bint wanted) -> None:
        """Answer from now on, or not any more."""
        interest = self.account.interest
        if wanted and not self.subscriptions:
            for subject in (self.prefix[:len(self.prefix) - 1], self.prefix + b">"):
                subscription = Subscription(subject, GROUP, b"", self)
                interest.insert(subscription)
                self.subscriptions.append(subscription)
        elif not wanted:
            while self.subscriptions:
                interest.remove(self.subscriptions.pop())

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef bytes reply, body
        cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(self.prefix)
        if self.log.closed:
            return False
        if message.reply == NULL:
            return True
        reply = message.reply[:message.reply_size]
        body = message.body[message.header_size:message.body_size]
        if message.header_size and asks_too_much(message.body[:message.header_size]):
            self.say(reply, "412 Required Api Level")
        else:
            subject = message.subject[prefix_size:message.subject_size] if message.subject_size > prefix_size else None
            self.respond(reply, subject, body, 0)
        return True

    def respond(self, bytes reply, bytes subject, bytes body, due_ns: int) -> None:
        """Answer, or wait until that can be done, at the most until `due_ns` (0: this is the beginning)."""
        if self.log.closed:
            return
        try:
            if subject is not None:
                self.give_last(reply, subject, read_options(body))
            else:
                self.answer(reply, body)
        except Refused as refused:
            self.say(reply, str(refused))
        except Awaited:
            waiting = Patience(
                self.account.engine, self.log, lambda: self.respond(reply, subject, body, waiting.due_ns),
                lambda why: self.say(reply, f"500 {why}"), due_ns,
            )
        except StorageError as error:
            self.say(reply, f"500 {error}")

    cdef int answer(self, bytes reply, bytes body) except -1:
        asked = read_request(body)
        try:
            if asked.batch or asked.multi_last:
                self.start(reply, asked)
            elif asked.last_by_subj and not asked.reverse:
                self.give_last(reply, asked.last_by_subj.encode(), asked.no_hdr)
            else:
                self.give_one(reply, self.find(asked), asked.no_hdr)
        except ValueError:
            # What is no subject, nothing has.
            raise Refused("404 No Results" if asked.multi_last else "404 Message Not Found") from None
        return 0

    def find(self, asked) -> int:
        """The one message that is asked for; 0: there is none."""
        if asked.reverse:
            filter, seq = self.anchor(asked)
            found = self.log.previous(filter, seq)
            if asked.stop_time is not None and found:
                found = found if found >= self.log.seq_at_time(instant_ns(asked.stop_time)) else 0
            return found if found >= asked.stop_seq else 0
        seq = self.start_seq(asked)
        if asked.next_by_subj:
            return self.log.next(Filter(asked.next_by_subj.encode()), seq)
        return seq

    def start_seq(self, asked) -> int:
        return self.log.seq_at_time(instant_ns(asked.start_time)) if asked.start_time is not None else asked.seq

    def anchor(self, asked) -> tuple[Filter, int]:
        """Which messages are read backwards, and from where."""
        pattern = asked.prev_by_subj or asked.last_by_subj
        seq = self.log.horizon.committed_seq
        if asked.seq:
            seq = min(asked.seq, seq)
        elif asked.end_time is not None:
            seq = min(self.log.seq_at_time(instant_ns(asked.end_time) + 1) - 1, seq)
        return Filter(pattern.encode()) if pattern else EVERYTHING, seq

    cdef int give_last(self, bytes reply, bytes subject, bint bare) except -1:
        cdef uint64_t seq = 0
        cdef long slot = -1
        store = self.log.store
        if b"*" not in subject and b">" not in subject:
            # Without an object for the question: key-value stores ask nothing else.
            slot = self.log.store.index.tree.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
            if slot == NO_VALUE:
                raise Refused("404 Message Not Found")
            seq = self.log.store.index.lists.last(slot)
        if seq == 0 or seq > self.log.horizon.committed_seq:
            try:
                seq = self.log.previous(Filter(subject), self.log.horizon.committed_seq)
            except ValueError:
                seq = 0
        return self.give_one(reply, seq, bare)

    cdef int give_one(self, bytes reply, uint64_t seq, bint bare) except -1:
        cdef Py_ssize_t at = 0
        cdef Run run = None
        if seq <= self.log.horizon.committed_seq:
            run = self.log.store.hold(seq, &at)
        if run is None:
            raise Refused("404 Message Not Found")
        self.give(
            self.post.interest.route(PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply)), reply, run.head(at), bare,
            False, 0, 0,
        )
        return 0

    cdef int start(self, bytes reply, asked) except -1:
        """Answer with more than one message."""
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef uint64_t seq
        delivery.direct = self
        delivery.reply = reply
        delivery.due_ns = 0
        delivery.bare = asked.no_hdr
        delivery.left = max(asked.batch, 0) if asked.batch else -1
        delivery.size_left = asked.max_bytes if asked.max_bytes > 0 else SIZE_MOST
        if asked.multi_last:
            self.choose(delivery, asked)
        elif asked.reverse:
            filter, seq = self.anchor(asked)
            stop_ts_ns = instant_ns(asked.stop_time) if asked.stop_time is not None else None
            delivery.up_to_seq = seq
            delivery.reader = self.log.reader(
                filter, start_seq=seq, backward=True, stop_seq=asked.stop_seq or None, stop_ts_ns=stop_ts_ns
            ) if seq >= max(asked.stop_seq, 1) else None
            delivery.pending = delivery.reader.pending() if delivery.reader is not None else 0
            delivery.valid_seq = <uint64_t>-1
        else:
            filter = Filter(asked.next_by_subj.encode()) if asked.next_by_subj else EVERYTHING
            seq = max(self.start_seq(asked), 1)
            delivery.valid_seq = self.log.horizon.committed_seq
            delivery.pending = self.log.count(filter, seq)
            if delivery.pending == 0:
                raise Refused("404 Message Not Found")
            delivery.reader = self.log.reader(filter, start_seq=seq)
        if not delivery.step():
            self.account.engine.later(delivery)
        return 0

    def choose(self, Delivery delivery not None, asked) -> None:
        """The newest message of each of some subjects, up to a point."""
        filter = Filter(*[pattern.encode() for pattern in asked.multi_last])
        up_to_seq = asked.up_to_seq
        if asked.up_to_time is not None:
            up_to_seq = self.log.seq_at_time(instant_ns(asked.up_to_time))
            if up_to_seq <= self.log.store.first_seq:
                raise Refused("404 No Results")
            up_to_seq -= 1
        if not up_to_seq:
            up_to_seq = self.log.horizon.committed_seq
        seqs = self.log.last_per_subject(filter, up_to_seq)
        if len(seqs) > MULTI_MOST:
            raise Refused("413 Too Many Results")
        delivery.seqs = [seq for seq in seqs if seq >= asked.seq]
        if not delivery.seqs:
            raise Refused("404 No Results")
        delivery.pending = len(delivery.seqs)
        delivery.up_to_seq = up_to_seq
        delivery.valid_seq = <uint64_t>-1
        delivery.bare = False

    # ---- answers ----

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        cdef char* grown
        if size > self.room:
            grown = <char*>realloc(self.text, size)
            if grown == NULL:
                raise MemoryError
            self.text = grown
            self.room = size
        return self.text

    cdef Py_ssize_t give(
        self, Route route, bytes reply, Head* head, bint bare, bint counted, uint64_t pending, uint64_t previous
    ) except -1:
        """Send a message with what there is to say of it. Returns how many took it."""
        cdef const char* body = body_of(head)
        cdef Py_ssize_t header_size = head.header_size
        cdef char* start
        cdef char* out
        if bare:
            return self.post.forward(
                route, PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0, NULL, 0,
                body + header_size, body_size(head) - header_size,
            )
        start = self.reserve(header_size + PyBytes_GET_SIZE(self.stream_line) + head.subject_size + LINES_SIZE)
        # Behind the lines that it has; the empty line at the end comes last.
        out = put(start, body, header_size - 2) if header_size > 2 else put(start, b"NATS/1.0\r\n", 10)
        out = put(out, PyBytes_AS_STRING(self.stream_line), PyBytes_GET_SIZE(self.stream_line))
        out = put(out, subject_of(head), head.subject_size)
        out = put_decimal(put(out, b"\r\nNats-Sequence: ", 17), head.seq)
        out = put_timestamp(put(out, b"\r\nNats-Time-Stamp: ", 19), head.ts_ns)
        if counted:
            out = put_decimal(put(out, b"\r\nNats-Num-Pending: ", 20), pending)
            out = put_decimal(put(out, b"\r\nNats-Last-Sequence: ", 22), previous)
        out = put(out, b"\r\n\r\n", 4)
        return self.post.forward(
            route, PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0, start, out - start,
            body + header_size, body_size(head) - header_size,
        )

    cdef int say(self, bytes reply, str status) except -1:
        """Send a status, and nothing else."""
        cdef bytes block = b"NATS/1.0 %s\r\n\r\n" % status.encode()
        self.post.send(
            PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0,
            PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), NULL, 0,
        )
        return 0


cdef class Delivery:
    """An answer of several messages that is on its way."""

    cpdef bint step(self) except -1:
        """Send a slice; tells whether that was all."""
        cdef Route route
        if self.direct.log.closed:
            return True
        route = self.direct.post.interest.route(PyBytes_AS_STRING(self.reply), PyBytes_GET_SIZE(self.reply))
        if route.target_count == 0:
            return True
        try:
            self.give_some(route)
        except Awaited:
            self.wait_warm()
            return True
        except StorageError as error:
            self.direct.say(self.reply, f"500 {error}")
            return True
        if self.over:
            self.finish()
        return self.over

    def wait_warm(self) -> None:
        """Go on when what is next has come back; the asker is not kept waiting for ever."""
        engine = self.direct.account.engine
        waiting = Patience(
            engine, self.direct.log, lambda: engine.later(self), lambda why: self.direct.say(self.reply, f"500 {why}"),
            self.due_ns,
        )
        self.due_ns = waiting.due_ns

    cdef int give_some(self, Route route) except -1:
        cdef Batch batch
        cdef Py_ssize_t i, at = 0, end
        cdef Run run
        if self.left == 0:
            self.over = True
        elif self.reader is not None:
            batch = self.reader.read(min(SLICE_COUNT, self.left) if self.left >= 0 else SLICE_COUNT, SLICE_SIZE)
            for i in range(batch.count):
                if self.take(route, batch.heads[i]):
                    return 0
            if batch.count:
                self.due_ns = 0
            elif batch.awaited:
                raise Awaited(self.reader.next_seq)
            if batch.count == 0 or self.pending == 0:
                self.over = True
        elif self.seqs is not None:
            end = min(self.at + SLICE_COUNT, len(self.seqs))
            while self.at < end:
                run = self.direct.log.store.hold(self.seqs[self.at], &at)
                self.due_ns = 0
                self.at += 1
                if run is not None and self.take(route, run.head(at)):
                    return 0
            self.over = self.at == len(self.seqs)
        else:
            self.over = True
        return 0

    cdef bint take(self, Route route, Head* head) except -1:
        """Send one message; tells whether it is the last one."""
        if self.pending:
            self.pending -= 1
        if self.direct.give(route, self.reply, head, self.bare, True, self.pending, self.previous) == 0:
            self.over = True
        self.previous = head.seq
        self.size_left -= head.subject_size + body_size(head)
        if self.left > 0:
            self.left -= 1
        if self.left == 0 or self.size_left <= 0:
            self.over = True
        return self.over

    cdef int finish(self) except -1:
        """Say that it is over, and what is still there."""
        cdef Log log = self.direct.log
        cdef str more = ""
        if log.horizon.committed_seq > self.valid_seq:
            self.pending = log.count(self.reader.filter, self.reader.next_seq)
        if self.up_to_seq:
            more = f"\r\nNats-UpTo-Sequence: {self.up_to_seq}"
        self.direct.say(
            self.reply, f"204 EOB\r\nNats-Num-Pending: {self.pending}\r\nNats-Last-Sequence: {self.previous}{more}"
        )
        return 0
