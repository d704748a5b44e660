"""/metrics: the server's figures for Prometheus.

Promises: nothing is counted for metrics that the broker does not count anyway; a scrape reads the counters
that the documents of `serve.monitor` read, so both agree. Names are an interface: docs/reference/metrics.md
lists them all, and a test compares.

Our own names start with `tidelog_` and use base units. With `compat_metrics` set, the names of
prometheus-nats-exporter are added under that prefix, because dashboards exist for them. Those are made from
the documents as the exporter makes them: every number at the top of /varz and /subsz is a gauge.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelog.broker.view import AccountView, BrokerView, InterestStats, SessionView
from tidelog.serve.monitor.connz import LIMIT
from tidelog.serve.monitor.desk import Monitor, whole
from tidelog.serve.monitor.jetstream import JszQuery, jsz
from tidelog.serve.monitor.process import processor_seconds, resident_size
from tidelog.serve.monitor.state import ServerState
from tidelog.serve.monitor.subsz import SubszQuery, subsz
from tidelog.serve.monitor.varz import varz

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

COUNTER = "counter"
GAUGE = "gauge"

# The exporter calls the streams' figures `jetstream_...` unless it is given a prefix of its own.
EXPORTER_PREFIX = "gnatsd_"
EXPORTER_STREAM_PREFIX = "jetstream_"


@dataclass(frozen=True, slots=True)
class ServerMetric:
    """One figure of the whole server. A counter's name is written with `_total` behind it."""

    name: str
    kind: str
    help: str
    read: Callable[[ServerState, BrokerView], float]


@dataclass(frozen=True, slots=True)
class AccountMetric:
    """One figure of every account, with the label `account`."""

    name: str
    kind: str
    help: str
    read: Callable[[AccountView], float]


@dataclass(frozen=True, slots=True)
class InterestMetric:
    """One figure of every account's interest tree, with the label `account`."""

    name: str
    kind: str
    help: str
    read: Callable[[InterestStats], float]


SERVER_METRICS = (
    ServerMetric(
        "tidelog_start_time_seconds",
        GAUGE,
        "When the server started, Unix time.",
        lambda s, _: s.start_ns / 1e9,
    ),
    ServerMetric(
        "tidelog_config_load_time_seconds",
        GAUGE,
        "When the configuration was last loaded, Unix time.",
        lambda s, _: s.config_load_ns / 1e9,
    ),
    ServerMetric(
        "tidelog_ready", GAUGE, "1 if every listener accepts, else 0.", lambda s, _: float(not s.unready)
    ),
    ServerMetric("tidelog_connections", GAUGE, "Clients connected now.", lambda _, b: b.client_count),
    ServerMetric("tidelog_leafnodes", GAUGE, "Leafnodes connected now.", lambda _, b: b.leaf_count),
    ServerMetric(
        "tidelog_connections_accepted", COUNTER, "Connections accepted.", lambda _, b: b.total_connections
    ),
    ServerMetric(
        "tidelog_connections_max",
        GAUGE,
        "Connections allowed at the same time.",
        lambda _, b: b.settings.limits.max_connections,
    ),
    ServerMetric("tidelog_subscriptions", GAUGE, "Subscriptions now.", lambda _, b: b.subscription_count),
    ServerMetric("tidelog_received_messages", COUNTER, "Messages from clients.", lambda _, b: b.in_msgs),
    ServerMetric(
        "tidelog_received_bytes",
        COUNTER,
        "Bytes of messages from clients, headers included.",
        lambda _, b: b.in_bytes,
    ),
    ServerMetric("tidelog_sent_messages", COUNTER, "Messages to clients.", lambda _, b: b.out_msgs),
    ServerMetric(
        "tidelog_sent_bytes",
        COUNTER,
        "Bytes of messages to clients, headers included.",
        lambda _, b: b.out_bytes,
    ),
    ServerMetric(
        "tidelog_pending_bytes",
        GAUGE,
        "Bytes that wait to be written, over all connections.",
        lambda _, b: sum(session.pending_size for session in b.sessions()),
    ),
    ServerMetric(
        "tidelog_slow_consumers",
        COUNTER,
        "Connections closed because they did not read fast enough.",
        lambda _, b: b.slow_consumers,
    ),
    ServerMetric(
        "tidelog_stale_connections",
        COUNTER,
        "Connections closed because they did not answer pings.",
        lambda _, b: b.stale_connections,
    ),
    ServerMetric(
        "tidelog_stalls",
        COUNTER,
        "Times that a producer was paused because its consumers were behind.",
        lambda _, b: b.stalls,
    ),
    ServerMetric("tidelog_accounts", GAUGE, "Accounts.", lambda _, b: len(b.accounts())),
    ServerMetric(
        "tidelog_resident_memory_bytes", GAUGE, "Resident memory of the process.", lambda *_: resident_size()
    ),
    ServerMetric(
        "tidelog_cpu_seconds",
        COUNTER,
        "Processor time used, user and system.",
        lambda *_: processor_seconds(),
    ),
)

