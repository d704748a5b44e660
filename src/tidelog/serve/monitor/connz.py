"""/connz: connections, open and closed; filtered, sorted, one page of them."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, cast

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.broker.certificate import read_certificate
from tidelog.broker.settings import GLOBAL_ACCOUNT
from tidelog.broker.view import BrokerView, ClosedSessionView, SessionView, SubscriptionView
from tidelog.serve.monitor.document import Document, age, duration, text
from tidelog.serve.monitor.query import (
    BadQuery,
    Query,
    page,
    read_bool,
    read_int,
    read_subscriptions,
    read_unsigned,
)
from tidelog.subject.pattern import overlaps

LIMIT = 1024
# Entries made in one go, about 2 ms.
SLICE = 100
OPEN, CLOSED, ALL = "open", "closed", "all"
STATES = {"": OPEN, "open": OPEN, "closed": CLOSED, "any": ALL, "all": ALL}


class SubscriptionDetail(Document, frozen=True, kw_only=True):
    account: str = ""
    account_tag: str = ""
    subject: str
    qgroup: str = ""
    sid: str
    msgs: int
    max: int = 0
    cid: int


class PeerCertificate(Document, frozen=True, kw_only=True):
    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str


class Connection(Document, frozen=True, kw_only=True):
    cid: int
    kind: str = ""
    type: str = ""
    ip: str
    port: int
    start: str
    last_activity: str
    stop: str = ""
    reason: str = ""
    rtt: str
    uptime: str
    idle: str
    pending_bytes: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    stalls: int = 0
    subscriptions: int
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher_suite: str = ""
    tls_peer_certs: tuple[PeerCertificate, ...] = ()
    tls_first: bool = False
    authorized_user: str = ""
    account: str = ""
    subscriptions_list: tuple[str, ...] = ()
    subscriptions_list_detail: tuple[SubscriptionDetail, ...] = ()
    name_tag: str = ""


class Connz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    num_connections: int
    total: int
    offset: int
    limit: int
    connections: list[Connection]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnzQuery:
    sort: str = "cid"
    auth: bool = False
    list_subscriptions: bool = False
    detail_subscriptions: bool = False
    offset: int = 0
    limit: int = LIMIT
    cid: int = 0
    state: str = OPEN
    user: str = ""
    account: str = ""
    filter_subject: str = ""

    @property
    def wants_subscriptions(self) -> bool:
        return self.list_subscriptions or self.detail_subscriptions


def read_query(query: Query) -> ConnzQuery:
    """In the order in which nats-server finds fault."""
    auth = read_bool(query, "auth")
    listed, detailed = read_subscriptions(query)
    offset = read_int(query, "offset")
    limit = read_int(query, "limit")
    cid = read_unsigned(query, "cid")
    state = STATES.get(query.get("state", "").lower(), "")
    if not state:
        raise BadQuery(f"Error decoding state for {query['state']}")
    sort = query.get("sort", "") or "cid"
    if sort not in ORDERS:
        raise BadQuery(f"invalid sorting option: {sort}")
    if sort in ("stop", "reason") and state != CLOSED:
        raise BadQuery(f"sort by {sort} only valid on closed connections")
    account = query.get("acc", "")
    filter_subject = query.get("filter_subject", "")
    if filter_subject == ">":
        filter_subject = ""
    if filter_subject and not account:
        raise BadQuery("filter by subject only valid with account filtering")
    return ConnzQuery(
        sort=sort,
        auth=auth,
        list_subscriptions=listed,
        detail_subscriptions=detailed,
        offset=max(offset, 0),
        limit=1 if cid else limit if limit > 0 else LIMIT,
        cid=cid,
        state=state,
        user=query.get("user", ""),
        account=account,
        filter_subject=filter_subject,
    )


def connz(
    server_id: str, broker: BrokerView, clock: Clock, query: ConnzQuery
) -> Generator[None, None, Connz]:
    """Yields between slices; which connections are shown is decided before the first."""
    now_ns = clock.now_ns()
    found: list[tuple[SessionView, bool]] = []
    if query.state in (OPEN, ALL):
        found += [(session, False) for session in select(broker.sessions(), query)]
    if query.state in (CLOSED, ALL):
        found += [(session, True) for session in select(broker.closed_sessions(), query)]
    key, descending = ORDERS[query.sort]
    # By cid first: the second sort keeps that order among equals.
    found.sort(key=lambda entry: entry[0].cid)
    if query.sort not in ("cid", "start"):
        found.sort(key=lambda entry: key(entry[0], entry[1], now_ns), reverse=descending)
    shown = found[page(query.offset, query.limit, len(found))]
    connections: list[Connection] = []
    for start in range(0, len(shown), SLICE):
        for session, closed in shown[start : start + SLICE]:
            connections.append(connection(session, closed, now_ns, query))
        yield
    return Connz(
        server_id=server_id,
        now=timestamp(now_ns),
        num_connections=len(shown),
        total=len(found),
        offset=query.offset,
        limit=query.limit,
        connections=connections,
    )


def select(sessions: Iterable[SessionView], query: ConnzQuery) -> Iterable[SessionView]:
    wanted = query.filter_subject.encode()
    for session in sessions:
        if query.cid and session.cid != query.cid:
            continue
        if query.account and session.account_name != query.account:
            continue
        if query.user and session.user != query.user:
            continue
        if wanted and not any(overlaps(wanted, sub.subject) for sub in session.subscriptions()):
            continue
        yield session


Order = Callable[[SessionView, bool, int], Any]


def by(name: str, session: SessionView, _closed: bool, _now_ns: int) -> Any:
    return getattr(session, name)


def by_uptime(session: SessionView, closed: bool, now_ns: int) -> int:
    end_ns = cast(ClosedSessionView, session).stop_ns if closed else now_ns
    return end_ns - session.start_ns


def by_idle(session: SessionView, _closed: bool, now_ns: int) -> int:
    return now_ns - session.last_activity_ns


# Option to (what to compare, largest first?).
ORDERS: dict[str, tuple[Order, bool]] = {
    "cid": (partial(by, "cid"), False),
    "start": (partial(by, "cid"), False),
    "subs": (partial(by, "subscription_count"), True),
    "pending": (partial(by, "pending_size"), True),
    "msgs_to": (partial(by, "out_msgs"), True),
    "msgs_from": (partial(by, "in_msgs"), True),
    "bytes_to": (partial(by, "out_bytes"), True),
    "bytes_from": (partial(by, "in_bytes"), True),
    "last": (partial(by, "last_activity_ns"), True),
    "idle": (by_idle, True),
    "uptime": (by_uptime, False),
    "stop": (partial(by, "stop_ns"), True),
    "reason": (partial(by, "reason"), False),
    "rtt": (partial(by, "rtt_ns"), True),
}


def connection(session: SessionView, closed: bool, now_ns: int, query: ConnzQuery) -> Connection:
    stop_ns = cast(ClosedSessionView, session).stop_ns if closed else 0
    until_ns = stop_ns or now_ns
    account = session.account_name
    named = query.auth and account not in ("", GLOBAL_ACCOUNT)
    subscriptions = list(session.subscriptions()) if query.wants_subscriptions else []
    listed, detailed = query.list_subscriptions, query.detail_subscriptions
    certificate = session.peer_certificate if query.auth else b""
    return Connection(
        cid=session.cid,
        kind=session.kind,
        type=session.transport,
        ip=session.host,
        port=session.port,
        start=timestamp(session.start_ns),
        last_activity=timestamp(session.last_activity_ns),
        stop=timestamp(stop_ns) if closed else "",
        reason=cast(ClosedSessionView, session).reason if closed else "",
        rtt=round_trip(session.rtt_ns),
        uptime=age(until_ns - session.start_ns),
        idle=age(until_ns - session.last_activity_ns),
        pending_bytes=session.pending_size,
        in_msgs=session.in_msgs,
        out_msgs=session.out_msgs,
        in_bytes=session.in_bytes,
        out_bytes=session.out_bytes,
        stalls=session.stalls,
        subscriptions=session.subscription_count,
        name=session.client_name,
        lang=session.lang,
        version=session.version,
        tls_version=session.tls_version,
        tls_cipher_suite=session.tls_cipher,
        tls_peer_certs=(peer_certificate(certificate),) if certificate else (),
        tls_first=session.tls_first,
        authorized_user=session.user if query.auth else "",
        account=account if named else "",
        subscriptions_list=tuple(text(sub.subject) for sub in subscriptions if listed),
        subscriptions_list_detail=tuple(
            subscription_detail(sub, session.cid, account if closed else "")
            for sub in subscriptions
            if detailed
        ),
        # Open connections carry the tag of any account, closed ones not that of the global one.
        name_tag=account if query.auth and (named or not closed) else "",
    )


def round_trip(ns: int) -> str:
    """Below a millisecond in whole microseconds."""
    return duration(ns // 1_000 * 1_000 if 1_000 < ns < 1_000_000 else ns)


def subscription_detail(sub: SubscriptionView, cid: int, account: str) -> SubscriptionDetail:
    return SubscriptionDetail(
        account=account,
        account_tag=account,
        subject=text(sub.subject),
        qgroup=text(sub.queue),
        sid=text(sub.sid),
        msgs=sub.delivered,
        max=sub.max_msgs,
        cid=cid,
    )


def peer_certificate(der: bytes) -> PeerCertificate:
    from cryptography import x509  # large, and wanted by few
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        *_, subject = read_certificate(der).subject_texts()
        key = x509.load_der_x509_certificate(der).public_key()
        key_der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        # OpenSSL has accepted what this library cannot read; its hash still tells which one it is.
        return PeerCertificate(cert_sha256=sha256(der).hexdigest())
    return PeerCertificate(
        subject=subject, spki_sha256=sha256(key_der).hexdigest(), cert_sha256=sha256(der).hexdigest()
    )
