"""Publishing many messages with a bounded number of them on their way.

What it promises
  * `finish` returns when every message that was given to `send` has been acknowledged by its stream; what a stream
    refuses raises, with its subject and the stream's words.
  * At most `max_count` messages and about `max_size` bytes are on their way; `send` waits for room.
  * When the connection is lost, messages whose acknowledgement did not come are sent again on a new one, if all have
    ids by which the stream knows them again; otherwise that is an error, and it is said how many are uncertain. Those
    that `stored` tells of then, by number, are in the stream and not sent again.

How it works: rows become operations, and acknowledgements are counted, without a Python object for each (`Flight`);
what is no plain acknowledgement is looked at here.

What it does not do: keep an order across a lost connection beyond that of sending again.
"""

import time
from collections.abc import Callable, Iterable

import msgspec

from tidelog.base.errors import ClientError, Disconnected, ServerError, TidelogError, Timeout
from tidelog.client.connection import Connection
from tidelog.client.jetstream.flight import Acks, Flight, Rows
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription
from tidelog.spark.link import ANSWER_S, PAUSE_MOST_S, Link

# The stream has more to do than it takes on; it is asked again.
TOO_MANY = 429


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
    """`link` has connections whose parser is an `Acks`. `msg_id` is what ids by number begin with."""

    def __init__(
        self,
        link: Link,
        *,
        stream: str,
        max_count: int,
        max_size: int,
        msg_id: str,
        repeatable: bool,
        stored: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._link = link
        self._stored_rows = stored
        self._repeatable = repeatable
        self._connection = link.attempt(link.connection)
        self._flight = Flight(
            self._connection.new_inbox(), max_count=max_count, max_size=max_size, msg_id=msg_id, stream=stream
        )
        self._inbox = self._listen(self._connection)

    @property
    def stored(self) -> int:
        return self._flight.stored

    @property
    def duplicates(self) -> int:
        return self._flight.duplicates

    def send(self, rows: Rows) -> None:
        at = 0
        while at < rows.count:
            while not self._flight.has_room:
                self._progress()
            try:
                at = self._flight.board(rows, at)
            except ValueError as error:
                raise NotStored(f"a row cannot be sent: {error}") from error
            try:
                self._connection.put(self._flight.unsent())
                self._connection.send()
            except (Disconnected, Timeout) as error:
                self._recover(error)
            except ServerError as error:
                raise _refused(error) from error

    def finish(self) -> None:
        while self._flight.under_way:
            self._progress()
        self._inbox.unsubscribe()
        self._parser(self._connection).listen(b"", None)

    def _listen(self, connection: Connection) -> Subscription:
        self._flight.max_payload = connection.max_payload
        inbox = connection.subscribe(f"{self._flight.inbox}.*")
        self._parser(connection).listen(inbox.sid, self._flight)
        return inbox

    @staticmethod
    def _parser(connection: Connection) -> Acks:
        assert isinstance(connection.parser, Acks), "connect with parser=Acks"
        return connection.parser

    def _progress(self) -> None:
        try:
            if not self._connection.take_in(ANSWER_S):
                raise Timeout(f"nothing was acknowledged within {ANSWER_S:g} s")
            while self._inbox.pending:
                self._look_at(self._inbox.next())
        except (Disconnected, Timeout) as error:
            self._recover(error)
        except ServerError as error:
            raise _refused(error) from error

    def _look_at(self, answer: Message) -> None:
        """Something else than a plain acknowledgement."""
        flight = self._flight
        number = answer.subject.rpartition(".")[2]
        operation = flight.operation(int(number)) if number.isdigit() else b""
        if not operation:
            return
        subject = operation.split(b" ", 2)[1].decode("utf-8", "replace")
        if answer.is_no_responders:
            raise NotStored(f"no stream takes {subject!r}; make one with that subject")
        try:
            ack = _read_ack(answer.payload)
        except msgspec.MsgspecError as error:
            raise NotStored(f"what answered for {subject!r} is no stream: {error}") from error
        if ack.error is None:
            flight.settle(int(number), ack.duplicate)
        elif ack.error.code == TOO_MANY and self._repeatable:
            self._connection.put(operation)
        else:
            said = f"{ack.error.description} ({ack.error.err_code})"
            raise NotStored(f"a row for {subject!r} was not stored: {said}")

    def _recover(self, error: ClientError) -> None:
        """A new connection, and on it everything once more that was not acknowledged."""
        self._link.close()
        if not self._repeatable:
            raise NotStored(
                f"the connection was lost ({error}) with {self._flight.under_way} messages not acknowledged, and with "
                "option 'dedupe' at none they cannot be sent again without being stored twice"
            ) from error
        deadline = time.monotonic() + self._link.patience_s
        while True:
            try:
                for number in self._stored_rows():
                    self._flight.settle(number, False)
                self._connection = self._link.attempt(self._link.connection)
                self._inbox = self._listen(self._connection)
                for operations in self._flight.unacknowledged():
                    self._connection.put(operations)
                self._connection.send()
            except (Disconnected, Timeout) as again:
                self._link.close()
                if time.monotonic() > deadline:
                    raise NotStored(f"the connection was lost, and every one after it: {again}") from again
                time.sleep(PAUSE_MOST_S / 4)
            except ServerError as refused:
                raise _refused(refused) from refused
            else:
                return


def _refused(error: ServerError) -> NotStored:
    return NotStored(f"the server refused to take messages: {error}")
