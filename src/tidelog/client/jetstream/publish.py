"""Messages into streams: one with its acknowledgement, many with a window, or all of a batch or none.

`Publisher` keeps up to `window` messages on their way. What it promises: when `flush` returns, every message given
before it has been acknowledged by its stream; if one was refused, or nobody answered, `flush` (or a `publish` that
has to wait) raises, and says how many were. What it does not do: publish again. With `msg_id` on each message the
caller may repeat all of them.
"""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

import msgspec

from tidelog.base.errors import ApiError, ClientError, NoResponders, Timeout
from tidelog.client.connection import DEFAULT_TIMEOUT_S, Connection
from tidelog.client.jetstream.answer import PubAck, read_document
from tidelog.client.message import Message
from tidelog.wire.header import HeadersLike

MSG_ID = "Nats-Msg-Id"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"

# Enough to hide a round trip of some milliseconds, and to make a group commit worth while.
WINDOW = 1_000
# Acknowledgements taken at a time.
TAKE_COUNT = 1_024

_read_ack = msgspec.json.Decoder(PubAck).decode


class Outgoing(NamedTuple):
    """A message before it has a sequence."""

    subject: str
    payload: bytes = b""
    headers: HeadersLike | None = None
    msg_id: str = ""

    def all_headers(self, more: dict[str, str] | None = None) -> HeadersLike | None:
        added = {MSG_ID: self.msg_id} if self.msg_id else {}
        added |= more or {}
        return {**(self.headers or {}), **added} if added else self.headers


def publish(connection: Connection, message: Outgoing, timeout_s: float = DEFAULT_TIMEOUT_S) -> PubAck:
    try:
        answer = connection.request(
            message.subject, message.payload, headers=message.all_headers(), timeout_s=timeout_s
        )
    except NoResponders:
        raise _not_stored(message.subject) from None
    return _ack_of(answer)


def publish_batch(
    connection: Connection, messages: list[Outgoing], batch_id: str = "", timeout_s: float = DEFAULT_TIMEOUT_S
) -> PubAck:
    if not messages:
        raise ClientError("a batch has at least one message")
    name = batch_id or secrets.token_hex(11)
    for number, message in enumerate(messages[:-1], 1):
        headers = message.all_headers({BATCH_ID: name, BATCH_SEQUENCE: str(number)})
        connection.publish(message.subject, message.payload, headers=headers)
    last = messages[-1]
    ending = {BATCH_ID: name, BATCH_SEQUENCE: str(len(messages)), BATCH_COMMIT: "1"}
    ack = publish(connection, Outgoing(last.subject, last.payload, last.all_headers(ending)), timeout_s)
    if not ack.batch:
        raise ClientError(
            f"the stream of {last.subject!r} stored the last message of a batch and knows nothing of batches: "
            "set allow_atomic"
        )
    return ack


class Publisher:
    """For one thread, like its connection."""

    def __init__(
        self, connection: Connection, *, window: int = WINDOW, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.acked = 0
        self.last_ack: PubAck | None = None
        self._connection = connection
        self._window = window
        self._timeout_s = timeout_s
        base = connection.new_inbox()
        self._inbox = connection.subscribe(f"{base}.*")
        self._base = base
        self._sent = 0
        self._under_way: dict[int, str] = {}
        self._failures = 0
        self._first_failure: ClientError | None = None

    def publish(
        self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None, msg_id: str = ""
    ) -> None:
        """Send it, and wait while the window is full."""
        if msg_id:
            headers = {**(headers or {}), MSG_ID: msg_id}
        while len(self._under_way) >= self._window:
            self._take()
        self._sent += 1
        self._under_way[self._sent] = subject
        self._connection.publish(subject, payload, reply=f"{self._base}.{self._sent}", headers=headers)
        if len(self._under_way) * 2 == self._window:
            # Half a window is a good burst; the other half is filled while the server works on it.
            self._connection.send()

    def flush(self) -> None:
        """Until everything has been acknowledged. Raises the first failure since the last call."""
        while self._under_way:
            self._take()
        failure, self._first_failure = self._first_failure, None
        count, self._failures = self._failures, 0
        if failure is not None and count > 1:
            failure.add_note(f"{count} messages were not stored")
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Wait for nothing more."""
        self._inbox.unsubscribe()

    def _take(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        try:
            answers = self._inbox.next_batch(TAKE_COUNT, deadline - time.monotonic())
        except Timeout:
            count = len(self._under_way)
            self._under_way.clear()
            raise Timeout(f"{count} messages were not acknowledged within {self._timeout_s:g} s") from None
        for answer in answers:
            number = int(answer.subject.rpartition(".")[2])
            subject = self._under_way.pop(number, None)
            if subject is None:
                continue
            try:
                if answer.is_no_responders:
                    raise _not_stored(subject)
                self.last_ack = _ack_of(answer)
                self.acked += 1
            except ClientError as error:
                self._failures += 1
                self._first_failure = self._first_failure or error


def _ack_of(answer: Message) -> PubAck:
    payload = answer.payload
    if b'"error"' in payload:
        read_document(payload)
    try:
        ack = _read_ack(payload)
    except msgspec.MsgspecError as error:
        raise ClientError(f"what was answered is no acknowledgement: {error}") from error
    if not ack.stream:
        raise ApiError(0, 0, "somebody who is no stream answered")
    return ack


def _not_stored(subject: str) -> NoResponders:
    return NoResponders(f"no stream stores {subject!r}")
