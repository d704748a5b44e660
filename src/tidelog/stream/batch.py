"""Atomic batches: messages of a stream that are stored together or not at all.

    batches.take(ticket, reply, subject, header, payload)      a message with `Nats-Batch-Id`
    mend(stream)                                       what a crash left of a batch goes

Promises
  * BATCH-1: of a batch, readers see all messages or none, also after a crash in the middle of writing it.
  * A batch waits in memory, within bounds, and is given up when nothing comes for it; an advisory says so.
  * The checks of its messages are those of the peer: each sees what those before it in the batch will have done.

How: until the commit nothing is stored. Then every message is checked, and when all are good they are appended behind
each other within one tick, so that one commit of the log shows them. Each is stored with its headers, which say where
in its batch it stands, and which is the last one. So a log that ends in a batch whose last message is missing was cut
while that was written, and what there is of the batch is deleted before anybody reads (docs/decisions/0030).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidelog import API_LEVEL
from tidelog.base import limits
from tidelog.base.timer import Timer
from tidelog.log.fact import Awaited
from tidelog.stream import failure
from tidelog.stream.failure import ApiFailure
from tidelog.stream.parcel import Parcel
from tidelog.stream.publish import cut_line, read_fields, read_sequence, with_line

if TYPE_CHECKING:
    from tidelog.stream.counter import Total
    from tidelog.stream.engine import Engine
    from tidelog.stream.stream import Stream

BATCH_ID, BATCH_SEQ, BATCH_COMMIT = b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit"
END = b"eob"
NO_NUMBER = 2**64 - 1
TIMEOUT, LARGE, INCOMPLETE, UNSUPPORTED = "timeout", "large", "incomplete", "unsupported"


class Part(NamedTuple):
    """A message of a batch, as it came or as it will be stored."""

    subject: bytes
    header: bytes
    payload: bytes
    ttl_s: int = 0


class Inflight:
    """What the messages of a batch that were found good will have done."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.ids: set[bytes] = set()
        self.subjects: dict[bytes, int] = {}  # how many messages
        self.schedules: dict[bytes, bool] = {}
        self.totals: dict[bytes, Total] = {}

    def add(self, part: Part, record_size: int) -> None:
        fields = read_fields(part.header)
        self.count += 1
        self.size += record_size
        self.subjects[part.subject] = self.subjects.get(part.subject, 0) + 1
        self.schedules[part.subject] = bool(fields.get(b"Nats-Schedule"))
        if fields.get(b"Nats-Msg-Id"):
            self.ids.add(fields[b"Nats-Msg-Id"])


class Ticket(NamedTuple):
    """What a message says of its batch."""

    batch_id: bytes
    number: int  # NO_NUMBER: none that can be read
    committed: bytes | None
    level: bytes
    plain: bool


