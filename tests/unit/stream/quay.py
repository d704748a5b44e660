"""A shore with consumers: requests go in by hand, and what is delivered comes out where it is listened for."""

from typing import Any, NamedTuple

import msgspec

from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_config import ConsumerConfig, CreateConsumerRequest
from tidelog.stream.consumer_info import ConsumerInfo, info_of
from tidelog.stream.request_check import consumer_to_create
from tidelog.subject.route import Reception, Subscription
from unit.stream.shore import Shore


class Delivered(NamedTuple):
    subject: bytes
    reply: bytes | None
    header: bytes
    payload: bytes

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Delivery, stream sequence, consumer sequence, and how many are still to come."""
        assert self.reply is not None
        count, seq, dseq, _ts, pending = self.reply.decode().split(".")[-5:]
        return int(count), int(seq), int(dseq), int(pending)

    @property
    def seq(self) -> int:
        return self.numbers[1]

    @property
    def status(self) -> str:
        return self.header.split(b"\r\n")[0].removeprefix(b"NATS/1.0 ").decode()


class Quay(Shore):
    """`inbox.>` is listened to, and so is whatever `hear` is asked to."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        self.got: list[Delivered] = []
        self.events: list[dict[str, Any]] = []
        super().__init__(*args, **fields)

    def open(self) -> Any:
        recovery = super().open()
        self.hear(b"inbox.>")
        self.interest.insert(Subscription(b"$JS.EVENT.>", b"", b"", Reception(self.note_event)))
        return recovery

    def hear(self, subject: bytes, into: list[Delivered] | None = None, queue: bytes = b"") -> Subscription:
        """Listen, and put what comes where `take` finds it, or into a list of its own."""

        def note(heard: bytes, reply: bytes | None, header: bytes, payload: bytes, _origin: object) -> None:
            (self.got if into is None else into).append(Delivered(heard, reply, header, payload))

        subscription = Subscription(subject, queue, b"", Reception(note))
        self.interest.insert(subscription)
        return subscription

    def note_event(
        self, subject: bytes, _reply: bytes | None, _header: bytes, payload: bytes, _origin: object
    ) -> None:
        event = msgspec.json.decode(payload)
        self.events.append({"subject": subject.decode(), **event})

    def take(self) -> list[Delivered]:
        """What came since this was asked last."""
        got, self.got = self.got, []
        return got

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Advisories and metrics of a kind, such as `max_deliver`."""
        return [event for event in self.events if event["type"].endswith(f".{kind}")]

    # ---- what clients do ----

    def fill(self, count: int, stream: str = "S", subjects: int = 1) -> None:
        """Publish `count` messages on `<stream>.<number>`."""
        for number in range(count):
            self.send(f"{stream}.{number % subjects}".encode(), b"%d" % number, reply=None)
        self.engine.commit()

    def consumer(self, name: str = "c", stream: str = "S", action: str = "", **fields: Any) -> Consumer:
        """A durable pull consumer that acknowledges each message, if nothing else is said."""
        there = self.account.find(stream)
        defaults: dict[str, Any] = {"durable_name": name, "name": name, "ack_policy": "explicit"}
        config = ConsumerConfig(**defaults | fields)
        asked = CreateConsumerRequest(stream, config, action)
        keeper = there.keeper
        checked = consumer_to_create(
            config,
            asked,
            there.config,
            keeper.configs(),
            self.account,
            lambda subject: bool(subject) and self.account.post.wanted(subject.encode()),
        )
        made: Consumer = keeper.create(checked)
        self.timers.run(self.clock.monotonic_ns())
        return made

    def ask(self, consumer: Consumer, body: object = b"", reply: bytes = b"inbox.1") -> list[Delivered]:
        """A request for messages, and what it brings at once."""
        self.got.clear()
        text = body if isinstance(body, bytes) else msgspec.json.encode(body)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream.name}.{consumer.name}"
        self.account.post.publish(subject.encode(), text, reply=reply)
        return self.take()

    def fetch(self, consumer: Consumer, batch: int, reply: bytes = b"inbox.1") -> list[Delivered]:
        """As many messages as there are now, up to `batch`."""
        got = self.ask(consumer, {"batch": batch, "no_wait": True}, reply)
        return [one for one in got if one.reply is not None]

    def ack(self, message: Delivered, body: bytes = b"+ACK", reply: bytes | None = None) -> None:
        assert message.reply is not None
        self.account.post.publish(message.reply, body, reply=reply)

    def info(self, consumer: Consumer) -> ConsumerInfo:
        return info_of(consumer, self.clock.now_ns())
