"""The protocol as the trace log shows it: what came (`<<-`) and what went (`->>`), without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.base.text import go_quote
from tidelog.wire.handshake import redact
from tidelog.wire.parser import VERB_NAMES

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.session import Session


class Tracer:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def line(self, session: Session, verb: int, argument: bytes) -> None:
        name = VERB_NAMES[verb]
        text = redact(argument) if name == "CONNECT" else argument
        self._write(session, "<<-", f"[{name} {_shown(text)}]" if text else f"[{name}]")

    def publish(self, session: Session, subject: bytes, tail: bytes) -> None:
        control, _, body = tail.partition(b"\r\n")
        self._write(session, "<<-", f"[PUB {_shown(subject)} {_shown(control)}]")
        self._payload(session, "<<-", body)

    def delivery(self, session: Session, prefix: bytes, tail: bytes) -> None:
        control, _, body = tail.partition(b"\r\n")
        self._write(session, "->>", f"[{_shown(prefix)}{_shown(control)}]")
        self._payload(session, "->>", body)

    def error(self, session: Session, text: str) -> None:
        self._write(session, "->>", f"[-ERR {text}]")

    def _payload(self, session: Session, arrow: str, body: bytes) -> None:
        most = self.broker.settings.limits.max_traced_msg_len
        payload = body[:-2]
        cut = most and len(payload) > most
        # Quoted: what strangers send must not begin a line of its own in the log.
        quoted = go_quote(payload[:most] if cut else payload)
        self._write(session, arrow, f'MSG_PAYLOAD: [{quoted[:-1]}{"..." if cut else ""}"]')

    def _write(self, session: Session, arrow: str, text: str) -> None:
        self.broker.log.trace(f"{session.label} - {arrow} {text}")


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
