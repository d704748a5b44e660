"""Bulk reads of a Tidelog server: a range of a stream as blocks of Arrow, for pandas, polars and Spark.

    for block in BlockReader(js, "ORDERS").blocks(1, filters=["orders.eu.>"]):
        table = pyarrow.ipc.open_stream(block.data).read_all()

What it promises: the blocks together have every message of the range that matches and is there, once and in order; what
is lost or trimmed is in `lost` and `trimmed` behind the last block. A batch that does not end in time raises Timeout.

How it works: an answer is bounded by the server, and taken in as a whole before its blocks are handed on: a server ends
connections that do not read, and what is done with a block may take its time. The next is asked for from where the end
of one says.

What it does not do: know Arrow. A server that is no Tidelog has nobody who answers: that is NoResponders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tidelog.base.errors import ApiError, NoResponders, Timeout
from tidelog.client.jetstream.answer import Document, read_document
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription

END_OF_BATCH = 204
# The server's own bound of an answer holds where this is 0.
SERVER_DECIDES = 0


@dataclass(frozen=True, slots=True)
class Block:
    """`data` is an Arrow IPC stream with the messages from `first_seq` to `last_seq`, as many as `messages`."""

    data: bytes
    first_seq: int
    last_seq: int
    messages: int


class BlockReader:
    """`lost` and `trimmed`: ranges of sequences, first and last, that were asked for and are not there.

    `end_seq` is how far it was read, known when the first answer has come: everything in front of it that is there.
    """

    def __init__(self, js: JetStream, stream: str) -> None:
        self.js = js
        self.stream = stream
        self.end_seq = 0
        self.lost: list[tuple[int, int]] = []
        self.trimmed: list[tuple[int, int]] = []

    def blocks(
        self,
        start_seq: int = 1,
        end_seq: int = 0,
        *,
        filters: Sequence[str] = (),
        max_bytes: int = SERVER_DECIDES,
    ) -> Iterator[Block]:
        """The range, `end_seq` not included; 0 is all that is committed when the first answer is made."""
        connection = self.js.connection
        reply = connection.new_inbox()
        inbox = connection.subscribe(reply)
        try:
            while True:
                asked: Document = {
                    "start_seq": start_seq,
                    "end_seq": end_seq,
                    "max_bytes": max_bytes,
                    "filters": list(filters),
                }
                connection.publish(
                    f"$TIDELOG.API.READ.{self.stream}", msgspec.json.encode(asked), reply=reply
                )
                found, end = self._answer(inbox)
                yield from found
                start_seq = number(end, "Tidelog-Next-Seq")
                self.end_seq = number(end, "Nats-UpTo-Sequence") + 1
                end_seq = end_seq or self.end_seq
                self.lost += ranges(end, "Tidelog-Lost")
                self.trimmed += ranges(end, "Tidelog-Trimmed")
                if start_seq > number(end, "Nats-UpTo-Sequence"):
                    return
        finally:
            inbox.unsubscribe()

    def _answer(self, inbox: Subscription) -> tuple[list[Block], Message]:
        """The blocks of one answer, and the message at its end."""
        found: list[Block] = []
        while True:
            message = self._next(inbox)
            if not message.header_block:
                read_document(message.payload)
                raise ApiError(500, 0, f"{self.stream!r} was not read, and the server does not say why")
            if message.is_no_responders:
                raise NoResponders(
                    "nobody answers bulk reads: this is no Tidelog server, or it has no JetStream"
                )
            if message.status == END_OF_BATCH:
                return found, message
            found.append(
                Block(
                    message.payload,
                    number(message, "Tidelog-First-Seq"),
                    number(message, "Tidelog-Last-Seq"),
                    number(message, "Tidelog-Messages"),
                )
            )

    def _next(self, inbox: Subscription) -> Message:
        try:
            return inbox.next(self.js.timeout_s)
        except Timeout:
            raise Timeout(
                f"a bulk read of {self.stream!r} did not go on within {self.js.timeout_s:g} s"
            ) from None


def number(message: Message, name: str) -> int:
    return int(message.headers[name][0])


def ranges(message: Message, name: str) -> list[tuple[int, int]]:
    found = []
    for text in message.headers.get(name, [""])[0].split(","):
        if text:
            first, _, last = text.partition("-")
            found.append((int(first), int(last)))
    return found