class AtomicBatches:
    """Of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.waiting: dict[bytes, Parcel] = {}
        self.timer: Timer | None = None

    @property
    def engine(self) -> Engine:
        return self.stream.account.engine

    # ---- taking messages ----

    def take(
        self, ticket: Ticket, reply: bytes | None, subject: bytes, header: bytes, payload: bytes
    ) -> None:
        try:
            complete = self.stage(ticket, Part(subject, header, payload))
            if complete is None:
                if reply is not None and not self.stream.config.no_ack:
                    self.stream.account.post.publish(reply, b"")
                return
            self.commit(ticket.batch_id, complete, reply)
        except ApiFailure as refused:
            self.stream.answer_to(reply, self.stream.refusal(refused))

    def stage(self, ticket: Ticket, part: Part) -> Parcel | None:
        """Put a message to its batch. Returns that, if it is complete; raises ApiFailure."""
        batch_id, number, committed, level, plain = ticket
        if len(batch_id) > limits.ATOMIC_BATCH_ID_SIZE:
            raise failure.ATOMIC_PUBLISH_INVALID_BATCH_ID()
        if number >= 2**63:
            raise failure.ATOMIC_PUBLISH_MISSING_SEQ()
        end = committed == END
        size = number - 1 if end else number
        most = self.engine.settings.max_batch_messages or limits.ATOMIC_BATCH_MESSAGES
        batch = self.waiting.get(batch_id)
        if batch is None:
            if number != 1:
                if size > most:
                    raise failure.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=most)
                raise failure.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
            batch = self.begin(batch_id)
        if committed is not None and committed not in (b"1", END):
            self.forget(batch_id)
            raise failure.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT()
        if level:
            if read_sequence(level) > API_LEVEL:
                self.abandon(batch_id, UNSUPPORTED)
                raise failure.REQUIRED_API_LEVEL()
            part = part._replace(header=cut_line(part.header, b"Nats-Required-Api-Level"))
        if number != batch.count + 1 or (number == 1 and end):
            self.abandon(batch_id, INCOMPLETE)
            raise failure.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        if size > most:
            self.abandon(batch_id, LARGE)
            raise failure.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=most)
        if end:
            _, header, _ = batch.parts()[-1]
            batch.set_last_header(with_line(header, BATCH_COMMIT, b"1"))
        else:
            self.add(batch_id, batch, part, plain)
        if committed is None:
            return None
        self.forget(batch_id)
        return batch

    def add(self, batch_id: bytes, batch: Parcel, part: Part, plain: bool) -> None:
        size = len(part.subject) + len(part.header) + len(part.payload)
        if self.engine.staged.size + size > self.engine.staged.most:
            self.abandon(batch_id, LARGE)
            raise failure.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
        batch.add(part.subject, part.header, part.payload)
        batch.plain = batch.plain and plain
        self.engine.staged.size += size
        self.stream.parcel = batch
        self.put_off(batch)
        if self.timer is None:
            self.arm()

    def put_off(self, batch: Parcel) -> None:
        """Something came for it just now."""
        idle_ns = self.engine.settings.max_batch_idle_ns or limits.ATOMIC_BATCH_IDLE_NS
        batch.due_ns = self.engine.clock.monotonic_ns() + idle_ns

    def begin(self, batch_id: bytes) -> Parcel:
        settings, staged = self.engine.settings, self.engine.staged
        if len(self.waiting) >= (
            settings.max_batches_per_stream or limits.ATOMIC_BATCHES_PER_STREAM
        ) or staged.batches >= (settings.max_batches or limits.ATOMIC_BATCHES_PER_SERVER):
            raise failure.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
        self.engine.staged.batches += 1
        most = settings.max_batch_messages or limits.ATOMIC_BATCH_MESSAGES
        batch = self.waiting[batch_id] = Parcel(batch_id, most)
        return batch

    # ---- the commit ----

    def commit(self, batch_id: bytes, batch: Parcel, reply: bytes | None) -> None:
        """Store all of them, or raise ApiFailure."""
        stream = self.stream
        if stream.log.refusal is not None:
            raise failure.STREAM_STORE_FAILED(err=str(stream.log.refusal))
        simple = batch.plain and stream.config.discard != "new" and stream.takes_plainly(batch)
        tail = b',"batch":%s,"count":%d}' % (
            msgspec.json.encode(batch_id.decode("utf-8", "replace")),
            batch.count,
        )
        if simple:
            if not stream.keep_parcel(batch, reply, tail):
                raise failure.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
            return
        good = self.checked([Part(*part) for part in batch.parts()])
        first_seq = stream.log.store.last_seq + 1
        for at, part in enumerate(good):
            last = at == len(good) - 1
            if not stream.keep_part(*part, reply if last else None, tail if last else b""):
                # Nothing of it is written yet.
                for seq in range(first_seq, stream.log.store.last_seq + 1):
                    stream.log.remove(seq)
                if not last:
                    raise failure.ATOMIC_PUBLISH_INCOMPLETE_BATCH()

    def checked(self, parts: list[Part]) -> list[Part]:
        """As they will be stored. Raises ApiFailure, if one of them cannot be."""
        stream, inflight = self.stream, Inflight()
        good: list[Part] = []
        for part in parts:
            checked = Part(*stream.vet(part.subject, part.header, part.payload, inflight))
            inflight.add(checked, stream.record_size(*checked))
            check_limits(stream, checked, inflight)
            good.append(checked)
        return good

    # ---- giving up ----

    def forget(self, batch_id: bytes) -> None:
        batch = self.waiting.pop(batch_id)
        self.engine.staged.batches -= 1
        self.engine.staged.size -= batch.size
        if self.stream.parcel is batch:
            self.stream.parcel = None

    def abandon(self, batch_id: bytes, reason: str) -> None:
        self.forget(batch_id)
        name = batch_id.decode("utf-8", "replace")
        self.stream.account.events.batch_abandoned(self.stream.name, name, reason)

    def clear(self) -> None:
        """All that wait are forgotten: the stream ends, or takes no batches any more."""
        for batch_id in list(self.waiting):
            self.forget(batch_id)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def arm(self) -> None:
        if self.timer is None and self.waiting:
            self.timer = self.engine.timers.at(
                min(batch.due_ns for batch in self.waiting.values()), self.run_due
            )

    def run_due(self) -> None:
        self.timer = None
        now_ns = self.engine.clock.monotonic_ns()
        for batch_id in [one for one, batch in self.waiting.items() if batch.due_ns <= now_ns]:
            self.abandon(batch_id, TIMEOUT)
        self.arm()


def check_limits(stream: Stream, part: Part, inflight: Inflight) -> None:
    """Whether the log will take it: what is refused then would be half of a batch. Raises ApiFailure."""
    config = stream.config
    if config.discard != "new":
        return
    store = stream.log.store
    if 0 < config.max_msgs < store.count + inflight.count:
        raise failure.STREAM_STORE_FAILED(err="maximum messages exceeded")
    if 0 < config.max_bytes < stream.log.counted_size() + inflight.size:
        raise failure.STREAM_STORE_FAILED(err="maximum bytes exceeded")
    most = config.max_msgs_per_subject
    if config.discard_new_per_subject and most > 0 and not read_fields(part.header).get(b"Nats-Rollup"):
        there = stream.subject_count(part.subject) + inflight.subjects[part.subject]
        if there > most:
            raise failure.STREAM_STORE_FAILED(err="maximum messages per subject exceeded")


def mend(stream: Stream) -> int:
    """Delete what a crash left of a batch at the end of the log. Returns how many messages that were."""
    log = stream.log
    last_seq = log.store.last_seq
    try:
        newest = log.peek(last_seq) if last_seq else None
    except Awaited:
        # What is in the cold tier was followed by something else, so a batch at its end was whole.
        return 0
    if newest is None:
        return 0
    fields = read_fields(newest.header)
    number = read_sequence(fields.get(BATCH_SEQ) or b"-")
    most = max(stream.account.engine.settings.max_batch_messages, limits.ATOMIC_BATCH_MESSAGES)
    if not fields.get(BATCH_ID) or fields.get(b"Nats-Stream-Source") or number > most:
        return 0
    first_seq = max(last_seq - number + 1, 1)
    lost = any(start < last_seq and end > first_seq for start, end in log.store.lost.ranges())
    if fields.get(BATCH_COMMIT) and not lost:
        return 0
    gone = sum(log.remove(seq) for seq in range(first_seq, last_seq + 1))
    # Before anything else is in the log, or the batch would not be at its end at the next start.
    log.commit()
    return gone
