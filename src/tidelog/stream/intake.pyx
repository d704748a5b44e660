# cython: wraparound=True
"""Intake: what a stream does with the messages that it is given, from the subscription to the log.

Promises
  * STREAM-1: what is refused leaves no trace, and what is acknowledged is committed; answers leave in the order of the
    messages, but while the log takes nothing.
  * STREAM-2: the checks of a message are made in the order of the peer, and a refusal says what the peer says.
  * STREAM-3: a message whose id was seen within the window is not stored again, also after a restart.
  * A message without headers in a stream without special settings costs some comparisons, one append and one entry in
    the receipts; no object.

How: everything that needs a closer look goes through `consider`, and so through `stream.check`.

What it does not do: commit, find, delete, or know how a stream comes to be: that is `stream.stream`.
"""

import msgspec
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from tidelog.base import limits
from tidelog.base.errors import StorageError
from tidelog.base.instant import timestamp
from tidelog.log.filter cimport Filter
from tidelog.log.log import LimitReached
from tidelog.log.record cimport FOREVER, encoded_size
from tidelog.stream import failure
from tidelog.stream.failure import ApiFailure
from tidelog.stream.batch import NO_NUMBER, Ticket
from tidelog.stream.parcel cimport Parcel, PartSize
from tidelog.stream.publish cimport (
    BATCH_COMMIT, BATCH_ID, BATCH_SEQ, MSG_ID, REQUIRED_API_LEVEL, ROLLUP, find_fields, has, schedules, sequence_of,
    value_of,
)
from tidelog.stream.taker cimport Takers

cdef Py_ssize_t HEADER_MOST = limits.STREAM_HEADER_SIZE
cdef int64_t SECOND_NS = 1_000_000_000
cdef uint32_t BIT_COMMIT = <uint32_t>1 << <int>BATCH_COMMIT
# What messages of a batch may say without being looked at closely.
cdef uint32_t IN_THE_MIDDLE = <uint32_t>1 << <int>BATCH_ID | <uint32_t>1 << <int>BATCH_SEQ
cdef uint32_t PLAIN_IN_BATCHES = IN_THE_MIDDLE | BIT_COMMIT
cdef Py_ssize_t RECORD_FRONT = encoded_size(0, 0, 0, False)
cdef enum:
    FAST_SIZE = 4            # of `.$FI`


