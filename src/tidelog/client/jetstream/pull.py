"""Pull consumers: messages are asked for, worked on, and acknowledged.

orders = PullConsumer(js, "ORDERS", "worker")
for message in orders.fetch(100, timeout_s=2):
    work(message.payload)
    message.ack()

What it promises: `fetch` gives what there is when it has as many as asked for, or the time is over, or (`no_wait`)
the server has no more now. `consume` goes on for ever: the next request is under way before the last one is used
up, and a server that has fallen silent is noticed by its missing heartbeats. What ends the consumer (deleted, not
a pull consumer) is raised as ApiError. An `ack` is buffered like any publish and sent by the next call that waits.

What it does not do: threads; acknowledging by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from tidelog.base.errors import ApiError, Disconnected, NoResponders, Timeout
from tidelog.client.connection import DEFAULT_TIMEOUT_S
from tidelog.client.jetstream.answer import Document
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.stored import Place, place_of
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription
from tidelog.wire.header import Headers

SECOND_NS = 1_000_000_000
HEARTBEAT = 100
# What ends a request and not the consumer.
NO_MESSAGES, REQUEST_TIMEOUT = 404, 408
CONFLICT = 409
# Words of a 409 after which another request makes sense.
PASSING = ("batch completed", "message size exceeds maxbytes", "exceeded maxwaiting", "leadership change")

CONSUME_COUNT = 500
CONSUME_EXPIRY_S = 30.0
CONSUME_HEARTBEAT_S = 5.0
# The server waits for its time to be over; its answer needs a moment more to come.
PATIENCE_S = 2.0


class Delivered:
    """A message that a consumer has delivered."""

    __slots__ = ("_js", "message")

    def __init__(self, message: Message, js: JetStream) -> None:
        self.message = message
        self._js = js

    @property
    def subject(self) -> str:
        return self.message.subject

    @property
    def payload(self) -> bytes:
        return self.message.payload

    @property
    def headers(self) -> Headers:
        return self.message.headers

    @property
    def place(self) -> Place:
        return place_of(self.message.reply)

    def ack(self) -> None:
        self._js.connection.publish(self.message.reply, b"+ACK")

    def ack_sync(self) -> None:
        """Return when the server has taken it."""
        self._js.connection.request(self.message.reply, b"+ACK", timeout_s=self._js.timeout_s)

    def nak(self, delay_s: float = 0.0) -> None:
        """Deliver it again, after a while."""
        body = b'-NAK {"delay":%d}' % int(delay_s * SECOND_NS) if delay_s else b"-NAK"
        self._js.connection.publish(self.message.reply, body)

    def term(self, reason: str = "") -> None:
        """Never again."""
        self._js.connection.publish(self.message.reply, f"+TERM {reason}".strip().encode())

    def in_progress(self) -> None:
        """Still at work: the time to acknowledge begins anew."""
        self._js.connection.publish(self.message.reply, b"+WPI")


class PullConsumer:
    def __init__(self, js: JetStream, stream: str, name: str) -> None:
        self._js = js
        self.stream = stream
        self.name = name

    def fetch(
        self,
        count: int,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        no_wait: bool = False,
        max_bytes: int = 0,
        group: str = "",
    ) -> list[Delivered]:
        """Up to `count` messages. Fewer, or none, when the time is over."""
        request: Document = {"batch": count}
        if no_wait:
            request["no_wait"] = True
        else:
            request["expires"] = int(timeout_s * SECOND_NS)
        if max_bytes:
            request["max_bytes"] = max_bytes
        if group:
            request["group"] = group
        inbox = self._ask(request)
        deadline = time.monotonic() + (self._js.timeout_s if no_wait else timeout_s) + PATIENCE_S
        found: list[Delivered] = []
        try:
            while len(found) < count:
                for message in inbox.next_batch(count - len(found), deadline - time.monotonic()):
                    if not is_status(message):
                        found.append(Delivered(message, self._js))
                    elif message.status != HEARTBEAT:
                        check_status(message, self.stream, self.name)
                        return found
        except Timeout:
            if not found:
                raise
        finally:
            inbox.unsubscribe()
        return found

    def consume(
        self, *, batch: int = CONSUME_COUNT, idle_s: float | None = None, group: str = ""
    ) -> Iterator[Delivered]:
        """Messages for ever, or until none came for `idle_s`."""
        expiry_s = CONSUME_EXPIRY_S if idle_s is None else idle_s
        heartbeat_s = min(CONSUME_HEARTBEAT_S, expiry_s / 2)
        request: Document = {"expires": int(expiry_s * SECOND_NS)}
        # The server refuses a heartbeat for a short request.
        if heartbeat_s >= 0.1:
            request["idle_heartbeat"] = int(heartbeat_s * SECOND_NS)
        if group:
            request["group"] = group
        connection = self._js.connection
        inbox = connection.subscribe(connection.new_inbox())
        left, last_s = 0, time.monotonic()
        try:
            while True:
                if left <= batch // 2:
                    self._send({**request, "batch": batch - left}, inbox)
                    left = batch
                try:
                    messages = inbox.next_batch(batch, 2 * heartbeat_s + PATIENCE_S)
                except Timeout:
                    raise Disconnected(f"consumer {self.name!r}: no heartbeat of the server") from None
                for message in messages:
                    if not is_status(message):
                        left -= 1
                        last_s = time.monotonic()
                        yield Delivered(message, self._js)
                    elif message.status != HEARTBEAT:
                        check_status(message, self.stream, self.name)
                        left -= unserved(message, left)
                if idle_s is not None and time.monotonic() - last_s >= idle_s:
                    return
        finally:
            inbox.unsubscribe()

    def _ask(self, request: Document) -> Subscription:
        inbox = self._js.connection.subscribe(self._js.connection.new_inbox())
        self._send(request, inbox)
        return inbox

    def _send(self, request: Document, inbox: Subscription) -> None:
        subject = f"{self._js.prefix}.CONSUMER.MSG.NEXT.{self.stream}.{self.name}"
        self._js.connection.publish(subject, msgspec.json.encode(request), reply=inbox.subject)


def is_status(message: Message) -> bool:
    """The server's word about a request, and no message."""
    return not message.payload and bool(message.header_block) and message.status != 0


def unserved(message: Message, under_way: int) -> int:
    """How many messages a request that has ended had still asked for; all of them if it does not say."""
    return min(under_way, int(message.headers.get("Nats-Pending-Messages", [str(under_way)])[0]))


def check_status(message: Message, stream: str, consumer: str) -> None:
    """Raises for a status after which there is no use in asking again."""
    if message.is_no_responders:
        raise NoResponders(f"stream {stream!r} has no consumer {consumer!r}")
    if message.status in (NO_MESSAGES, REQUEST_TIMEOUT):
        return
    if message.status == CONFLICT and message.description.lower() in PASSING:
        return
    raise ApiError(message.status, 0, message.description)