ACCOUNT_METRICS = (
    AccountMetric("tidelog_account_connections", GAUGE, "Clients connected now.", lambda a: a.client_count),
    AccountMetric(
        "tidelog_account_subscriptions", GAUGE, "Subscriptions now.", lambda a: a.subscription_count
    ),
    AccountMetric(
        "tidelog_account_received_messages", COUNTER, "Messages from clients.", lambda a: a.in_msgs
    ),
    AccountMetric(
        "tidelog_account_received_bytes", COUNTER, "Bytes of messages from clients.", lambda a: a.in_bytes
    ),
    AccountMetric("tidelog_account_sent_messages", COUNTER, "Messages to clients.", lambda a: a.out_msgs),
    AccountMetric(
        "tidelog_account_sent_bytes", COUNTER, "Bytes of messages to clients.", lambda a: a.out_bytes
    ),
    AccountMetric(
        "tidelog_account_slow_consumers",
        COUNTER,
        "Connections closed because they did not read fast enough.",
        lambda a: a.slow_consumers,
    ),
)

INTEREST_METRICS = (
    InterestMetric(
        "tidelog_interest_cached_routes", GAUGE, "Compiled routes kept.", lambda i: i.cached_routes
    ),
    InterestMetric(
        "tidelog_interest_lookups", COUNTER, "Look-ups of who listens to a subject.", lambda i: i.matches
    ),
    InterestMetric(
        "tidelog_interest_cache_hits", COUNTER, "Look-ups answered by a kept route.", lambda i: i.cache_hits
    ),
    InterestMetric("tidelog_interest_inserts", COUNTER, "Subscriptions added.", lambda i: i.inserts),
    InterestMetric("tidelog_interest_removes", COUNTER, "Subscriptions removed.", lambda i: i.removes),
)

# Those with labels of their own.
BUILD_INFO = "tidelog_build_info"
HTTP_REQUESTS = "tidelog_http_requests"
GC_COLLECTIONS = "tidelog_gc_collections"


def exposition(monitor: Monitor) -> bytes:
    """All metrics of one server in Prometheus' text format."""
    return generate_latest(Scrape(monitor))


