# cython: wraparound=True
"""Intake: what a stream does with the messages that it is given, from the subscription to the log.

Promises
  * STREAM-1: what is refused leaves no trace, and what is acknowledged is committed; answers leave in the order of the
    messages, but while the log takes nothing.
  * STREAM-2: the checks of a message are made in the order of the peer, and a refusal says what the peer says.
  * STREAM-3: a message whose id was seen within the window is not stored again, also after a restart.
  * A message without headers in a stream without special settings costs some comparisons, one append and one entry in
    the receipts; no object.

How: everything that needs a closer look goes through `consider`. What it changes of a message (a subject that is
transformed, a header that is added) it makes as bytes, which `held` keeps while the draft points into them.

What it does not do: commit, find, delete, or know how a stream comes to be: that is `stream.stream`.
"""

import msgspec
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base import limits
from tidelog.base.errors import StorageError
from tidelog.base.instant import timestamp
from tidelog.log.filter cimport Filter
from tidelog.log.log import LimitReached
from tidelog.log.read cimport Batch, Reader
from tidelog.log.record cimport FOREVER, Head, body_of, encoded_size
from tidelog.log.store cimport Store
from tidelog.stream import failure
from tidelog.stream.batch import AtomicBatches
from tidelog.stream.counter import Total, advance, read_increment, read_total
from tidelog.stream.failure import ApiFailure
from tidelog.stream.publish import InvalidTtl, read_fields, with_line
from tidelog.stream.publish cimport (
    BATCH_ID, EXPECTED_LAST_MSG_ID, EXPECTED_LAST_SEQ, EXPECTED_LAST_SUBJECT_SEQ, EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    EXPECTED_STREAM, INCR, MSG_ID, REQUEST_INFO, ROLLUP, SCHEDULE, SCHEDULE_NEXT, SCHEDULER, STREAM_SOURCE, TTL,
    find_fields, has, sequence_of, ttl_seconds, value_of, without_line, without_status,
)
from tidelog.stream.schedule import vet as vet_schedule
from tidelog.subject.node cimport NO_VALUE
from tidelog.subject.transform import Transform

cdef Py_ssize_t HEADER_MOST = limits.STREAM_HEADER_SIZE
cdef Py_ssize_t NO_BOUND = <Py_ssize_t>((<size_t>-1) >> 1)
cdef int64_t SECOND_NS = 1_000_000_000
cdef uint32_t SCHEDULING = <uint32_t>1 << <int>SCHEDULE | <uint32_t>1 << <int>SCHEDULE_NEXT | <uint32_t>1 << <int>SCHEDULER
cdef uint32_t AT_ODDS_WITH_COUNTERS = (
    <uint32_t>1 << <int>ROLLUP | <uint32_t>1 << <int>EXPECTED_STREAM | <uint32_t>1 << <int>EXPECTED_LAST_MSG_ID
    | <uint32_t>1 << <int>EXPECTED_LAST_SEQ | <uint32_t>1 << <int>EXPECTED_LAST_SUBJECT_SEQ
    | <uint32_t>1 << <int>EXPECTED_LAST_SUBJECT_SEQ_SUBJECT
)


