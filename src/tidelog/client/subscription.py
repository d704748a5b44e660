"""What a subscription has received and has not yet handed out.

What it promises: messages come in the order in which the server sent them; `next`, `next_batch` and iteration
may be mixed. Iteration ends when the subscription does (unsubscribed, or its `max_msgs` reached, or the
connection closed by us) and everything received has been handed out; a connection that the server ends raises
Disconnected.

A connection reads for all its subscriptions at once, so one that nobody empties grows while another is waited
for. At PENDING_COUNT_MAX messages or PENDING_SIZE_MAX bytes further ones are thrown away and counted in
`dropped`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.base.errors import Disconnected, Timeout
from tidelog.client.message import Delivery, Message

if TYPE_CHECKING:
    from tidelog.client.connection import Connection

# The bounds that other NATS clients have, so that what fits there fits here.
PENDING_COUNT_MAX = 512 * 1024
PENDING_SIZE_MAX = 64 * 1024 * 1024


class Subscription:
    def __init__(self, connection: Connection, sid: bytes, subject: str, queue: str) -> None:
        self.subject = subject
        self.queue = queue
        self.dropped = 0
        self._connection = connection
        self._sid = sid
        self._pending: deque[Delivery] = deque()
        self._pending_size = 0
        self._received = 0
        self._max_msgs = 0
        self._active = True

    @property
    def sid(self) -> bytes:
        """What the server calls it on this connection."""
        return self._sid

    @property
    def pending(self) -> int:
        """Messages received and not yet handed out."""
        return len(self._pending)

    def next(self, timeout_s: float | None = None) -> Message:
        """The next message; None waits for ever. Raises Timeout, ServerError or Disconnected."""
        if not self._pending:
            self._wait(timeout_s)
        return self._pop()

    def next_batch(self, max_msgs: int, timeout_s: float | None = None) -> list[Message]:
        """At least one message, and at most `max_msgs` of those that are there. Raises as `next`."""
        if not self._pending:
            self._wait(timeout_s)
        pending, connection = self._pending, self._connection
        found = [Message(pending.popleft(), connection) for _ in range(min(max_msgs, len(pending)))]
        self._pending_size -= (
            sum(len(message.payload) for message in found) if pending else self._pending_size
        )
        return found

    def __iter__(self) -> Iterator[Message]:
        pending, connection = self._pending, self._connection
        while True:
            while pending:
                # `_pop`, without the call: this is where a consumer spends its time.
                delivery = pending.popleft()
                self._pending_size -= len(delivery[5])
                yield Message(delivery, connection)
            if not self._active:
                return
            try:
                self._wait(None)
            except Disconnected:
                if self._active:
                    raise
                return

    def unsubscribe(self, max_msgs: int = 0) -> None:
        """End it now, or after `max_msgs` counted from its beginning. What has arrived stays readable."""
        self._connection._unsubscribe(self, max_msgs)

    def _pop(self) -> Message:
        delivery = self._pending.popleft()
        self._pending_size -= len(delivery[5])
        return Message(delivery, self._connection)

    def _wait(self, timeout_s: float | None) -> None:
        """Until something is pending."""
        if timeout_s is None:
            while not self._pending:
                self._check_active()
                self._connection._pump(None)
            return
        deadline = time.monotonic() + timeout_s
        while not self._pending:
            self._check_active()
            if not self._connection._pump(deadline - time.monotonic()):
                raise Timeout(f"no message on {self.subject!r} within {timeout_s:g} s")

    def _check_active(self) -> None:
        if not self._active:
            raise Disconnected(f"subscription to {self.subject!r} has ended")

    def _take(self, delivery: Delivery) -> None:
        """One more from the server."""
        self._received += 1
        if len(self._pending) >= PENDING_COUNT_MAX or self._pending_size > PENDING_SIZE_MAX:
            self.dropped += 1
        else:
            self._pending.append(delivery)
            self._pending_size += len(delivery[5])
        if self._received == self._max_msgs:
            self._connection._forget(self)