class Scrape(Collector):
    """What one request reads."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def collect(self) -> Iterator[Metric]:
        state, broker = self.monitor.state, self.monitor.broker
        yield from server_families(state, broker)
        yield from account_families(broker.accounts())
        now_ns = self.monitor.clock.now_ns()
        prefix = state.options.compat_metrics
        if prefix:
            yield from exporter_families(self.monitor, prefix)
        if state.desk is not None:
            from tidelog.serve import stream_metric  # for those who have streams

            yield from stream_metric.stream_families(state.desk, now_ns)
            if prefix:
                stream_prefix = EXPORTER_STREAM_PREFIX if prefix == EXPORTER_PREFIX else prefix
                yield from stream_metric.exporter_families(stream_prefix, state, state.desk, now_ns)


def family(
    name: str, kind: str, text: str, labels: Iterable[str] = ()
) -> CounterMetricFamily | GaugeMetricFamily:
    if kind == COUNTER:
        return CounterMetricFamily(name, text, labels=list(labels))
    return GaugeMetricFamily(name, text, labels=list(labels))


def server_families(state: ServerState, broker: BrokerView) -> Iterator[Metric]:
    build = family(
        BUILD_INFO, GAUGE, "Always 1; what runs is in the labels.", ("server_id", "server_name", "version")
    )
    build.add_metric([state.server_id, state.server_name, state.version], 1)
    yield build
    for metric in SERVER_METRICS:
        one = family(metric.name, metric.kind, metric.help)
        one.add_metric([], metric.read(state, broker))
        yield one
    requests = family(HTTP_REQUESTS, COUNTER, "Monitoring requests answered.", ("path",))
    for path, count in sorted(state.http_requests.items()):
        requests.add_metric([path], count)
    yield requests
    collections = family(GC_COLLECTIONS, COUNTER, "Runs of the cycle collector.", ("generation",))
    for generation, figures in enumerate(gc.get_stats()):
        collections.add_metric([str(generation)], figures["collections"])
    yield collections


def account_families(accounts: Iterable[AccountView]) -> Iterator[Metric]:
    accounts = sorted(accounts, key=lambda account: account.name)
    for metric in ACCOUNT_METRICS:
        one = family(metric.name, metric.kind, metric.help, ("account",))
        for account in accounts:
            one.add_metric([account.name], metric.read(account))
        yield one
    stats = [(account.name, account.interest_stats()) for account in accounts]
    for interest in INTEREST_METRICS:
        one = family(interest.name, interest.kind, interest.help, ("account",))
        for name, figures in stats:
            one.add_metric([name], interest.read(figures))
        yield one


# What prometheus-nats-exporter makes of the documents. Everything is a gauge here: what the exporter calls a
# counter has no `_total` either, and the values are the same.

LABELLED = ("server_id", "server_name", "version")
CONNECTION_SUMS: dict[str, Callable[[SessionView], int]] = {
    "pending_bytes": lambda session: session.pending_size,
    "subscriptions": lambda session: session.subscription_count,
    "in_bytes": lambda session: session.in_bytes,
    "out_bytes": lambda session: session.out_bytes,
    "in_msgs": lambda session: session.in_msgs,
    "out_msgs": lambda session: session.out_msgs,
}
ACCOUNT_LABELS = ("server_id", "account", "account_id", "account_name")
STREAM_LABELS = ("server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader")


def exporter_families(monitor: Monitor, prefix: str) -> Iterator[Metric]:
    state, broker, clock = monitor.state, monitor.broker, monitor.clock
    server_id = state.server_id
    yield from exporter_numbers(f"{prefix}varz_", server_id, varz(state, broker, clock, monitor.meter))
    yield from exporter_numbers(
        f"{prefix}subsz_", server_id, whole(subsz(server_id, broker, clock, SubszQuery()))
    )
    yield from exporter_connections(f"{prefix}connz_", monitor)
    yield from exporter_accounts(f"{prefix}accstatz_", server_id, broker.accounts())
    yield exporter_gauge(f"{prefix}routez_num_routes", server_id, 0)
    yield exporter_gauge(f"{prefix}healthz_status", server_id, float(bool(state.unready)))
    yield from exporter_streams(EXPORTER_STREAM_PREFIX if prefix == EXPORTER_PREFIX else prefix, monitor)


def exporter_gauge(name: str, server_id: str, value: float) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, name, labels=["server_id"])
    gauge.add_metric([server_id], value)
    return gauge


def exporter_numbers(prefix: str, server_id: str, document: msgspec.Struct) -> Iterator[Metric]:
    fields: dict[str, object] = msgspec.to_builtins(document)
    for key, value in fields.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield exporter_gauge(prefix + key, server_id, value)
        elif key in LABELLED:
            gauge = GaugeMetricFamily(prefix + key, key, labels=["server_id", "value"])
            gauge.add_metric([server_id, str(value)], 1)
            yield gauge


def exporter_connections(prefix: str, monitor: Monitor) -> Iterator[Metric]:
    server_id = monitor.state.server_id
    total = monitor.broker.client_count + monitor.broker.leaf_count
    # The exporter sees the first page of /connz.
    shown = sorted(monitor.broker.sessions(), key=lambda session: session.cid)[:LIMIT]
    figures = {"num_connections": len(shown), "total": total, "offset": 0, "limit": LIMIT}
    for key, value in figures.items():
        yield exporter_gauge(prefix + key, server_id, value)
    for key, read in CONNECTION_SUMS.items():
        yield exporter_gauge(prefix + key, server_id, sum(map(read, shown)))


def exporter_accounts(prefix: str, server_id: str, accounts: Iterable[AccountView]) -> Iterator[Metric]:
    readers: dict[str, Callable[[AccountView], float]] = {
        "current_connections": lambda a: a.client_count,
        "total_connections": lambda a: a.client_count + a.leaf_count,
        "subscriptions": lambda a: a.subscription_count,
        "leaf_nodes": lambda a: a.leaf_count,
        "sent_messages": lambda a: a.out_msgs,
        "sent_bytes": lambda a: a.out_bytes,
        "received_messages": lambda a: a.in_msgs,
        "received_bytes": lambda a: a.in_bytes,
        "slow_consumers": lambda a: a.slow_consumers,
    }
    accounts = sorted(accounts, key=lambda account: account.name)
    for key, read in readers.items():
        gauge = GaugeMetricFamily(prefix + key, key, labels=ACCOUNT_LABELS)
        for account in accounts:
            gauge.add_metric([server_id, account.name, account.name, account.name], read(account))
        yield gauge


def exporter_streams(prefix: str, monitor: Monitor) -> Iterator[Metric]:
    state = monitor.state
    document = jsz(state, monitor.clock, JszQuery())
    values = {
        "jetstream_disabled": float(document.disabled),
        "total_streams": document.streams,
        "total_consumers": document.consumers,
        "total_messages": document.messages,
        "total_message_bytes": document.bytes,
        "max_memory": document.config.max_memory,
        "max_storage": document.config.max_storage,
    }
    for key, value in values.items():
        gauge = GaugeMetricFamily(f"{prefix}server_{key}", key, labels=STREAM_LABELS)
        gauge.add_metric([state.server_id, state.server_name, "", "", "", "false"], value)
        yield gauge
