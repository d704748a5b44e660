"""The server without sockets: accounts, sessions, and what happens to them.

Bytes enter through `Session.feed`, leave through the sessions' outboxes, and time passes when `timers.run` is called.
Everything else the broker needs is handed in: settings, clock, chance, a log, and a way to run slow checks elsewhere.
So a whole server runs inside a test, byte for byte and second for second.

Who may come in is decided in `broker.admission`; what the sessions' closed reasons and `-ERR` texts are is in
`reference` terms those of the peer, because clients match them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from tidelog.base.chance import Chance
from tidelog.base.clock import Clock
from tidelog.base.errors import ProtocolError
from tidelog.base.text import go_quote
from tidelog.base.timer import Timers
from tidelog.broker.account import Account, Traffic
from tidelog.broker.admission import Admission
from tidelog.broker.journey import Journey, Report, begin
from tidelog.broker.link import Links
from tidelog.broker.recipient import FlushQueue, Recipient
from tidelog.broker.session import Session
from tidelog.broker.settings import GLOBAL_ACCOUNT, AccountSettings, Authorization, BrokerSettings
from tidelog.broker.trace import Tracer
from tidelog.broker.view import CLIENT, NATS, WEBSOCKET, ClosedSession
from tidelog.subject.pattern import is_valid_literal
from tidelog.subject.route import Subscription
from tidelog.wire.handshake import Info, encode_info

SECOND_NS = 1_000_000_000
# A client is pinged soon after CONNECT, so that its round trip time is known early.
FIRST_PING_NS = 2 * SECOND_NS
# How old a measured round trip time may grow before a ping is sent in spite of traffic.
RTT_MEASUREMENT_NS = 3600 * SECOND_NS


class Log(Protocol):
    """What the broker says to the operator."""

    debug_on: bool
    trace_on: bool

    def info(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...
    def debug(self, text: str) -> None: ...
    def trace(self, text: str) -> None: ...


# Runs the first callable where it may take long, and the second with its result back on the loop.
Elsewhere = Callable[[Callable[[], bool], Callable[[bool], None]], None]


def run_inline(job: Callable[[], bool], done: Callable[[bool], None]) -> None:
    done(job())


class Connection(Protocol):
    """What a session needs of the one that moves its bytes."""

    def session_ended(self, flush: bool) -> None:
        """Write what waits if `flush`, then close."""

    def resume(self) -> None: ...


class Broker:
    def __init__(
        self,
        settings: BrokerSettings,
        info: Info,
        *,
        clock: Clock,
        log: Log,
        websocket_authorization: Authorization | None = None,
        chance: Chance | None = None,
        elsewhere: Elsewhere = run_inline,
    ) -> None:
        self.info = info
        self.infos: dict[str, Info] = {}  # of listeners other than the plain one, by transport
        self.clock = clock
        self.log = log
        self.chance = chance if chance is not None else Chance()
        self.elsewhere = elsewhere
        self.timers = Timers()
        self.flushes = FlushQueue()
        self.tracer = Tracer(self)
        self.admission = Admission(self)
        self.open_sessions: dict[int, Session] = {}
        self.closed: deque[ClosedSession] = deque(maxlen=settings.limits.max_closed_clients)
        self.past = Traffic()
        self.total_connections = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        # Sends the report of a traced message; None: nobody does.
        self.on_journey: Report | None = None
        self.last_cid = 0
        self.lame_duck = False
        self.account_table: dict[str, Account] = {}
        self.unwanted: set[str] = set()
        self.links = Links(self.chance)
        # Told of every account that comes after this is set.
        self.on_account: Callable[[Account], object] = lambda _: None
        self.apply(settings, websocket_authorization)

    # ---- settings ----

    def apply(self, settings: BrokerSettings, websocket: Authorization | None = None) -> None:
        """Make `settings` those in force, for sessions yet to come. `admission.review` sees to the ones that are."""
        self.admission.apply(settings, websocket)
        self.settings = settings
        now_ns = self.clock.now_ns()
        wanted = {account.name: account for account in settings.accounts}
        for name in (GLOBAL_ACCOUNT, settings.system_account):
            if name:
                wanted.setdefault(name, AccountSettings(name))
        for name, account_settings in wanted.items():
            account = self.account_table.get(name)
            if account is None:
                self.account_table[name] = Account(account_settings, self.chance, now_ns)
                self.on_account(self.account_table[name])
            elif account.settings != account_settings:
                account.apply(account_settings, now_ns)
        self.unwanted = {name for name in self.account_table if name not in wanted}
        self.links.lay({name: self.account_table[name] for name in wanted})
        if self.closed.maxlen != settings.limits.max_closed_clients:
            self.closed = deque(self.closed, maxlen=settings.limits.max_closed_clients)

    def info_for(self, session: Session) -> Info:
        """The INFO of the listener through which a session came."""
        return self.infos.get(session.transport, self.info)

    def check(self, settings: BrokerSettings, websocket: Authorization | None = None) -> None:
        """Raises ConfigError if `settings` could not be applied."""
        self.admission.compile(settings, websocket)
        for account in settings.accounts:
            Account(account, self.chance, 0)

    def account(self, name: str) -> Account:
        return self.account_table[name]

    def leave_account(self, session: Session) -> None:
        """A session goes, or moves to another account."""
        session.account.leave(session)
        if session.account.name in self.unwanted:
            self.drop_unwanted()

    def drop_unwanted(self) -> None:
        """Forget accounts that the settings do not have any more; who waits for a verdict is still counted in his."""
        for name in [name for name in self.unwanted if not self.account_table[name].client_count]:
            self.unwanted.remove(name)
            del self.account_table[name]

    # ---- sessions come and go ----

    def open_session(
        self,
        connection: Connection | None,
        host: str,
        port: int,
        *,
        transport: str = NATS,
    ) -> Session:
        """A connection has come. It is greeted with `greet`, when its transport is ready for that."""
        session = Session(self, recipient := Recipient(self.flushes, None), self.chance)
        recipient.owner = session
        recipient.connection = connection
        self.last_cid += 1
        self.total_connections += 1
        session.cid = self.last_cid
        session.kind = CLIENT
        session.transport = transport
        session.host = host
        session.port = port
        session.start_ns = session.last_activity_ns = self.clock.now_ns()
        session.last_in_ns = self.clock.monotonic_ns()
        prefix = "wid" if transport == WEBSOCKET else "cid"
        session.label = f"{f'[{host}]' if ':' in host else host}:{port} - {prefix}:{session.cid}"
        limits = self.settings.limits
        session.max_control_line = limits.max_control_line
        session.max_payload = limits.max_payload
        session.headers = False
        recipient.bound(limits.max_pending)
        account = self.account_table[GLOBAL_ACCOUNT]
        session.bind(account, account.interest, None, "")
        account.enter(session)
        # From the first byte on, whatever the transport may let through before `begin`.
        session.awaiting_connect = self.admission.authenticator(session).required
        self.open_sessions[session.cid] = session
        if self.log.trace_on:
            session.set_tracing(True)
        self.debug(session, "Client connection created")
        return session

    def greet(self, session: Session) -> None:
        """Send INFO, unless the house is full."""
        session.say(encode_info(self.admission.greeting(session)))
        limits = self.settings.limits
        if limits.max_connections < 0 or 0 < limits.max_connections < len(self.open_sessions):
            self.error(session, "maximum connections exceeded")
            session.say_error("maximum connections exceeded")
            self.close(session, "Maximum Connections Exceeded")

    def begin(self, session: Session) -> None:
        """The transport is ready: wait for CONNECT, and see from time to time whether the client is still there."""
        if not session.closed:
            self.admission.await_connect(session)
            self.schedule_ping(session, self.settings.limits.ping_interval_ns)

    def close(self, session: Session, reason: str, *, flush: bool = True) -> None:
        """End a session: nothing more is read, delivered or remembered, but what it did."""
        if session.closed:
            return
        session.reason = reason
        session.stop()
        for timer in (session.auth_timer, session.ping_timer):
            if timer is not None:
                timer.cancel()
        self.closed.append(ClosedSession.of(session, self.clock.now_ns(), reason))
        session.drop_subscriptions()
        session.recipient.shut()
        del self.open_sessions[session.cid]
        self.leave_account(session)
        self.past.add(session)
        self.debug(session, f"Client connection closed: {reason}")
        connection = session.recipient.connection
        if connection is not None:
            connection.session_ended(flush)

    def protocol_failed(self, session: Session, error: ProtocolError) -> None:
        """What a session said cannot be understood or is not allowed: say why, and close."""
        if session.closed:
            return
        if error.detail:
            self.error(session, error.detail)
        if error.text:
            session.say_error(error.text)
        self.close(session, error.reason)

    def slow_consumer(self, session: Session, reason: str = "Slow Consumer (Pending Bytes)") -> None:
        """It does not read what it asked for. What waits is dropped, so that nobody else pays for it."""
        if session.closed:
            return
        self.slow_consumers += 1
        session.account.slow_consumers += 1
        if reason == "Slow Consumer (Pending Bytes)":
            detail = f"MaxPending of {session.recipient.max_pending} Exceeded"
        else:
            detail = f"WriteDeadline of {self.settings.limits.write_deadline_ns / 1e9:g}s exceeded"
        self.info_line(
            session, f"Slow Consumer Detected: {detail} with {session.pending_size} bytes pending."
        )
        self.close(session, reason, flush=False)

    # ---- what sessions ask ----

    def is_valid_literal(self, subject: bytes) -> bool:
        return is_valid_literal(subject)

    def is_system(self, session: Session) -> bool:
        """Whether a session is in the system account."""
        return session.account_name == self.settings.system_account

    def subscribe_refusal(self, session: Session, subject: bytes, queue: bytes, sid: bytes) -> str | None:
        """Why this subscription may not be made; None if it may."""
        session.last_activity_ns = self.clock.now_ns()
        return self.admission.subscribe_refusal(session, subject, queue, sid)

    def publish_violation(self, session: Session, subject: bytes) -> None:
        self.error(session, f"Publish Violation - Subject {go_quote(subject)}")

    def note_reply(self, session: Session, reply: bytes) -> None:
        if session.rights is not None and not session.rights.may_publish(reply):
            session.recipient.ledger.note(reply, self.clock.monotonic_ns())

    def reply_allowed(self, session: Session, subject: bytes) -> bool:
        return bool(session.recipient.ledger.allows(subject, self.clock.monotonic_ns()))

    def begin_journey(self, session: Session, subject: bytes, block: bytes, size: int) -> Journey | bool:
        return begin(session, subject, block, size, self.clock.now_ns())

    def end_journey(self, journey: Journey, way: Sequence[tuple[Subscription, bool]]) -> None:
        for subscription, taken in way:
            journey.delivered(subscription, taken, self.clock.now_ns())
        if self.on_journey is not None:
            self.on_journey(journey.session.account, journey.destination, journey.content())

    def connect_received(self, session: Session, document: bytes) -> None:
        self.admission.connect_received(session, document)

    def first_verb_without_connect(self, session: Session) -> None:
        self.admission.first_verb_without_connect(session)

    def first_pong_sent(self, session: Session) -> None:
        """Behind its first PONG a client that understands it is told where it is."""
        if session.connect.protocol >= 1:
            session.say(encode_info(self.admission.connect_info(session)))

    # ---- is it still there? ----

    def schedule_ping(self, session: Session, delay_ns: int) -> None:
        if session.ping_timer is not None:
            session.ping_timer.cancel()
        due_ns = self.clock.monotonic_ns() + delay_ns
        session.ping_timer = self.timers.at(due_ns, lambda: self.ping_due(session))

    def schedule_first_ping(self, session: Session) -> None:
        """Soon, and not at once for all those that came together."""
        delay_ns = min(self.settings.limits.ping_interval_ns, FIRST_PING_NS)
        self.schedule_ping(session, delay_ns + int(self.chance.fraction() * delay_ns / 5))

    def ping_due(self, session: Session) -> None:
        limits = self.settings.limits
        now_ns = self.clock.monotonic_ns()
        # CONNECT left an estimate; a measurement begins with a ping.
        measured = session.rtt_start_ns and now_ns - session.rtt_start_ns <= RTT_MEASUREMENT_NS
        if not measured or now_ns - session.last_in_ns >= limits.ping_interval_ns:
            if session.pings_out + 1 > limits.ping_max:
                self.stale_connections += 1
                self.debug(session, "Stale Client Connection - Closing")
                session.say_error("Stale Connection")
                self.close(session, "Stale Connection")
                return
            session.pings_out += 1
            session.rtt_start_ns = now_ns
            session.say(b"PING\r\n")
        if not session.closed:
            self.schedule_ping(session, limits.ping_interval_ns)

    def pong_received(self, session: Session) -> None:
        session.pings_out = 0
        if session.rtt_start_ns:
            session.rtt_ns = max(self.clock.monotonic_ns() - session.rtt_start_ns, 1)

    # ---- lame duck ----

    def announce_lame_duck(self) -> None:
        """Tell those who understand it that this server is about to go."""
        self.lame_duck = True
        self.announce()

    def tell_to_go(self, session: Session) -> None:
        """Lame duck mode for one client."""
        info = msgspec.structs.replace(self.admission.update(session), ldm=True)
        session.say(encode_info(info))

    def announce(self) -> None:
        """Send INFO again to everybody who understands that."""
        for session in list(self.open_sessions.values()):
            if session.connected and session.connect.protocol >= 1:
                session.say(encode_info(self.admission.update(session)))

    # ---- seen from outside (broker.view) ----

    def sessions(self) -> Iterable[Session]:
        return self.open_sessions.values()

    def closed_sessions(self) -> Iterable[ClosedSession]:
        return self.closed

    def accounts(self) -> Sequence[Account]:
        return list(self.account_table.values())

    @property
    def client_count(self) -> int:
        return len(self.open_sessions)

    @property
    def leaf_count(self) -> int:
        return 0

    @property
    def subscription_count(self) -> int:
        return sum(account.interest.count for account in self.account_table.values())

    @property
    def in_msgs(self) -> int:
        return self.past.in_msgs + sum(session.in_msgs for session in self.open_sessions.values())

    @property
    def in_bytes(self) -> int:
        return self.past.in_bytes + sum(session.in_bytes for session in self.open_sessions.values())

    @property
    def out_msgs(self) -> int:
        return self.past.out_msgs + sum(session.out_msgs for session in self.open_sessions.values())

    @property
    def out_bytes(self) -> int:
        return self.past.out_bytes + sum(session.out_bytes for session in self.open_sessions.values())

    @property
    def stalls(self) -> int:
        return self.past.stalls + sum(session.stalls for session in self.open_sessions.values())

    # ---- words to the operator ----

    def debug(self, session: Session, text: str) -> None:
        if self.log.debug_on:
            self.log.debug(f"{session.label} - {text}")

    def info_line(self, session: Session, text: str) -> None:
        self.log.info(f"{session.label} - {text}")

    def error(self, session: Session, text: str) -> None:
        self.log.error(f"{session.label} - {text}")

    def trace_line(self, session: Session, verb: int, argument: bytes) -> None:
        self.tracer.line(session, verb, argument)

    def trace_publish(self, session: Session, subject: bytes, tail: bytes) -> None:
        self.tracer.publish(session, subject, tail)

    def trace_delivery(self, session: Session, prefix: bytes, tail: bytes) -> None:
        self.tracer.delivery(session, prefix, tail)

    def trace_error(self, session: Session, text: str) -> None:
        self.tracer.error(session, text)
