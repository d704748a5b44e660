"""Fast batches: publishing without an acknowledgement for each message, with the server setting the pace.

The reply of each message says where it belongs:

    <prefix>.<batch>.<flow>.<ok|fail>.<sequence>.<operation>.$FI       0 start, 1 append, 2 commit, 3 end, 4 ping

Each message is stored when it comes, as one that is published alone; a batch is not atomic. The publisher is told now
and then how far everything is committed and after how many messages it hears again (`ack`), which messages were
missing (`gap`) or refused (`err`), and at the end gets an acknowledgement with the number of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidelog import API_LEVEL
from tidelog.base import limits
from tidelog.base.timer import Timer
from tidelog.stream import failure
from tidelog.stream.failure import ApiFailure
from tidelog.stream.publish import cut_line, header_value, read_sequence

if TYPE_CHECKING:
    from tidelog.stream.stream import Stream

START, APPEND, COMMIT, END, PING = range(5)
DIGITS = 20
GAPS_OK = {b"ok": True, b"fail": False}
LEVEL = b"Nats-Required-Api-Level"
SEQUENCE_MOST = 2**64 - 1


class Place(NamedTuple):
    """What the reply of a message says."""

    batch: bytes
    flow: int
    gaps_ok: bool
    number: int
    operation: int


def read_place(reply: bytes) -> Place | None:
    """None: it says nothing that can be understood."""
    parts = reply.rsplit(b".", 6)
    if len(parts) < 6:
        return None
    batch, flow_text, gap, number_text, operation_text = parts[-6:-1]
    number, operation = number_of(number_text), number_of(operation_text)
    if not 0 < number < SEQUENCE_MOST or not 0 <= operation <= PING or gap not in GAPS_OK:
        return None
    if (operation == START and number != 1) or (operation in (APPEND, END) and number == 1):
        return None
    flow = number_of(flow_text)
    if flow <= 0:
        flow = limits.FAST_BATCH_FLOW
    return Place(batch, min(flow, limits.FAST_BATCH_FLOW_MOST), GAPS_OK[gap], number, operation)


def number_of(text: bytes) -> int:
    """-1: it is none."""
    return int(text) if text.isdigit() and len(text) <= DIGITS else -1


class Running:
    """A batch that is not at its end."""

    __slots__ = ("due_ns", "flow", "flow_most", "gaps_ok", "number", "seq", "told")

    def __init__(self, flow_most: int, flow: int, gaps_ok: bool) -> None:
        self.flow_most = flow_most
        self.flow = flow  # after so many messages the publisher hears something
        self.gaps_ok = gaps_ok
        self.number = 0  # of the last message that came
        self.told = 0  # up to where it was told
        self.seq = 0  # in the stream
        self.due_ns = 0


class FastBatches:
    """Of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.running: dict[bytes, Running] = {}
        self.timer: Timer | None = None

    def take(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        """Raises ApiFailure."""
        place = read_place(reply)
        if place is None:
            raise failure.BATCH_PUBLISH_INVALID_PATTERN()
        if len(place.batch) > limits.ATOMIC_BATCH_ID_SIZE:
            raise failure.BATCH_PUBLISH_INVALID_BATCH_ID()
        batch = self.running.get(place.batch)
        if batch is None:
            batch = self.begin(place)
        level = header_value(header, LEVEL) if header else b""
        if level:
            if read_sequence(level) > API_LEVEL:
                self.forget(place.batch)
                raise failure.REQUIRED_API_LEVEL()
            header = cut_line(header, LEVEL)
        engine = self.stream.account.engine
        idle_ns = engine.settings.max_batch_idle_ns or limits.ATOMIC_BATCH_IDLE_NS
        batch.due_ns = engine.clock.monotonic_ns() + idle_ns
        if self.timer is None:
            self.arm()
        if place.operation == PING:
            self.ping(place, batch, reply)
        elif self.follows(place, batch, reply):
            self.go_on(place, batch, subject, reply, header, payload)

    def begin(self, place: Place) -> Running:
        engine = self.stream.account.engine
        settings, staged = engine.settings, engine.staged
        if place.number != 1:
            raise failure.BATCH_PUBLISH_UNKNOWN_BATCH_ID()
        if len(self.running) >= (
            settings.max_batches_per_stream or limits.FAST_BATCHES_PER_STREAM
        ) or staged.fast_batches >= (settings.max_batches or limits.FAST_BATCHES_PER_SERVER):
            raise failure.BATCH_PUBLISH_TOO_MANY_INFLIGHT()
        staged.fast_batches += 1
        # Who is alone goes at his own pace, others begin slowly.
        flow = 1 if self.running else min(place.flow, limits.FAST_BATCH_SHARE)
        batch = self.running[place.batch] = Running(place.flow, flow, place.gaps_ok)
        return batch

    def flow_most(self, batches: int) -> int:
        """What comes unacknowledged is shared by all who publish so."""
        return max(limits.FAST_BATCH_SHARE // batches, 1)

    def ping(self, place: Place, batch: Running, reply: bytes) -> None:
        """The publisher wants to hear how far it is."""
        if place.number > batch.number:
            self.tell_gap(reply, batch.number + 1, place.number + 1)
            if not batch.gaps_ok:
                self.finish(place.batch, batch, reply)
                return
            batch.number = place.number
            if self.pace(batch, reply):
                return
        self.tell_flow(batch, reply, batch.told)

    def follows(self, place: Place, batch: Running, reply: bytes) -> bool:
        """Whether a message is the next one, or may be. If not, the batch ends with the one before."""
        if place.number == batch.number + 1:
            return True
        self.tell_gap(reply, batch.number + 1, place.number)
        if place.number > batch.number and batch.gaps_ok:
            return True
        self.finish(place.batch, batch, reply)
        return False

    def go_on(
        self, place: Place, batch: Running, subject: bytes, reply: bytes, header: bytes, payload: bytes
    ) -> None:
        """Store the message, or end the batch."""
        if place.operation == END:
            if place.number > batch.number + 1:
                batch.number = place.number - 1
            self.finish(place.batch, batch, reply)
            return
        first = batch.number == 0
        if first and place.operation != COMMIT:
            self.tell_flow(batch, reply, 0)
        batch.number = place.number
        try:
            seq, repeated = self.stream.publish(subject, header, payload)
        except ApiFailure as refused:
            self.refuse(place, batch, reply, refused, alone=first)
            return
        if repeated and first and not batch.gaps_ok and place.operation == COMMIT:
            self.forget(place.batch)
            self.acknowledge(place.batch, reply, seq, batch.number, b',"duplicate": true')
            return
        if not repeated:
            batch.seq = seq
        if repeated or place.operation != COMMIT:
            self.pace(batch, reply)
        if place.operation == COMMIT:
            self.finish(place.batch, batch, reply)

    def refuse(self, place: Place, batch: Running, reply: bytes, refused: ApiFailure, *, alone: bool) -> None:
        if alone and not batch.gaps_ok:
            self.forget(place.batch)
            raise refused
        error = {"type": "err", "seq": place.number, "error": refused.error}
        self.stream.answer_to(reply, msgspec.json.encode(error))
        if batch.gaps_ok and place.operation != COMMIT:
            return
        batch.number = place.number - 1
        self.finish(place.batch, batch, reply)

    # ---- what publishers are told ----

    def pace(self, batch: Running, reply: bytes) -> bool:
        """Tell how far it is, when it is time to."""
        if batch.number < batch.told + batch.flow:
            return False
        batch.told += (batch.number - batch.told) // batch.flow * batch.flow
        most = min(self.flow_most(len(self.running)), batch.flow_most)
        batch.flow = min(batch.flow * 2, most) if batch.flow < most else max(batch.flow // 2, most)
        self.tell_flow(batch, reply, batch.told)
        return True

    def tell_flow(self, batch: Running, reply: bytes, number: int) -> None:
        self.stream.answer_to(reply, b'{"type":"ack","seq":%d,"msgs":%d}' % (number, batch.flow))

    def tell_gap(self, reply: bytes, expected: int, came: int) -> None:
        self.stream.answer_to(reply, b'{"type":"gap","last_seq":%d,"seq":%d}' % (expected, came))

    def finish(self, batch_id: bytes, batch: Running, reply: bytes) -> None:
        """The batch is at its end: acknowledge what is stored."""
        self.forget(batch_id)
        self.acknowledge(batch_id, reply, batch.seq, batch.number)

    def acknowledge(self, batch_id: bytes, reply: bytes, seq: int, count: int, more: bytes = b"") -> None:
        front = self.stream.receipts.front
        batch = msgspec.json.encode(batch_id.decode("utf-8", "replace"))
        self.stream.answer_to(reply, b'%s%d%s,"batch":%s,"count":%d}' % (front, seq, more, batch, count))

    # ---- the end ----

    def forget(self, batch_id: bytes) -> None:
        if self.running.pop(batch_id, None) is not None:
            self.stream.account.engine.staged.fast_batches -= 1

    def clear(self) -> None:
        for batch_id in list(self.running):
            self.forget(batch_id)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def arm(self) -> None:
        if self.timer is None and self.running:
            due_ns = min(batch.due_ns for batch in self.running.values())
            self.timer = self.stream.account.engine.timers.at(due_ns, self.run_due)

    def run_due(self) -> None:
        """Batches in which nothing comes are forgotten; what they brought stays."""
        self.timer = None
        now_ns = self.stream.account.engine.clock.monotonic_ns()
        for batch_id in [one for one, batch in self.running.items() if batch.due_ns <= now_ns]:
            self.forget(batch_id)
        self.arm()
