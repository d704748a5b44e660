"""A broker that is only looked at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidelog.base.clock import ManualClock
from tidelog.broker.settings import BrokerSettings
from tidelog.broker.view import (
    CLIENT,
    NATS,
    ClosedSession,
    InterestStats,
    SubscriptionRecord,
)
from tidelog.serve.log import Logger, NullSink
from tidelog.serve.monitor.desk import Monitor
from tidelog.serve.monitor.state import ServerState
from tidelog.serve.options import Options

NOW_NS = 1_794_996_000_000_000_000  # 2026-11-18 10:00:00 UTC
SECOND_NS = 1_000_000_000

SESSION = ClosedSession(
    cid=1,
    kind=CLIENT,
    transport=NATS,
    host="127.0.0.1",
    port=50000,
    start_ns=NOW_NS - 100 * SECOND_NS,
    last_activity_ns=NOW_NS - 10 * SECOND_NS,
    rtt_ns=480_000,
    pending_size=0,
    in_msgs=0,
    in_bytes=0,
    out_msgs=0,
    out_bytes=0,
    stalls=0,
    account_name="$G",
    user="",
    client_name="",
    lang="",
    version="",
    tls_version="",
    tls_cipher="",
    tls_first=False,
    peer_certificate=b"",
    subscription_records=(),
    stop_ns=0,
    reason="",
)


def session(cid: int, subjects: Sequence[bytes] = (), **changes: object) -> ClosedSession:
    subscriptions = tuple(
        SubscriptionRecord(subject, b"", str(sid).encode(), 0, 0) for sid, subject in enumerate(subjects, 1)
    )
    return replace(SESSION, cid=cid, subscription_records=subscriptions, **changes)  # type: ignore[arg-type]


@dataclass
class FakeAccount:
    name: str
    members: list[ClosedSession] = field(default_factory=list)
    updated_ns: int = NOW_NS
    leaf_count: int = 0
    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    stats: InterestStats = field(default_factory=InterestStats)

    def sessions(self) -> Iterable[ClosedSession]:
        return self.members

    @property
    def client_count(self) -> int:
        return len(self.members)

    @property
    def subscription_count(self) -> int:
        return sum(member.subscription_count for member in self.members)

    def interest_stats(self) -> InterestStats:
        return self.stats


@dataclass
class FakeBroker:
    open: list[ClosedSession] = field(default_factory=list)
    closed: list[ClosedSession] = field(default_factory=list)
    account_names: tuple[str, ...] = ("$SYS", "$G")
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    leaf_count: int = 0
    total_connections: int = 0
    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    stale_connections: int = 0
    stalls: int = 0

    def sessions(self) -> Iterable[ClosedSession]:
        return self.open

    def closed_sessions(self) -> Iterable[ClosedSession]:
        return self.closed

    def accounts(self) -> Sequence[FakeAccount]:
        return [
            FakeAccount(name, [member for member in self.open if member.account_name == name])
            for name in self.account_names
        ]

    @property
    def client_count(self) -> int:
        return len(self.open)

    @property
    def subscription_count(self) -> int:
        return sum(member.subscription_count for member in self.open)


def make_monitor(broker: FakeBroker | None = None, options: Options | None = None) -> Monitor:
    state = ServerState(
        options=options or Options(),
        server_id="N" * 56,
        version="2.15.0",
        runtime="python3.11",
        port=4222,
        http_port=8222,
        start_ns=NOW_NS - 3661 * SECOND_NS,
        config_load_ns=NOW_NS,
    )
    return Monitor(state, broker or FakeBroker(), ManualClock(NOW_NS), Logger(NullSink()))
