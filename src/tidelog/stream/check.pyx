# cython: wraparound=True
"""The checks of messages: what must be true for a stream to take one, in the order and with the words of the peer.

`check` looks at a message from all sides and changes what is to be stored of it: a subject that is transformed, a header
that is added, a sum in the place of an increment. It makes these as bytes, which `held` keeps while the draft points
into them. A message of a batch is checked behind what the others of its batch will have done (`inflight`).

What it does not do: store, answer, or touch anything that is stored.
"""

from collections.abc import Iterator

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base import limits
from tidelog.log.filter cimport Filter
from tidelog.log.read cimport Batch, Reader, message_of
from tidelog.log.record cimport Head, body_of, encoded_size
from tidelog.log.store cimport Store
from tidelog.stream import failure
from tidelog.stream.batch import AtomicBatches
from tidelog.stream.counter import Total, advance, read_increment, read_total
from tidelog.stream.fast_batch import FastBatches
from tidelog.stream.publish import InvalidTtl, read_fields, with_line
from tidelog.stream.publish cimport (
    EXPECTED_LAST_MSG_ID, EXPECTED_LAST_SEQ, EXPECTED_LAST_SUBJECT_SEQ, EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    EXPECTED_STREAM, INCR, MSG_ID, REQUEST_INFO, ROLLUP, STREAM_SOURCE, TTL,
    find_fields, has, schedules, sequence_of, ttl_seconds, value_of, without_line, without_status,
)
from tidelog.stream.schedule import vet as vet_schedule
from tidelog.subject.node cimport NO_VALUE
from tidelog.subject.transform import Transform

cdef extern from "string.h":
    void* memmem(const void* where, size_t size, const void* what, size_t what_size) nogil

cdef Py_ssize_t HEADER_MOST = limits.STREAM_HEADER_SIZE
cdef Py_ssize_t NO_BOUND = <Py_ssize_t>((<size_t>-1) >> 1)
cdef int64_t SECOND_NS = 1_000_000_000
cdef uint32_t AT_ODDS_WITH_COUNTERS = (
    <uint32_t>1 << <int>ROLLUP | <uint32_t>1 << <int>EXPECTED_STREAM | <uint32_t>1 << <int>EXPECTED_LAST_MSG_ID
    | <uint32_t>1 << <int>EXPECTED_LAST_SEQ | <uint32_t>1 << <int>EXPECTED_LAST_SUBJECT_SEQ
    | <uint32_t>1 << <int>EXPECTED_LAST_SUBJECT_SEQ_SUBJECT
)


cdef class Checks(Subscriber):
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
        if not config.allow_batched and self.fast is not None:
            self.fast.clear()
            self.fast = None
        elif config.allow_batched and self.fast is None:
            self.fast = FastBatches(self)
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

    # ---- in the order of the peer ----

    cdef int64_t check(self, Draft* draft, Fields* fields, list held) except -1:
        """0: the message is good; else it came before, with this sequence. Raises ApiFailure."""
        cdef int64_t seq
        cdef bytes subject
        if self.transform is not None and draft.transforms:
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
            if schedules(fields):
                self.use_header(draft, fields, vet_schedule(
                    self, draft.subject[:draft.subject_size], read_fields(draft.header[:draft.header_size]),
                    draft.header[:draft.header_size], draft.ts_ns,
                ), held)
            if has(fields, STREAM_SOURCE):
                raise failure.MESSAGE_SOURCE_HDR_NOT_ALLOWED()
        if not draft.mirrored:
            seq = self.repeated(draft, fields)
            if seq:
                return seq
        self.check_rest(draft, fields, held)
        return 0

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

    cdef int64_t repeated(self, Draft* draft, Fields* fields) except -1:
        """The sequence with which the message came before; 0: it did not."""
        cdef uint64_t seq
        if has(fields, MSG_ID) or has(fields, EXPECTED_LAST_MSG_ID):
            if not self.ids_loaded:
                self.load_ids()
        if not has(fields, MSG_ID):
            return 0
        seq = self.dedupe.find(fields.values[<int>MSG_ID], fields.sizes[<int>MSG_ID], draft.ts_ns)
        if self.inflight is not None and (seq or value_of(fields, MSG_ID) in self.inflight.ids):
            raise failure.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE()
        return <int64_t>seq

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
        if has(fields, TTL) and (self.ttls or not draft.own):
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
        cdef Py_ssize_t size = encoded_size(draft.subject_size, draft.header_size, draft.payload_size, False)
        if not self.promise(size):
            # What has gone in this tick may have made room, and not all that was promised was stored.
            self.settle()
            if not self.budget.above.has_room(size):
                self.account.engine.tell_exceeded(self.config.storage)
                raise failure.INSUFFICIENT_RESOURCES()
            if not self.budget.has_room(size):
                raise failure.ACCOUNT_RESOURCES_EXCEEDED()
            self.promise(size)
        return 0

    cdef bint promise(self, int64_t size) noexcept:
        """Keep room for so much until `settle`. False: it has to be looked at more closely."""
        if not self.budget.promise(size):
            return False
        self.promised += size
        return True

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

    # ---- what is there ----

    cdef uint64_t last_seq_for(self, const char* subject, Py_ssize_t size) noexcept:
        """The newest message of a subject, committed or not; 0: there is none."""
        cdef Store store = self.log.store
        slot = store.index.tree.find(subject, size)
        return store.index.lists.last(slot) if slot != NO_VALUE else 0

    def newest(self, bytes subject) -> int:
        """The same for a subject that may have wildcards and may be none."""
        try:
            return self.log.store.index.previous(Filter(subject), self.log.store.last_seq)
        except ValueError:
            return 0

    def subject_count(self, bytes subject not None) -> int:
        """How many messages of a subject there are."""
        slot = self.log.store.index.tree.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        return self.log.store.index.lists.size(slot) if slot != NO_VALUE else 0

    def is_schedule(self, bytes subject not None) -> bool:
        """Whether the newest message of a subject is a schedule, or there is none."""
        if self.inflight is not None and subject in self.inflight.schedules:
            return self.inflight.schedules[subject]
        last = self.log.peek(self.last_seq_for(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)))
        return last is None or b"\r\nNats-Schedule:" in last.header

    def with_header(self, bytes text not None, uint64_t start_seq, bint backward=False) -> Iterator:
        """Messages from a sequence on whose header has this text in it, oldest first, or newest first."""
        cdef Reader reader
        cdef Batch batch
        cdef Head* head
        cdef Py_ssize_t i
        if backward:
            reader = self.log.reader(backward=True, start="last", stop_seq=max(start_seq, 1))
        else:
            reader = self.log.reader(start_seq=max(start_seq, 1), stop_seq=self.log.horizon.committed_seq)
        while not reader.ended:
            batch = reader.read(4096)
            if batch.count == 0:
                return
            for i in range(batch.count):
                head = batch.heads[i]
                if head.header_size and memmem(
                    body_of(head), head.header_size, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
                ) != NULL:
                    yield message_of(head)

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

    cdef int settle(self) except -1:
        """Tell the budget by how much the log has grown or shrunk."""
        # What is in the cold tier takes no room here.
        cdef int64_t size = max(<int64_t>self.log.counted_size() - <int64_t>self.log.store.cold_size, 0)
        if self.promised:
            self.budget.redeem(self.promised)
            self.promised = 0
        if size != self.counted:
            self.budget.add(size - self.counted)
            self.counted = size
        return 0