cdef class Intake(Subscriber):
    def take_config(self, config) -> None:
        """Note what a message can meet of the configuration."""
        self.config = config
        self.acks = not config.no_ack
        self.sealed = config.sealed
        self.by_interest = config.retention == "interest"
        self.rollups = config.allow_rollup_hdrs and not config.deny_purge
        self.ttls = config.allow_msg_ttl
        # A marker could not stand for a message that is gone before the marker is.
        self.ttl_least_s = 0 if config.max_msgs_per_subject == 1 else config.subject_delete_marker_ttl // SECOND_NS
        self.max_message_size = config.max_msg_size if config.max_msg_size >= 0 else NO_BOUND
        self.transform = self.transform_of(config.subject_transform)
        self.republish = self.transform_of(config.republish)
        self.counts = config.allow_msg_counter
        self.special = self.sealed or self.transform is not None or self.republish is not None or self.counts
        if not config.allow_atomic and self.batches is not None:
            self.batches.clear()
            self.batches = None
        elif config.allow_atomic and self.batches is None:
            self.batches = AtomicBatches(self)
        self.dedupe.set_window(config.duplicate_window)

    def transform_of(self, pair) -> Transform | None:
        if pair is None:
            return None
        return Transform((pair.src or ">").encode(), (pair.dest or ">").encode(), self.account.chance.integer)

    # ---- taking messages ----

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        cdef Fields fields
        cdef Draft draft
        if self.stopped:
            return False
        draft.subject = message.subject
        draft.subject_size = message.subject_size
        draft.reply = message.reply if self.acks else NULL
        draft.reply_size = message.reply_size
        draft.header = message.body
        draft.header_size = message.header_size
        draft.payload = message.body + message.header_size
        draft.payload_size = message.body_size - message.header_size
        draft.ts_ns = self.tick.now_ns(publisher)
        draft.ttl_s = 0
        draft.own = draft.part = False
        fields.found = 0
        fields.status_size = 0
        if message.header_size:
            find_fields(message.body, message.header_size, &fields)
        if (
            fields.found or fields.status_size or self.special or message.body_size > self.max_message_size
            or message.header_size > HEADER_MOST or self.budget.limited()
        ):
            self.consider(&draft, &fields)
        else:
            self.store(&draft, &fields)
        if not self.touched:
            self.mark()
        return True

    cdef int settle(self) except -1:
        """Tell the budget by how much the log has grown or shrunk."""
        cdef int64_t size = <int64_t>self.log.counted_size()
        if size != self.counted:
            self.budget.add(size - self.counted)
            self.counted = size
        return 0

    cdef int mark(self) except -1:
        """There is something to commit or to answer."""
        if not self.touched:
            self.touched = True
            self.tick.touch(self)
        return 0

    cdef int store(self, Draft* draft, Fields* fields, bytes tail=None) except -1:
        """Put a message that was found good into the log, and promise the acknowledgement, with `tail` behind it."""
        cdef uint64_t seq
        cdef bytes acknowledgement
        try:
            seq = self.append(draft, fields)
        except StorageError as error:
            text = str(error)
            if isinstance(error, LimitReached) and error.limit == "size":
                text = "maximum bytes exceeded"
            self.answer(draft, self.refusal(failure.STREAM_STORE_FAILED(err=text)))
            return 0
        self.last_id = value_of(fields, MSG_ID) if fields.found else b""
        if draft.reply != NULL and tail is None:
            self.receipts.add(seq, draft.reply, draft.reply_size)
        elif draft.reply != NULL:
            acknowledgement = b'{"stream":%s,"seq":%d%s' % (msgspec.json.encode(self.name), seq, tail)
            self.receipts.add_answer(
                seq, draft.reply, draft.reply_size,
                PyBytes_AS_STRING(acknowledgement), PyBytes_GET_SIZE(acknowledgement),
            )
        return 0

    cdef uint64_t append(self, Draft* draft, Fields* fields) except 0:
        cdef uint64_t seq
        if self.by_interest and not self.wanted(draft.subject, draft.subject_size):
            if not draft.part:
                return self.log.pass_over(draft.subject, draft.subject_size)
            # Its header says that the batch is complete.
            seq = self.put(draft)
            self.log.remove(seq)
            return seq
        if not fields.found or not has(fields, ROLLUP) or not self.log.discard_new_per_subject:
            return self.put(draft)
        # The messages that it would be one too many beside are about to go.
        self.log.discard_new_per_subject = False
        try:
            return self.put(draft)
        finally:
            self.log.discard_new_per_subject = True

    cdef uint64_t put(self, Draft* draft) except 0:
        return self.log.append_raw(
            draft.subject, draft.subject_size, draft.header, draft.header_size, draft.payload, draft.payload_size,
            draft.ts_ns, draft.ts_ns + draft.ttl_s * SECOND_NS if draft.ttl_s > 0 else FOREVER if draft.ttl_s < 0 else 0,
        )

    cdef int answer(self, Draft* draft, bytes text) except -1:
        """Say this to the publisher, when what was stored so far is committed."""
        if draft.reply == NULL:
            return 0
        if self.log.refusal is not None:
            # That may be never, and who knows that sends less.
            self.post.send(
                draft.reply, draft.reply_size, NULL, 0, NULL, 0, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
            )
        else:
            self.receipts.add_answer(
                self.log.store.last_seq, draft.reply, draft.reply_size, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
            )
        return 0

    def answer_to(self, bytes reply, bytes text not None) -> None:
        """The same, to a subject that may be none."""
        cdef Draft draft
        if reply is not None and self.acks:
            draft.reply = PyBytes_AS_STRING(reply)
            draft.reply_size = PyBytes_GET_SIZE(reply)
            self.answer(&draft, text)
            self.mark()

    def refusal(self, refused) -> bytes:
        """What a publisher is told of a message that is not taken."""
        return b'{"error":%s,"stream":%s,"seq":0}' % (
            msgspec.json.encode(refused.error), msgspec.json.encode(self.name)
        )

    # ---- a closer look ----

    cdef int consider(self, Draft* draft, Fields* fields) except -1:
        """A message that asks for something, or comes to a stream where all are looked at."""
        cdef list held = []
        try:
            if has(fields, BATCH_ID) and not draft.own:
                self.hand_over(draft)
            elif self.check(draft, fields, held):
                self.keep(draft, fields, None)
        except ApiFailure as refused:
            self.answer(draft, self.refusal(refused))
        return 0

    cdef int hand_over(self, Draft* draft) except -1:
        """A message of an atomic batch goes to those that wait for the rest of it."""
        if self.sealed:
            raise failure.STREAM_SEALED()
        self.check_room(draft)
        if draft.header_size + draft.payload_size > self.max_message_size:
            raise failure.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
        if self.batches is None:
            raise failure.ATOMIC_PUBLISH_DISABLED()
        self.batches.take(
            draft.subject[:draft.subject_size], draft.reply[:draft.reply_size] if draft.reply != NULL else None,
            draft.header[:draft.header_size], draft.payload[:draft.payload_size],
        )
        return 0

    def insert(self, bytes subject not None, bytes header not None, bytes payload not None) -> int:
        """Take a message of the server itself, which need not ask. Returns its sequence; 0: it was not stored."""
        cdef uint64_t before = self.log.store.last_seq
        cdef Fields fields
        cdef Draft draft
        self.draw_up(&draft, &fields, subject, header, payload)
        draft.own = True
        self.consider(&draft, &fields)
        self.mark()
        return self.log.store.last_seq if self.log.store.last_seq != before else 0

    def vet(self, bytes subject not None, bytes header not None, bytes payload not None, inflight) -> tuple:
        """Check a message of a batch, behind what is in flight: subject, header, payload and time to live, as they are
        stored. Raises ApiFailure."""
        cdef Fields fields
        cdef Draft draft
        cdef list held = []
        self.draw_up(&draft, &fields, subject, header, payload)
        self.inflight = inflight
        try:
            self.check(&draft, &fields, held)
        finally:
            self.inflight = None
        return (
            draft.subject[:draft.subject_size], draft.header[:draft.header_size], draft.payload[:draft.payload_size],
            draft.ttl_s,
        )

    def keep_part(
        self, bytes subject not None, bytes header not None, bytes payload not None, ttl_s: int, bytes reply, bytes tail
    ) -> bool:
        """Store a message of a batch that was vetted; tells whether that worked."""
        cdef uint64_t before = self.log.store.last_seq
        cdef Fields fields
        cdef Draft draft
        self.draw_up(&draft, &fields, subject, header, payload)
        draft.ttl_s = ttl_s
        draft.part = True
        if reply is not None and self.acks:
            draft.reply = PyBytes_AS_STRING(reply)
            draft.reply_size = PyBytes_GET_SIZE(reply)
        self.keep(&draft, &fields, tail)
        return self.log.store.last_seq != before

    cdef int draw_up(self, Draft* draft, Fields* fields, bytes subject, bytes header, bytes payload) except -1:
        """A draft of objects, which the caller holds."""
        draft.subject = PyBytes_AS_STRING(subject)
        draft.subject_size = PyBytes_GET_SIZE(subject)
        draft.reply = NULL
        draft.reply_size = 0
        draft.header = PyBytes_AS_STRING(header)
        draft.header_size = PyBytes_GET_SIZE(header)
        draft.payload = PyBytes_AS_STRING(payload)
        draft.payload_size = PyBytes_GET_SIZE(payload)
        draft.ts_ns = self.tick.now_ns(None)
        draft.ttl_s = 0
        draft.own = draft.part = False
        fields.found = 0
        fields.status_size = 0
        if header:
            find_fields(draft.header, draft.header_size, fields)
        return 0

    def record_size(self, bytes subject not None, bytes header not None, bytes payload not None, ttl_s: int=0) -> int:
        """What a message takes in the log, as its limits count it."""
        return encoded_size(len(subject), len(header), len(payload), ttl_s != 0) - self.log.uncounted

    cdef bint check(self, Draft* draft, Fields* fields, list held) except -1:
        """Whether the message is to be stored; False: it came before, and that was answered. Raises ApiFailure."""
        cdef bytes subject
        if self.transform is not None and not draft.own:
            subject = draft.subject[:draft.subject_size]
            subject = self.transform.apply(subject) or subject
            held.append(subject)
            draft.subject = PyBytes_AS_STRING(subject)
            draft.subject_size = PyBytes_GET_SIZE(subject)
        if self.sealed:
            raise failure.STREAM_SEALED()
        self.clean(draft, fields, held)
        if not draft.own:
            self.check_expectations(draft, fields)
            if fields.found & SCHEDULING:
                self.use_header(draft, fields, vet_schedule(
                    self, draft.subject[:draft.subject_size], read_fields(draft.header[:draft.header_size]),
                    draft.header[:draft.header_size], draft.ts_ns,
                ), held)
            if has(fields, STREAM_SOURCE):
                raise failure.MESSAGE_SOURCE_HDR_NOT_ALLOWED()
        if self.repeated(draft, fields):
            return False
        self.check_rest(draft, fields, held)
        return True

    cdef int clean(self, Draft* draft, Fields* fields, list held) except -1:
        """Leave out of the header what is not stored."""
        cdef bytes header
        if fields.status_size or has(fields, REQUEST_INFO):
            header = without_line(without_status(draft.header, draft.header_size, fields), b"Nats-Request-Info")
            self.use_header(draft, fields, header, held)
        return 0

    cdef int use_header(self, Draft* draft, Fields* fields, bytes header, list held) except -1:
        """The message has this header from now on."""
        held.append(header)
        draft.header = PyBytes_AS_STRING(header)
        draft.header_size = PyBytes_GET_SIZE(header)
        return find_fields(draft.header, draft.header_size, fields)

    cdef int keep(self, Draft* draft, Fields* fields, bytes tail) except -1:
        """Store a message that was found good, and do what it asks for."""
        cdef uint64_t before = self.log.store.last_seq, subject_seq = 0, seq
        if self.republish is not None:
            subject_seq = self.last_seq_for(draft.subject, draft.subject_size)
        if self.counts and tail is None:
            tail = b"," + draft.payload[1:draft.payload_size]
        self.store(draft, fields, tail)
        seq = self.log.store.last_seq
        if seq == before:
            return 0
        if has(fields, MSG_ID):
            self.dedupe.note(fields.values[<int>MSG_ID], fields.sizes[<int>MSG_ID], seq, draft.ts_ns)
        if has(fields, ROLLUP):
            self.roll_up(draft, fields, seq)
        if fields.found & SCHEDULING and self.schedules is not None:
            self.schedules.stored(
                draft.subject[:draft.subject_size], draft.header[:draft.header_size], seq, draft.ts_ns
            )
        if self.republish is not None:
            self.publish_again(
                draft.subject[:draft.subject_size], draft.header[:draft.header_size],
                draft.payload[:draft.payload_size], seq, subject_seq,
            )
        return 0

    cdef int check_expectations(self, Draft* draft, Fields* fields) except -1:
        """What must be true of the stream for the message to be taken."""
        if self.inflight is not None and has(fields, EXPECTED_LAST_MSG_ID):
            raise failure.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH(header="Nats-Expected-Last-Msg-Id")
        if has(fields, INCR):
            read_increment(value_of(fields, INCR))
            if not self.counts:
                raise failure.MESSAGE_INCR_DISABLED()
            if draft.payload_size:
                raise failure.MESSAGE_INCR_PAYLOAD()
            if fields.found & AT_ODDS_WITH_COUNTERS:
                raise failure.MESSAGE_INCR_INVALID()
        if has(fields, EXPECTED_STREAM) and value_of(fields, EXPECTED_STREAM) != self.name.encode():
            raise failure.STREAM_NOT_MATCH()
        if has(fields, TTL) and not self.ttls:
            # What cannot be read is told only where times to live are allowed, as at the peer.
            try:
                draft.ttl_s = ttl_seconds(value_of(fields, TTL))
            except InvalidTtl:
                draft.ttl_s = 0
            if draft.ttl_s:
                raise failure.MESSAGE_TTL_DISABLED()
        self.check_sequences(draft, fields)
        return 0

    cdef int check_sequences(self, Draft* draft, Fields* fields) except -1:
        """What the newest messages must be."""
        cdef uint64_t wanted, found, last_seq = self.log.store.last_seq
        cdef bytes subject
        if has(fields, EXPECTED_LAST_SUBJECT_SEQ):
            wanted = sequence_of(fields, EXPECTED_LAST_SUBJECT_SEQ)
            subject = value_of(fields, EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
            if self.inflight is not None and (subject or draft.subject[:draft.subject_size]) in self.inflight.subjects:
                raise failure.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
            if subject:
                found = self.newest(subject)
            else:
                found = self.last_seq_for(draft.subject, draft.subject_size)
            if found != wanted:
                raise failure.STREAM_WRONG_LAST_SEQUENCE(seq=found)
        elif has(fields, EXPECTED_LAST_SUBJECT_SEQ_SUBJECT):
            raise failure.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID()
        if has(fields, EXPECTED_LAST_SEQ):
            if self.inflight is not None:
                last_seq += self.inflight.count
            if sequence_of(fields, EXPECTED_LAST_SEQ) != last_seq:
                raise failure.STREAM_WRONG_LAST_SEQUENCE(seq=last_seq)
            if last_seq != self.log.store.last_seq:
                # What the others of its batch do is nobody's business yet.
                raise failure.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
        return 0

    cdef bint repeated(self, Draft* draft, Fields* fields) except -1:
        """Whether the message came before; then its publisher is told where it is."""
        cdef uint64_t seq
        if has(fields, MSG_ID) or has(fields, EXPECTED_LAST_MSG_ID):
            if not self.ids_loaded:
                self.load_ids()
        if not has(fields, MSG_ID):
            return False
        seq = self.dedupe.find(fields.values[<int>MSG_ID], fields.sizes[<int>MSG_ID], draft.ts_ns)
        if self.inflight is not None and (seq or value_of(fields, MSG_ID) in self.inflight.ids):
            raise failure.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE()
        if seq == 0:
            return False
        self.answer(draft, b'{"stream":%s,"seq":%d,"duplicate": true}' % (msgspec.json.encode(self.name), seq))
        return True

    cdef int check_rest(self, Draft* draft, Fields* fields, list held) except -1:
        if not draft.own and has(fields, EXPECTED_LAST_MSG_ID) and value_of(fields, EXPECTED_LAST_MSG_ID) != self.last_id:
            raise failure.STREAM_WRONG_LAST_MSG_ID(id=self.last_id.decode("utf-8", "replace"))
        if has(fields, ROLLUP):
            self.check_rollup(draft, value_of(fields, ROLLUP).lower())
        if self.counts:
            self.count(draft, fields, held)
        if draft.header_size + draft.payload_size > self.max_message_size:
            raise failure.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
        if draft.header_size > HEADER_MOST:
            raise failure.STREAM_HEADER_EXCEEDS_MAXIMUM()
        self.check_room(draft)
        if has(fields, TTL):
            self.take_ttl(draft, fields, held)
        return 0

    cdef int check_rollup(self, Draft* draft, bytes value) except -1:
        if not self.rollups and not draft.own:
            raise failure.STREAM_ROLLUP_FAILED(err="rollup not permitted")
        if value != b"sub" and value != b"all":
            raise failure.STREAM_ROLLUP_FAILED(err=f'rollup value invalid: "{value.decode("utf-8", "replace")}"')
        if self.inflight is not None and self.inflight.count:
            # It would take away what the same batch has brought.
            if value == b"all" or draft.subject[:draft.subject_size] in self.inflight.subjects:
                raise failure.STREAM_ROLLUP_FAILED(err=f"batch rollup {value.decode()} invalid")
        return 0

    cdef int count(self, Draft* draft, Fields* fields, list held) except -1:
        """The message is an increment: make the sum of it."""
        cdef bytes subject = draft.subject[:draft.subject_size], payload
        if not has(fields, INCR):
            raise failure.MESSAGE_INCR_MISSING()
        total = self.inflight.totals.get(subject) if self.inflight is not None else None
        if total is None:
            last = self.log.peek(self.last_seq_for(draft.subject, draft.subject_size))
            total = read_total(last.header, last.payload) if last is not None else Total()
        header, payload = advance(
            total, draft.header[:draft.header_size], draft.payload[:draft.payload_size], subject
        )
        if self.inflight is not None:
            self.inflight.totals[subject] = total
        held.append(payload)
        draft.payload = PyBytes_AS_STRING(payload)
        draft.payload_size = PyBytes_GET_SIZE(payload)
        return self.use_header(draft, fields, header, held)

    cdef int check_room(self, Draft* draft) except -1:
        """Whether the account and the server have room for the message."""
        cdef Py_ssize_t size
        if self.budget.limited():
            self.settle()
            size = encoded_size(draft.subject_size, draft.header_size, draft.payload_size, False)
            if not self.budget.above.has_room(size):
                raise failure.INSUFFICIENT_RESOURCES()
            if not self.budget.has_room(size):
                raise failure.ACCOUNT_RESOURCES_EXCEEDED()
        return 0

    cdef int take_ttl(self, Draft* draft, Fields* fields, list held) except -1:
        """How long the message lives."""
        cdef bytes header
        try:
            draft.ttl_s = ttl_seconds(value_of(fields, TTL))
        except InvalidTtl:
            raise failure.MESSAGE_TTL_INVALID() from None
        if 0 < draft.ttl_s < self.ttl_least_s:
            draft.ttl_s = self.ttl_least_s
            header = without_line(draft.header[:draft.header_size], b"Nats-TTL")
            self.use_header(draft, fields, with_line(header, b"Nats-TTL", b"%d" % draft.ttl_s), held)
        return 0

    cdef int roll_up(self, Draft* draft, Fields* fields, uint64_t seq) except -1:
        """The message stands for all before it: of its subject, or of the stream."""
        if value_of(fields, ROLLUP).lower() == b"all":
            self.log.purge(before_seq=seq)
        else:
            self.log.purge(Filter(draft.subject[:draft.subject_size]), before_seq=seq)
        return 0

    def publish_again(self, bytes subject, bytes header, bytes payload, uint64_t seq, uint64_t subject_seq) -> None:
        """Pass a stored message on, as the configuration asks."""
        again = self.republish.apply(subject)
        if again is None:
            return
        only_header = self.config.republish.headers_only
        lines = [
            header[:-2] if header else b"NATS/1.0\r\n",
            b"Nats-Stream: %s\r\n" % self.name.encode(),
            b"Nats-Subject: %s\r\n" % subject,
            b"Nats-Sequence: %d\r\n" % seq,
            b"Nats-Time-Stamp: %s\r\n" % timestamp(self.log.store.last_ts_ns).encode(),
            b"Nats-Last-Sequence: %d\r\n" % subject_seq,
        ]
        if only_header:
            lines.append(b"Nats-Msg-Size: %d\r\n" % len(payload))
        self.post.publish(again, b"" if only_header else payload, header=b"".join(lines) + b"\r\n")

    cdef int load_ids(self) except -1:
        """Note the ids of what came within the window before a restart."""
        cdef Reader reader
        cdef Batch batch
        cdef Fields fields
        cdef Head* head
        cdef Py_ssize_t i
        cdef int64_t start_ns = self.tick.now_ns(None) - self.dedupe.window_ns
        self.ids_loaded = True
        if self.log.store.count == 0 or self.dedupe.window_ns <= 0:
            return 0
        reader = self.log.reader(start_seq=min(self.log.seq_at_time(start_ns), self.log.store.last_seq))
        while not reader.ended:
            batch = reader.read(4096)
            if batch.count == 0:
                break
            for i in range(batch.count):
                head = batch.heads[i]
                fields.found = 0
                if head.header_size:
                    find_fields(body_of(head), head.header_size, &fields)
                if has(&fields, MSG_ID) and head.ts_ns >= start_ns:
                    self.dedupe.note(fields.values[<int>MSG_ID], fields.sizes[<int>MSG_ID], head.seq, head.ts_ns)
                if head.seq == self.log.store.last_seq:
                    self.last_id = value_of(&fields, MSG_ID)
        return 0

    # ---- what is there ----

    cdef uint64_t last_seq_for(self, const char* subject, Py_ssize_t size) noexcept:
        """The newest message of a subject, committed or not; 0: there is none."""
        cdef Store store = self.log.store
        slot = store.index.tree.find(subject, size)
        return store.index.lists.last(slot) if slot != NO_VALUE else 0

    def is_schedule(self, bytes subject not None) -> bool:
        """Whether the newest message of a subject is a schedule, or there is none."""
        if self.inflight is not None and subject in self.inflight.schedules:
            return self.inflight.schedules[subject]
        last = self.log.peek(self.last_seq_for(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)))
        return last is None or b"\r\nNats-Schedule:" in last.header

    def purge_subject(self, bytes subject not None) -> None:
        """The messages of a subject go, as a message asks that was found good."""
        self.log.purge(Filter(subject))

    def subject_count(self, bytes subject not None) -> int:
        """How many messages of a subject there are."""
        slot = self.log.store.index.tree.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        return self.log.store.index.lists.size(slot) if slot != NO_VALUE else 0

    def newest(self, bytes subject) -> int:
        """The same for a subject that may have wildcards and may be none."""
        try:
            return self.log.store.index.previous(Filter(subject), self.log.store.last_seq)
        except ValueError:
            return 0

    cdef bint wanted(self, const char* subject, Py_ssize_t size) except -1:
        """Whether a consumer wants messages of this subject."""
        for consumer in self.consumers.values():
            if (<Filter>consumer.filter).matches(subject, size):
                return True
        return False
