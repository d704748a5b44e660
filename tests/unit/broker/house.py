"""A whole broker inside a test: clients whose bytes go in and come out by hand, and time that moves when told to."""

import json
from collections.abc import Callable
from typing import Any

from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.broker.broker import Broker, Elsewhere, run_inline
from tidelog.broker.session import Session
from tidelog.broker.settings import BrokerSettings, Limits
from tidelog.broker.view import NATS
from tidelog.wire.handshake import Info

INFO = Info(
    server_id="NTEST",
    server_name="test",
    version="2.10.0",
    proto=1,
    go="python",
    host="127.0.0.1",
    port=4222,
    headers=True,
    max_payload=1024 * 1024,
)


class Lines:
    """A log that remembers."""

    def __init__(self) -> None:
        self.debug_on = True
        self.trace_on = False
        self.lines: list[tuple[str, str]] = []

    def info(self, text: str) -> None:
        self.lines.append(("info", text))

    def warn(self, text: str) -> None:
        self.lines.append(("warn", text))

    def error(self, text: str) -> None:
        self.lines.append(("error", text))

    def debug(self, text: str) -> None:
        self.lines.append(("debug", text))

    def trace(self, text: str) -> None:
        self.lines.append(("trace", text))

    def of(self, level: str) -> list[str]:
        return [text for kept, text in self.lines if kept == level]


class Client:
    """One connection, as the transport sees it: keeps what the session could not use yet, and gives it again."""

    def __init__(self, house: "House", host: str, port: int, transport: str) -> None:
        self.carry = b""
        self.ended: bool | None = None  # with or without last words
        self.resumed = 0
        self.feed = house.feed
        self.session: Session = house.broker.open_session(self, host, port, transport=transport)

    def session_ended(self, flush: bool) -> None:
        self.ended = flush
        if not flush:
            self.session.recipient.outbox.take()

    def resume(self) -> None:
        self.resumed += 1
        rest, self.carry = self.carry, b""
        self.send(rest)

    def send(self, data: bytes) -> None:
        data = self.carry + data
        self.carry = b""
        used = self.feed(self.session, data)
        if not self.session.closed:
            self.carry = data[used:]

    def connect(self, **fields: object) -> None:
        self.send(
            b"CONNECT " + json.dumps({"verbose": False, "pedantic": False, **fields}).encode() + b"\r\n"
        )

    def read(self) -> bytes:
        """Everything that was sent to this client since the last call."""
        return b"".join(self.session.recipient.outbox.take())

    @property
    def reason(self) -> str:
        """Why the session was closed; empty: it is open."""
        return self.session.reason if self.session.closed else ""


class House:
    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        elsewhere: Elsewhere = run_inline,
        trace: bool = False,
        feed: Callable[[Session, bytes], int] = Session.receive,
    ) -> None:
        self.feed = feed
        self.clock = ManualClock()
        self.log = Lines()
        self.log.trace_on = trace
        self.broker = Broker(
            settings if settings is not None else BrokerSettings(),
            INFO,
            clock=self.clock,
            log=self.log,
            chance=Chance(1),
            elsewhere=elsewhere,
        )

    def arrive(self, host: str = "127.0.0.1", port: int = 5000, transport: str = NATS) -> Client:
        """A connection comes and is greeted; it has said nothing yet."""
        client = Client(self, host, port, transport)
        self.broker.greet(client.session)
        self.broker.begin(client.session)
        return client

    def client(self, **fields: object) -> Client:
        """A connection that has sent CONNECT, with what it was told so far out of the way."""
        client = self.arrive()
        client.connect(**fields)
        client.read()
        return client

    def reload(self, settings: BrokerSettings) -> None:
        self.broker.apply(settings)
        self.broker.admission.review()

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end_ns = self.clock.ns + int(seconds * 1e9)
        timers = self.broker.timers
        while (due_ns := timers.next_due_ns()) is not None and due_ns <= end_ns:
            self.clock.ns = max(due_ns, self.clock.ns)
            timers.run(self.clock.ns)
        self.clock.ns = end_ns


def with_limits(**limits: Any) -> BrokerSettings:
    return BrokerSettings(limits=Limits(**limits))


def info_of(line: bytes) -> dict[str, Any]:
    """The document of an INFO line."""
    assert line.startswith(b"INFO {")
    assert line.endswith(b" \r\n")
    document: dict[str, Any] = json.loads(line[5:])
    return document


class Waiting:
    """Slow checks that are answered when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], bool], Callable[[bool], None]]] = []

    def __call__(self, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        self.jobs.append((job, done))

    def answer(self) -> None:
        job, done = self.jobs.pop(0)
        done(job())
