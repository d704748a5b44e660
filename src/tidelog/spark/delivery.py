"""Publishing many messages with a bounded number of them on their way.

What it promises
  * `finish` returns when every message that was given to `send` has been acknowledged by its stream; what a stream
    refuses raises, with its subject and the stream's words.
  * At most `max_count` messages and about `max_size` bytes are on their way; `send` waits for room.
  * When the connection is lost, messages whose acknowledgement did not come are sent again on a new one, if all have
    ids by which the stream knows them again; otherwise that is an error, and it is said how many are uncertain.

What it does not do: keep an order across a lost connection beyond that of sending again.
"""

import time
from itertools import count

import msgspec

from tidelog.base.errors import ClientError, Disconnected, ServerError, TidelogError, Timeout
from tidelog.client.connection import Connection
from tidelog.client.subscription import Subscription
from tidelog.spark.link import ANSWER_S, PAUSE_MOST_S, Link
from tidelog.spark.outgoing import Outgoing
from tidelog.wire.header import Headers

MSG_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
# The stream has more to do than it takes on; it is asked again.
TOO_MANY = 429
TAKE_COUNT = 1024


class Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: Refusal | None = None


_read_ack = msgspec.json.Decoder(PubAck).decode


class NotStored(TidelogError):
    """A stream refused a message, or none takes its subject."""


class Delivery:
    def __init__(self, link: Link, *, stream: str, max_count: int, max_size: int, repeatable: bool) -> None:
        self.stored = 0
        self.duplicates = 0
        self._link = link
        self._stream = stream
        self._max_count = max_count
        self._max_size = max_size
        self._repeatable = repeatable
        self._numbers = count(1)
        self._under_way: dict[int, Outgoing] = {}
        self._size = 0
        self._connection: Connection | None = None
        self._inbox: Subscription | None = None
        self._base = ""

    def send(self, message: Outgoing) -> None:
        while len(self._under_way) >= self._max_count or (self._under_way and self._size >= self._max_size):
            self._progress()
        number = next(self._numbers)
        self._under_way[number] = message
        self._size += len(message.value)
        try:
            self._publish(number, message)
            # Half a window is a good burst; the other half is filled while the server works on it.
            if len(self._under_way) * 2 == self._max_count and self._connection is not None:
                self._connection.send()
        except (Disconnected, Timeout) as error:
            self._recover(error)

    def finish(self) -> None:
        while self._under_way:
            self._progress()
        if self._inbox is not None:
            self._inbox.unsubscribe()
            self._connection = self._inbox = None

    def _progress(self) -> None:
        try:
            self._take()
        except (Disconnected, Timeout) as error:
            self._recover(error)
        except ServerError as error:
            raise NotStored(f"the server refused to take messages: {error}") from error

    def _publish(self, number: int, message: Outgoing) -> None:
        if self._connection is None:
            self._open()
        assert self._connection is not None
        headers: Headers = dict(message.headers or {})
        if message.msg_id:
            headers[MSG_ID] = [message.msg_id]
        if self._stream:
            headers[EXPECTED_STREAM] = [self._stream]
        try:
            self._connection.publish(
                message.subject, message.value, reply=f"{self._base}.{number}", headers=headers or None
            )
        except (Disconnected, Timeout, ServerError):
            raise
        except (ClientError, ValueError) as error:
            raise NotStored(f"a row for {message.subject!r} cannot be sent: {error}") from error

    def _open(self) -> None:
        self._connection = self._link.attempt(self._link.connection)
        self._base = self._connection.new_inbox()
        self._inbox = self._connection.subscribe(f"{self._base}.*")

    def _take(self) -> None:
        if self._inbox is None:
            raise Disconnected("not connected")
        for answer in self._inbox.next_batch(TAKE_COUNT, ANSWER_S):
            number = int(answer.subject.rpartition(".")[2])
            message = self._under_way.get(number)
            if message is None:
                continue
            if answer.is_no_responders:
                raise NotStored(f"no stream takes {message.subject!r}; make one with that subject")
            try:
                ack = _read_ack(answer.payload)
            except msgspec.MsgspecError as error:
                raise NotStored(f"what answered for {message.subject!r} is no stream: {error}") from error
            if ack.error is not None and ack.error.code == TOO_MANY and self._repeatable:
                self._publish(number, message)
                continue
            if ack.error is not None:
                said = f"{ack.error.description} ({ack.error.err_code})"
                raise NotStored(f"a row for {message.subject!r} was not stored: {said}")
            del self._under_way[number]
            self._size -= len(message.value)
            self.stored += not ack.duplicate
            self.duplicates += ack.duplicate

    def _recover(self, error: ClientError) -> None:
        """A new connection, and on it everything once more that was not acknowledged."""
        self._forget()
        if not self._repeatable:
            raise NotStored(
                f"the connection was lost ({error}) with {len(self._under_way)} messages not acknowledged, and with "
                "option 'dedupe' at none they cannot be sent again without being stored twice"
            ) from error
        deadline = time.monotonic() + self._link.patience_s
        while True:
            try:
                for number, message in self._under_way.items():
                    self._publish(number, message)
            except (Disconnected, Timeout) as again:
                self._forget()
                if time.monotonic() > deadline:
                    raise NotStored(f"the connection was lost, and every one after it: {again}") from again
                time.sleep(PAUSE_MOST_S / 4)
            else:
                return

    def _forget(self) -> None:
        self._link.close()
        self._connection = self._inbox = None
