"""What may be seen of the broker from outside: the shape that monitoring, metrics and `$SYS` answers read.

Promises of whoever fits these protocols: reading has no side effect, counters are exact at the moment of the
call (everything runs on the one loop), and an attribute costs nothing to keep up to date beyond what the
broker counts anyway. Names and subjects are bytes, as they came over the wire.

Closed connections outlive their session as a `ClosedSession`, which holds copies and no reference to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.broker.settings import BrokerSettings

# `kind` of a session, as /connz spells it.
CLIENT = "Client"
LEAFNODE = "Leafnode"

# `transport` of a session, as /connz spells it under `type`.
NATS = "nats"
WEBSOCKET = "websocket"
LEAF = "leafnode"


class SubscriptionView(Protocol):
    """One subscription of a session."""

    @property
    def subject(self) -> bytes: ...

    @property
    def queue(self) -> bytes:
        """Empty: none."""

    @property
    def sid(self) -> bytes: ...

    @property
    def delivered(self) -> int:
        """Messages delivered so far."""

    @property
    def max_msgs(self) -> int:
        """Ends after so many deliveries; 0: no limit."""


class SessionView(Protocol):
    """One connection, open or closed."""

    @property
    def cid(self) -> int: ...

    @property
    def kind(self) -> str:
        """CLIENT or LEAFNODE."""

    @property
    def transport(self) -> str:
        """NATS, WEBSOCKET or LEAF."""

    @property
    def host(self) -> str:
        """Address of the peer; empty if there is none (in-process)."""

    @property
    def port(self) -> int: ...

    @property
    def start_ns(self) -> int:
        """Wall time."""

    @property
    def last_activity_ns(self) -> int:
        """Wall time of the last message, SUB or UNSUB in either direction."""

    @property
    def rtt_ns(self) -> int:
        """0: not measured yet."""

    @property
    def pending_size(self) -> int:
        """Bytes that wait to be written."""

    @property
    def in_msgs(self) -> int: ...

    @property
    def in_bytes(self) -> int: ...

    @property
    def out_msgs(self) -> int: ...

    @property
    def out_bytes(self) -> int: ...

    @property
    def stalls(self) -> int:
        """How often its reading was paused because its consumers were behind."""

    @property
    def subscription_count(self) -> int: ...

    def subscriptions(self) -> Iterable[SubscriptionView]: ...

    @property
    def account_name(self) -> str:
        """Empty until it has identified itself."""

    @property
    def user(self) -> str:
        """Name or public nkey; `[REDACTED]` for a token; empty for nobody. Never a secret."""

    @property
    def client_name(self) -> str: ...

    @property
    def lang(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def tls_version(self) -> str:
        """`1.2` or `1.3`; empty: no TLS."""

    @property
    def tls_cipher(self) -> str: ...

    @property
    def tls_first(self) -> bool:
        """TLS began before INFO."""

    @property
    def peer_certificate(self) -> bytes:
        """DER; empty: none was shown."""


class ClosedSessionView(SessionView, Protocol):
    @property
    def stop_ns(self) -> int: ...

    @property
    def reason(self) -> str:
        """As /connz spells it: `Client Closed`, `Stale Connection` and so on."""


@dataclass(frozen=True, slots=True)
class InterestStats:
    """Figures of one account's interest tree and its compiled routes."""

    subscriptions: int = 0
    cached_routes: int = 0
    inserts: int = 0
    removes: int = 0
    matches: int = 0  # look-ups
    cache_hits: int = 0  # look-ups answered by a cached route
    max_fanout: int = 0  # most targets in one cached route
    total_fanout: int = 0  # targets in all cached routes


class AccountView(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def updated_ns(self) -> int:
        """Wall time when its settings were last applied."""

    def sessions(self) -> Iterable[SessionView]: ...

    @property
    def client_count(self) -> int: ...

    @property
    def leaf_count(self) -> int: ...

    @property
    def subscription_count(self) -> int: ...

    @property
    def in_msgs(self) -> int:
        """Received from its connections, also after they have closed."""

    @property
    def in_bytes(self) -> int: ...

    @property
    def out_msgs(self) -> int: ...

    @property
    def out_bytes(self) -> int: ...

    @property
    def slow_consumers(self) -> int: ...

    def interest_stats(self) -> InterestStats: ...


class BrokerView(Protocol):
    """The whole broker. Totals cover connections that have closed."""

    @property
    def settings(self) -> BrokerSettings: ...

    def sessions(self) -> Iterable[SessionView]:
        """Those that are open, clients and leafnodes."""

    def closed_sessions(self) -> Iterable[ClosedSessionView]:
        """The last `max_closed_clients`, oldest first."""

    def accounts(self) -> Sequence[AccountView]: ...

    @property
    def client_count(self) -> int: ...

    @property
    def leaf_count(self) -> int: ...

    @property
    def total_connections(self) -> int:
        """Ever accepted."""

    @property
    def subscription_count(self) -> int: ...

    @property
    def in_msgs(self) -> int: ...

    @property
    def in_bytes(self) -> int: ...

    @property
    def out_msgs(self) -> int: ...

    @property
    def out_bytes(self) -> int: ...

    @property
    def slow_consumers(self) -> int: ...

    @property
    def stale_connections(self) -> int: ...

    @property
    def stalls(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """Copy of a subscription."""

    subject: bytes
    queue: bytes
    sid: bytes
    delivered: int
    max_msgs: int


@dataclass(frozen=True, slots=True)
class ClosedSession:
    """Copy of a session at its end."""

    cid: int
    kind: str
    transport: str
    host: str
    port: int
    start_ns: int
    last_activity_ns: int
    rtt_ns: int
    pending_size: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    stalls: int
    account_name: str
    user: str
    client_name: str
    lang: str
    version: str
    tls_version: str
    tls_cipher: str
    tls_first: bool
    peer_certificate: bytes
    subscription_records: tuple[SubscriptionRecord, ...]
    stop_ns: int
    reason: str

    @property
    def subscription_count(self) -> int:
        return len(self.subscription_records)

    def subscriptions(self) -> Iterable[SubscriptionView]:
        return self.subscription_records

    @staticmethod
    def of(session: SessionView, stop_ns: int, reason: str) -> "ClosedSession":
        """Must be called before the subscriptions are taken away."""
        records = tuple(
            SubscriptionRecord(sub.subject, sub.queue, sub.sid, sub.delivered, sub.max_msgs)
            for sub in session.subscriptions()
        )
        return ClosedSession(
            cid=session.cid,
            kind=session.kind,
            transport=session.transport,
            host=session.host,
            port=session.port,
            start_ns=session.start_ns,
            last_activity_ns=session.last_activity_ns,
            rtt_ns=session.rtt_ns,
            pending_size=session.pending_size,
            in_msgs=session.in_msgs,
            in_bytes=session.in_bytes,
            out_msgs=session.out_msgs,
            out_bytes=session.out_bytes,
            stalls=session.stalls,
            account_name=session.account_name,
            user=session.user,
            client_name=session.client_name,
            lang=session.lang,
            version=session.version,
            tls_version=session.tls_version,
            tls_cipher=session.tls_cipher,
            tls_first=session.tls_first,
            peer_certificate=session.peer_certificate,
            subscription_records=records,
            stop_ns=stop_ns,
            reason=reason,
        )
