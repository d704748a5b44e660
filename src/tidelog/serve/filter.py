"""What stands between a socket and a session: TLS, websocket, or both, as filters over bytes without I/O.

One connection code serves every transport. It hands what it received to `Filter.receive`, feeds what comes
back to the session, hands what the session wants to say to `Filter.send`, and writes to the socket what
`Filter.take` gives:

    recv -> filter.receive -> session.feed          session's outbox -> filter.send -> filter.take -> socket

TCP has no filter at all, and websocket over TLS is a `Stack` of two, so a connection has one filter or none.

Promises: the outcome does not depend on how the network cuts the bytes, with one exception that the
websocket filter names. No filter waits, reads a clock to decide, or keeps a reference to bytes that it was
given. A filter does not limit time: handshake timeouts belong to the connection.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from tidelog.base.errors import TidelogError

Bytes: TypeAlias = bytes | bytearray | memoryview

# Closed reasons as /connz shows them.
CLIENT_CLOSED = "Client Closed"
READ_ERROR = "Read Error"
PROTOCOL_VIOLATION = "Protocol Violation"
TLS_HANDSHAKE_FAILURE = "TLS Handshake Failure"


class FilterError(TidelogError):
    """The connection is over. Feed `parts`, write what `take()` still holds, log `text`, close with `reason`.

    `reason` is a closed reason of /connz, `text` is for the log (empty: nothing to say), `quiet` says that
    the log should have it at debug level only, because it is ordinary life. `parts` is what arrived in
    order before the end.
    """

    def __init__(
        self, reason: str, text: str = "", *, quiet: bool = False, parts: Sequence[Bytes] = ()
    ) -> None:
        super().__init__(text or reason)
        self.reason = reason
        self.text = text
        self.quiet = quiet
        self.parts = list(parts)


class Filter(Protocol):
    """One stage between socket and session, or several as one."""

    @property
    def established(self) -> bool:
        """The handshake is over. Before that nothing may be sent."""

    def receive(self, data: Bytes) -> list[Bytes]:
        """Take bytes from the outer side; return those for the inner side, in order.

        What is returned may be views of a shared buffer: they are valid until the next `receive` of any
        filter, so consume or copy them first. May queue answers of its own, so `take()` is due after every
        call. Raises `FilterError`, after which `take()` may still hold a last answer.
        """

    def send(self, parts: Sequence[Bytes]) -> None:
        """Queue what the inner side says, as one unit: call once per flush. Ignored after `close`."""

    def take(self) -> list[bytes]:
        """What must go out now, in order. The filter forgets it."""

    def close(self, reason: str) -> None:
        """Say goodbye to the peer, once, if the handshake is over; `reason` is that of /connz."""

    def end(self) -> FilterError:
        """What it means that the peer ended the stream at this point."""


class Stack:
    """Two filters as one: `outer` next to the socket, `inner` next to the session."""

    def __init__(self, outer: Filter, inner: Filter) -> None:
        self.outer = outer
        self.inner = inner

    @property
    def established(self) -> bool:
        return self.outer.established and self.inner.established

    def receive(self, data: Bytes) -> list[Bytes]:
        try:
            parts = self.outer.receive(data)
        except FilterError as error:
            error.parts = self._inward(error.parts)
            raise
        return self._inward(parts)

    def _inward(self, parts: Sequence[Bytes]) -> list[Bytes]:
        """An error of the inner filter overrules one of the outer: it is what happened first."""
        result: list[Bytes] = []
        try:
            for part in parts:
                result += self.inner.receive(part)
        except FilterError as error:
            error.parts = result + error.parts
            raise
        finally:
            self._outward()
        return result

    def _outward(self) -> None:
        parts = self.inner.take()
        if parts:
            self.outer.send(parts)

    def send(self, parts: Sequence[Bytes]) -> None:
        self.inner.send(parts)
        self._outward()

    def take(self) -> list[bytes]:
        return self.outer.take()

    def close(self, reason: str) -> None:
        self.inner.close(reason)
        self._outward()
        self.outer.close(reason)

    def end(self) -> FilterError:
        return self.inner.end() if self.outer.established else self.outer.end()
