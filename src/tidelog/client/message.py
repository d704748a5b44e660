"""A delivered message. It wraps what the parser cut out and turns it into text only when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.base.errors import ClientError
from tidelog.wire import header

if TYPE_CHECKING:
    from tidelog.client.connection import Connection

# As the parser hands it over: verb, subject, sid, reply, header block, payload.
Delivery = tuple[str, bytes, bytes, bytes | None, bytes | None, bytes]

NO_RESPONDERS = 503


class Message:
    """`payload` is bytes; `reply` is empty when nobody waits for an answer; `headers` keep case and order."""

    __slots__ = ("_connection", "_delivery")

    def __init__(self, delivery: Delivery, connection: Connection) -> None:
        self._delivery = delivery
        self._connection = connection

    @property
    def subject(self) -> str:
        return self._delivery[1].decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        reply = self._delivery[3]
        return reply.decode("utf-8", "surrogateescape") if reply else ""

    @property
    def payload(self) -> bytes:
        return self._delivery[5]

    @property
    def header_block(self) -> bytes:
        """The header as it came, empty when there was none."""
        return self._delivery[4] or b""

    @property
    def headers(self) -> header.Headers:
        return self._block().headers

    @property
    def status(self) -> int:
        """The status of the header's first line, such as 503; 0 when there is none."""
        return self._block().status

    @property
    def description(self) -> str:
        """The words behind the status."""
        return self._block().description

    @property
    def is_no_responders(self) -> bool:
        """The server's word, instead of a reply, that nobody listens."""
        return self._delivery[4] is not None and not self._delivery[5] and self.status == NO_RESPONDERS

    def respond(self, payload: bytes = b"", *, headers: header.HeadersLike | None = None) -> None:
        """Answer to `reply`. Buffered like any publish."""
        if not self._delivery[3]:
            raise ClientError(f"message on {self.subject!r} asks for no reply")
        self._connection.publish(self.reply, payload, headers=headers)

    def _block(self) -> header.HeaderBlock:
        block = self._delivery[4]
        return header.decode(block) if block else header.HeaderBlock(0, "", {})

    def __repr__(self) -> str:
        reply = f", reply={self.reply!r}" if self._delivery[3] else ""
        return f"Message({self.subject!r}, {len(self.payload)} bytes{reply})"
