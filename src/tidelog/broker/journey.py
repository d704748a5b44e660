"""Message tracing: where a message went, told to the subject that its `Nats-Trace-Dest` header names (ADR-41).

`Nats-Trace-Only: true` asks for the account without the delivery. The publisher must be allowed to publish to the
destination. The session looks for the header and calls here only if it is there; everything is plain Python, because
nobody traces a flood.

Left out: `traceparent` sampling (`msg_trace` of accounts) and compressed reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.base.text import go_quote
from tidelog.subject.pattern import is_valid_literal
from tidelog.wire import header

if TYPE_CHECKING:
    from tidelog.broker.session import Session
    from tidelog.subject.route import Subscription

DESTINATION = "Nats-Trace-Dest"
ONLY = "Nats-Trace-Only"
DISABLED = "trace disabled"  # by a server on the way; no subject looks like this
TRUE = {"1", "true", "on"}

NO_ECHO = "Not delivered because of no echo"
CLOSED = "Not delivered because subscription is closed"
CLIENT_KIND = 0

# A report, to be sent to `destination` with the server's name on it and its times (ns) made readable:
# `(account, destination, content)`.
Report = Callable[[Any, bytes, dict[str, Any]], None]


@dataclass(slots=True)
class Journey:
    """One traced message."""

    session: Session
    destination: bytes
    only: bool
    headers: header.Headers
    size: int
    events: list[dict[str, Any]]

    def delivered(self, subscription: Subscription, taken: bool, now_ns: int) -> None:
        """A subscription on the message's way."""
        receiver = subscription.subscriber.identify()
        if receiver is None:
            return
        event: dict[str, Any] = {"type": "eg", "ts": now_ns, "kind": CLIENT_KIND, **who(receiver)}
        event["sub"] = subscription.subject.decode("utf-8", "replace")
        if subscription.queue:
            event["queue"] = subscription.queue.decode("utf-8", "replace")
        if not taken:
            event["error"] = NO_ECHO if receiver is self.session else CLOSED
        self.events.append(event)

    def content(self) -> dict[str, Any]:
        headers = {readable(name): [readable(value) for value in self.headers[name]] for name in self.headers}
        return {"request": {"header": headers, "msgsize": self.size}, "events": self.events}


def readable(text: str) -> str:
    """Text that can be written as JSON: bytes that were no UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def who(session: Session) -> dict[str, object]:
    named: dict[str, object] = {"cid": session.cid}
    if session.client_name:
        named["name"] = session.client_name
    return named


def begin(session: Session, subject: bytes, block: bytes, size: int, now_ns: int) -> Journey | bool:
    """The journey of a message with trace headers; if there is none, whether the message may go on."""
    try:
        headers = header.decode(block).headers
    except ValueError:
        # Whoever writes a block of another kind does not ask for anything in it.
        return True
    only = headers.get(ONLY, [""])[0].lower() in TRUE
    destination = headers.get(DESTINATION, [""])[0]
    if destination == DISABLED:
        return True
    if not destination or not is_valid_literal(wire := destination.encode("utf-8", "surrogateescape")):
        return not only
    if session.rights is not None and not session.rights.may_publish(wire):
        session.say_error(f"Permissions Violation for Publish to {go_quote(wire)}")
        return False
    event: dict[str, Any] = {
        "type": "in",
        "ts": now_ns,
        "kind": CLIENT_KIND,
        **who(session),
        "acc": session.account_name,
        "subj": subject.decode("utf-8", "replace"),
    }
    return Journey(session, wire, only, headers, size, [event])