cdef class Intake(Checks):
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
        draft.own = draft.part = draft.mirrored = draft.told = False
        draft.transforms = True
        fields.found = 0
        fields.status_size = 0
        if message.header_size:
            find_fields(message.body, message.header_size, &fields)
        if (
            fields.found or fields.status_size or self.special or message.body_size > self.max_message_size
            or message.header_size > HEADER_MOST or is_fast(&draft)
            or not self.promise(encoded_size(draft.subject_size, 0, message.body_size, False))
        ):
            self.consider(&draft, &fields)
        else:
            self.store(&draft, &fields)
        if not self.touched:
            self.mark()
        return True

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
            if draft.own or draft.told:
                raise
            self.answer(draft, self.refusal(failure.STREAM_STORE_FAILED(err=limit_text(error))))
            return 0
        self.last_id = value_of(fields, MSG_ID) if fields.found else b""
        if draft.reply != NULL and tail is None:
            self.receipts.add(seq, draft.reply, draft.reply_size)
        elif draft.reply != NULL:
            acknowledgement = b"%s%d%s" % (self.receipts.front, seq, tail)
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
        if not fields.found or not has(fields, ROLLUP) or not self.log.bounds.discard_new_per_subject:
            return self.put(draft)
        # The messages that it would be one too many beside are about to go.
        self.log.bounds.discard_new_per_subject = False
        try:
            return self.put(draft)
        finally:
            self.log.bounds.discard_new_per_subject = True

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
        cdef int64_t seq
        try:
            if has(fields, BATCH_ID) or is_fast(draft):
                self.hand_over(draft, fields)
                return 0
            seq = self.check(draft, fields, held)
            if seq:
                self.answer(draft, b'%s%d,"duplicate": true}' % (self.receipts.front, seq))
            else:
                self.keep(draft, fields, None)
        except ApiFailure as refused:
            self.answer(draft, self.refusal(refused))
        return 0

    cdef int hand_over(self, Draft* draft, Fields* fields) except -1:
        """A message of a batch goes to those that know the rest of it."""
        cdef bint fast = is_fast(draft)
        cdef bytes subject, header, payload, reply
        if not fast and self.pack(draft, fields):
            return 0
        subject, header = draft.subject[:draft.subject_size], draft.header[:draft.header_size]
        payload = draft.payload[:draft.payload_size]
        reply = draft.reply[:draft.reply_size] if draft.reply != NULL else None
        if self.sealed:
            raise failure.STREAM_SEALED()
        self.check_room(draft)
        if draft.header_size + draft.payload_size > self.max_message_size:
            raise failure.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
        if fast:
            if self.fast is None:
                raise failure.BATCH_PUBLISH_DISABLED()
            self.fast.take(subject, reply, header, payload)
            return 0
        if self.batches is None:
            raise failure.ATOMIC_PUBLISH_DISABLED()
        self.batches.take(Ticket(
            value_of(fields, BATCH_ID), sequence_of(fields, BATCH_SEQ) if has(fields, BATCH_SEQ) else NO_NUMBER,
            value_of(fields, BATCH_COMMIT) if fields.found & BIT_COMMIT else None, value_of(fields, REQUIRED_API_LEVEL),
            not fields.found & ~PLAIN_IN_BATCHES and not fields.status_size and draft.header_size <= HEADER_MOST,
        ), reply, subject, header, payload)
        return 0

    cdef bint pack(self, Draft* draft, Fields* fields) except -1:
        """Put the next message of a batch to those before it, if it asks for nothing but that. False: it needs a look."""
        cdef Parcel parcel = self.parcel
        cdef Py_ssize_t size = draft.subject_size + draft.header_size + draft.payload_size
        if (
            parcel is None or fields.found != IN_THE_MIDDLE or draft.reply != NULL or fields.status_size
            or not parcel.plain or parcel.count >= parcel.most or self.sealed
            or draft.header_size > HEADER_MOST or draft.header_size + draft.payload_size > self.max_message_size
            or self.staged.size + size > self.staged.most or not self.budget.fits(size + RECORD_FRONT)
            or sequence_of(fields, BATCH_SEQ) != <uint64_t>parcel.count + 1
            or fields.sizes[<int>BATCH_ID] != PyBytes_GET_SIZE(parcel.batch_id)
            or memcmp(fields.values[<int>BATCH_ID], PyBytes_AS_STRING(parcel.batch_id), fields.sizes[<int>BATCH_ID]) != 0
        ):
            return False
        parcel.put(
            draft.subject, draft.subject_size, draft.header, draft.header_size, draft.payload, draft.payload_size
        )
        self.staged.size += size
        if draft.ts_ns != parcel.ts_ns:
            # Once for what comes together.
            parcel.ts_ns = draft.ts_ns
            self.batches.put_off(parcel)
        return True

    def keep_parcel(self, Parcel parcel not None, bytes reply, bytes tail not None) -> bool:
        """Store a batch whose messages ask for nothing else. False: one was refused, and that must be told."""
        cdef uint64_t first_seq = self.log.store.last_seq + 1, before
        cdef bint whole = True
        cdef Py_ssize_t at = 0
        cdef Fields fields
        cdef Draft draft
        cdef PartSize sizes
        cdef bytes nothing = b""
        self.draw_up(&draft, &fields, nothing, nothing, nothing)
        draft.part = True
        try:
            while at < parcel.data.count:
                memcpy(&sizes, parcel.data.items + at, sizeof(PartSize))
                draft.subject = parcel.data.items + at + sizeof(PartSize)
                draft.subject_size = sizes.subject
                draft.header = draft.subject + sizes.subject
                draft.header_size = sizes.header
                draft.payload = draft.header + sizes.header
                draft.payload_size = sizes.payload
                at += sizeof(PartSize) + sizes.subject + sizes.header + sizes.payload
                if at == parcel.data.count and reply is not None and self.acks:
                    draft.reply = PyBytes_AS_STRING(reply)
                    draft.reply_size = PyBytes_GET_SIZE(reply)
                    before = self.log.store.last_seq
                    self.store(&draft, &fields, tail)
                    whole = self.log.store.last_seq != before
                else:
                    self.append(&draft, &fields)
        except StorageError:
            whole = False
        self.last_id = b""
        if not whole:
            # Nothing of it is written yet.
            for seq in range(first_seq, self.log.store.last_seq + 1):
                self.log.remove(seq)
        return whole or draft.reply != NULL

    def takes_plainly(self, Parcel parcel not None) -> bool:
        """Whether a batch whose messages ask for nothing needs no closer look here."""
        return not self.special and self.promise(parcel.size + parcel.count * RECORD_FRONT)

    def publish(self, bytes subject not None, bytes header not None, bytes payload not None) -> tuple:
        """Take a message of a client who is answered otherwise: its sequence, and whether it came before. Raises
        ApiFailure."""
        cdef uint64_t before = self.log.store.last_seq
        cdef Fields fields
        cdef Draft draft
        cdef list held = []
        cdef int64_t seq
        self.draw_up(&draft, &fields, subject, header, payload)
        seq = self.check(&draft, &fields, held)
        if seq:
            return seq, True
        if self.log.refusal is not None:
            raise failure.STREAM_STORE_FAILED(err=str(self.log.refusal))
        draft.told = True
        try:
            self.keep(&draft, &fields, None)
        except StorageError as error:
            raise failure.STREAM_STORE_FAILED(err=limit_text(error)) from None
        self.mark()
        return self.log.store.last_seq, False

    def insert(
        self, bytes subject not None, bytes header not None, bytes payload not None, int64_t ts_ns=0, bint transforms=False
    ) -> int:
        """Take a message of the server itself, which need not ask. Returns its sequence; 0: it came before.

        `ts_ns`: of a mirror's origin, which has seen to everything already. `transforms`: its subject is mapped as those
        of clients are. Raises ApiFailure and StorageError when it is not taken.
        """
        cdef Fields fields
        cdef Draft draft
        cdef list held = []
        self.draw_up(&draft, &fields, subject, header, payload)
        draft.own = True
        draft.mirrored = ts_ns != 0
        draft.transforms = transforms
        if ts_ns:
            draft.ts_ns = ts_ns
        if self.check(&draft, &fields, held):
            return 0
        self.mark()
        self.keep(&draft, &fields, None)
        return self.log.store.last_seq

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
        draft.own = draft.part = draft.mirrored = draft.told = False
        draft.transforms = True
        fields.found = 0
        fields.status_size = 0
        if header:
            find_fields(draft.header, draft.header_size, fields)
        return 0

    def record_size(self, bytes subject not None, bytes header not None, bytes payload not None, ttl_s: int=0) -> int:
        """What a message takes in the log, as its limits count it."""
        return encoded_size(len(subject), len(header), len(payload), ttl_s != 0) - self.log.bounds.uncounted

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
        if has(fields, ROLLUP) and self.rollups:
            self.roll_up(draft, fields, seq)
        if schedules(fields) and self.schedules is not None:
            self.schedules.stored(
                draft.subject[:draft.subject_size], draft.header[:draft.header_size], seq, draft.ts_ns
            )
        if self.republish is not None:
            self.publish_again(
                draft.subject[:draft.subject_size], draft.header[:draft.header_size],
                draft.payload[:draft.payload_size], seq, subject_seq,
            )
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

    # ---- what is there ----

    def purge_subject(self, bytes subject not None) -> None:
        """The messages of a subject go, as a message asks that was found good."""
        self.log.purge(Filter(subject))

    cdef bint wanted(self, const char* subject, Py_ssize_t size) except -1:
        """Whether a consumer wants messages of this subject."""
        if self.takers is None:
            self.takers = Takers(self.consumers.values())
        return self.takers.wants(subject, size)


def limit_text(error) -> str:
    """Why the log did not take a message, as the peer says it."""
    return "maximum bytes exceeded" if isinstance(error, LimitReached) and error.limit == "size" else str(error)


cdef bint is_fast(Draft* draft) noexcept nogil:
    """Whether the message belongs to a fast batch, as its reply says."""
    return (
        draft.reply != NULL and draft.reply_size > FAST_SIZE
        and memcmp(draft.reply + draft.reply_size - FAST_SIZE, b".$FI", FAST_SIZE) == 0
    )
