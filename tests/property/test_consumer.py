"""A consumer against a dictionary: nothing acknowledged is lost or comes again, nothing else is passed over.

What is drawn: messages, fetches, every kind of acknowledgement, deletions, time, restarts and crashes. After each step
the consumer says of itself what the model says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tidelog.disk.memory import MemoryDisk
from tidelog.log.filter import Filter
from tidelog.stream.consumer import Consumer
from unit.stream.quay import Delivered, Quay

SECOND = 1_000_000_000
ACK_WAIT = 2 * SECOND
FILTERS = [[], ["S.1"], ["S.*.x"], ["S.0", "S.1.>"], ["S.>"], ["S.none"]]
SUBJECTS = [b"S.0", b"S.1", b"S.1.x", b"S.2.x", b"S.2"]


@dataclass
class Waits:
    """What the model knows of a message that was delivered."""

    count: int = 0  # deliveries after the first
    due_ns: int = 0  # 0: it is in the queue


@dataclass
class Model:
    filter: Filter
    max_deliver: int
    max_pending: int
    messages: dict[int, bytes] = field(default_factory=dict)
    next_seq: int = 1
    dseq: int = 0
    waits: dict[int, Waits] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    given_up: dict[int, int] = field(default_factory=dict)

    def coming(self) -> list[int]:
        return [
            seq
            for seq, subject in self.messages.items()
            if seq >= self.next_seq and self.filter.accepts(subject)
        ]

    def fetch(self, batch: int, now_ns: int) -> list[tuple[int, int, int, int]]:
        """What comes: delivery, sequence, consumer sequence, and how many are left."""
        came = []
        while len(came) < batch:
            while (
                self.queue and self.max_deliver > 0 and self.waits[self.queue[0]].count + 2 > self.max_deliver
            ):
                seq = self.queue.pop(0)
                self.given_up[seq] = self.waits.pop(seq).count
            if self.queue:
                seq = self.queue.pop(0)
                waits = self.waits[seq]
                waits.count += 1
                waits.due_ns = now_ns + ACK_WAIT
            elif len(self.waits) < self.max_pending and self.coming():
                seq = self.coming()[0]
                self.next_seq = seq + 1
                waits = self.waits[seq] = Waits(0, now_ns + ACK_WAIT)
            else:
                break
            self.dseq += 1
            came.append((waits.count + 1, seq, self.dseq, len(self.coming())))
        return came

    def done(self, seq: int) -> None:
        self.waits.pop(seq, None)
        self.given_up.pop(seq, None)
        if seq in self.queue:
            self.queue.remove(seq)

    def put_off(self, seq: int, due_ns: int) -> None:
        if seq in self.waits:
            self.waits[seq].due_ns = due_ns
            if seq in self.queue:
                self.queue.remove(seq)

    def again(self, seq: int) -> None:
        if seq in self.waits and seq not in self.queue:
            self.waits[seq].due_ns = 0
            self.queue.append(seq)

    def pass_time(self, now_ns: int) -> None:
        late = sorted((waits.due_ns, seq) for seq, waits in self.waits.items() if 0 < waits.due_ns <= now_ns)
        for _, seq in late:
            if self.max_deliver > 0 and self.waits[seq].count + 1 >= self.max_deliver:
                self.given_up[seq] = self.waits.pop(seq).count
            else:
                self.again(seq)


class ConsumerMachine(RuleBasedStateMachine):
    @initialize(
        filters=st.sampled_from(FILTERS),
        max_deliver=st.sampled_from([-1, 1, 3]),
        room=st.sampled_from([2, 5, 1000]),
    )
    def make(self, filters: list[str], max_deliver: int, room: int) -> None:
        self.quay = Quay(MemoryDisk())
        self.quay.stream()
        self.quay.consumer(
            filter_subjects=filters, max_deliver=max_deliver, max_ack_pending=room, ack_wait=ACK_WAIT
        )
        self.model = Model(Filter(*(one.encode() for one in filters)), max_deliver, room)
        self.seen: list[Delivered] = []
        self.asked = 0

    @property
    def consumer(self) -> Consumer:
        there: Consumer = self.quay.account.find("S").consumers["c"]
        return there

    @rule(numbers=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6))
    def publish(self, numbers: list[bytes]) -> None:
        for subject in numbers:
            self.quay.send(subject, reply=None)
            self.model.messages[self.quay.account.find("S").log.state().last_seq] = subject
        self.quay.engine.commit()
        self.check()

    @rule(batch=st.integers(1, 7))
    def fetch(self, batch: int) -> None:
        """CONSUMER-1, CONSUMER-2, CONSUMER-5, CONSUMER-6"""
        came: list[Delivered] = []
        self.asked += 1
        inbox = b"own.%d" % self.asked
        ear = self.quay.hear(inbox, came)
        self.quay.ask(self.consumer, {"batch": batch, "no_wait": True}, inbox)
        # Whatever is left of the request ends with whoever made it.
        self.quay.interest.remove(ear)
        came = [one for one in came if one.reply is not None]
        wanted = self.model.fetch(batch, self.quay.clock.ns)
        assert [one.numbers for one in came] == wanted, (wanted, came)
        self.seen += came
        self.check()

    @rule(which=st.integers(0, 1000), body=st.sampled_from([b"", b"+ACK", b"+TERM"]))
    def finish(self, which: int, body: bytes) -> None:
        if self.seen:
            message = self.seen[which % len(self.seen)]
            self.quay.ack(message, body)
            self.model.done(message.seq)
            self.check()

    @rule(which=st.integers(0, 1000), seconds=st.sampled_from([0, 1, 5]))
    def refuse(self, which: int, seconds: int) -> None:
        if self.seen:
            message = self.seen[which % len(self.seen)]
            self.quay.ack(message, b"-NAK %ds" % seconds if seconds else b"-NAK")
            if seconds:
                self.model.put_off(message.seq, self.quay.clock.ns + seconds * SECOND)
            else:
                self.model.again(message.seq)
            self.check()

    @rule(which=st.integers(0, 1000))
    def work_on(self, which: int) -> None:
        if self.seen:
            message = self.seen[which % len(self.seen)]
            self.quay.ack(message, b"+WPI")
            self.model.put_off(message.seq, self.quay.clock.ns + ACK_WAIT)
            self.check()

    @rule(which=st.integers(0, 1000))
    def delete(self, which: int) -> None:
        if self.model.messages:
            seq = list(self.model.messages)[which % len(self.model.messages)]
            assert self.quay.account.find("S").delete(seq)
            self.quay.engine.commit()
            del self.model.messages[seq]
            self.model.done(seq)
            self.check()

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def advance(self, seconds: float) -> None:
        self.quay.advance(seconds)
        self.model.pass_time(self.quay.clock.ns)
        self.check()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """CONSUMER-8, CONSUMER-9"""
        if not clean:
            # What is not written yet may be forgotten.
            while self.quay.engine.consumer_store.changed:
                self.advance(0.25)
        (self.quay.restart if clean else self.quay.crash)()
        self.quay.advance(0)
        # What was in the queue comes in the order of the stream.
        self.model.queue.sort()
        self.check()

    def check(self) -> None:
        info = self.quay.info(self.consumer)
        model = self.model
        assert info.num_pending == len(model.coming())
        assert info.num_ack_pending == len(model.waits) <= model.max_pending
        assert info.delivered.consumer_seq == model.dseq
        assert consumer_floor(info.ack_floor.stream_seq, model)


def consumer_floor(floor_seq: int, model: Model) -> bool:
    """CONSUMER-6: whether the floor is in front of all that waits."""
    return all(floor_seq < seq for seq in model.waits)


TestConsumer = ConsumerMachine.TestCase
TestConsumer.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
