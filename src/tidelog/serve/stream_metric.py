"""The part of /metrics about streams and consumers: our own names, and those of prometheus-nats-exporter.

A scrape reads what the streams count anyway. It is only made where there are streams.
"""

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from tidelog.base.limits import METRIC_STREAMS
from tidelog.broker.desk.desk import Desk
from tidelog.log.commit import LATENCY_BUCKETS_S
from tidelog.serve.monitor.state import ServerState
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_info import info_of
from tidelog.stream.stream import Stream

STREAM_LABELS = ("account", "stream")
CONSUMER_LABELS = ("account", "stream", "consumer")

# Name, help, and how it is read; all gauges.
STREAM_GAUGES: tuple[tuple[str, str, Callable[[Stream], float]], ...] = (
    ("tidelog_stream_messages", "Messages stored.", lambda s: s.log.store.count),
    ("tidelog_stream_bytes", "Bytes of the messages stored.", lambda s: s.log.state().size),
    ("tidelog_stream_subjects", "Subjects that have messages.", lambda s: s.log.state().subjects),
    ("tidelog_stream_first_seq", "Sequence of the oldest message.", lambda s: s.log.store.first_seq),
    ("tidelog_stream_last_seq", "Sequence given out last.", lambda s: s.log.store.last_seq),
    ("tidelog_stream_synced_seq", "Sequence that is synced.", lambda s: s.log.committer.synced_seq),
    ("tidelog_stream_unsynced_bytes", "Bytes not synced yet.", lambda s: s.log.committer.unsynced_size),
    (
        "tidelog_stream_unsynced_age_seconds",
        "How long the oldest of these bytes has waited.",
        lambda s: s.log.committer.unsynced_age_ns() / 1e9,
    ),
    ("tidelog_stream_deleted_messages", "Deleted between first and last.", lambda s: s.log.state().deleted),
    ("tidelog_stream_lost_messages", "Lost to damage.", lambda s: s.log.store.lost.count),
    ("tidelog_stream_consumers", "Consumers.", lambda s: len(s.consumers)),
    ("tidelog_stream_writable", "1 if messages are taken, else 0.", lambda s: float(s.log.refusal is None)),
)
# Of streams that have a part in the cold tier, or may have one.
COLD_GAUGES: tuple[tuple[str, str, Callable[[Stream], float]], ...] = (
    (
        "tidelog_cold_bytes",
        "Bytes of messages that are in the cold tier only.",
        lambda s: s.log.store.cold_size,
    ),
    (
        "tidelog_cold_messages",
        "Messages that are in the cold tier only.",
        lambda s: s.log.keeper.ferry.cold_messages(),
    ),
    (
        "tidelog_cold_lag_segments",
        "Complete segments that are not in the cold tier yet.",
        lambda s: s.log.keeper.ferry.lag().segments,
    ),
    ("tidelog_cold_lag_bytes", "Bytes of these segments.", lambda s: s.log.keeper.ferry.lag().size),
    (
        "tidelog_cold_lag_seconds",
        "How old the newest message of the oldest of these segments is.",
        lambda s: lag_seconds(s),
    ),
    (
        "tidelog_cold_failing",
        "1 if the last thing that was tried with the cold tier has failed, else 0.",
        lambda s: float(bool(s.log.keeper.ferry.trouble_now())),
    ),
)
COLD_COUNTERS: tuple[tuple[str, str, Callable[[Stream], float]], ...] = (
    ("tidelog_cold_sent_segments", "Segments sent.", lambda s: s.log.keeper.ferry.figures.sent),
    ("tidelog_cold_sent_bytes", "Bytes of files sent.", lambda s: s.log.keeper.ferry.figures.sent_size),
    (
        "tidelog_cold_fetched_segments",
        "Segments brought back.",
        lambda s: s.log.keeper.ferry.fetcher.figures.segments,
    ),
    (
        "tidelog_cold_fetched_bytes",
        "Bytes of these segments.",
        lambda s: s.log.keeper.ferry.fetcher.figures.size,
    ),
    (
        "tidelog_cold_failures",
        "What has failed with the cold tier, and was or will be tried again.",
        lambda s: s.log.keeper.ferry.figures.failures + s.log.keeper.ferry.fetcher.figures.failures,
    ),
)
STREAM_COUNTERS: tuple[tuple[str, str, Callable[[Stream], float]], ...] = (
    (
        "tidelog_stream_synced_messages",
        "Messages that syncs have covered; by the number of syncs, how large a commit is.",
        lambda s: s.log.committer.figures.messages,
    ),
    (
        "tidelog_stream_synced_bytes",
        "Bytes that syncs have covered.",
        lambda s: s.log.committer.figures.size,
    ),
    (
        "tidelog_stream_repaired_bits",
        "Bits that had turned on the disk, and were read as they were written.",
        lambda s: s.log.keeper.figures.repaired,
    ),
)
SYNC_SECONDS = "tidelog_stream_sync_seconds"
CONSUMER_GAUGES: tuple[tuple[str, str], ...] = (
    ("num_pending", "Messages still to be delivered."),
    ("num_ack_pending", "Messages delivered and not acknowledged yet."),
    ("num_redelivered", "Of these, delivered more than once."),
    ("num_waiting", "Pull requests that wait."),
)
CONSUMER_NAMES = {field: f"tidelog_consumer_{field.removeprefix('num_')}" for field, _ in CONSUMER_GAUGES}

Placed = tuple[str, Stream]


def placed_streams(desk: Desk) -> list[Placed]:
    """The first METRIC_STREAMS streams, with the names of their accounts, in order."""
    found = [
        (account, streams.streams[name])
        for account, streams in sorted(desk.engine.accounts.items())
        for name in streams.names()
    ]
    return found[:METRIC_STREAMS]


def consumers_of(streams: list[Placed]) -> list[tuple[str, Stream, Consumer]]:
    found = [
        (account, stream, consumer)
        for account, stream in streams
        for _, consumer in sorted(stream.consumers.items())
    ]
    return found[:METRIC_STREAMS]


def stream_families(desk: Desk, now_ns: int) -> Iterator[Metric]:
    yield from server_families(desk)
    streams = placed_streams(desk)
    cold = [(account, stream) for account, stream in streams if stream.log.settings.tiering is not None]
    for among, gauges in ((streams, STREAM_GAUGES), (cold, COLD_GAUGES if cold else ())):
        for name, text, read in gauges:
            gauge = GaugeMetricFamily(name, text, labels=STREAM_LABELS)
            for account, stream in among:
                gauge.add_metric([account, stream.name], read(stream))
            yield gauge
    for among, counters in ((streams, STREAM_COUNTERS), (cold, COLD_COUNTERS if cold else ())):
        for name, text, read in counters:
            counter = CounterMetricFamily(name, text, labels=STREAM_LABELS)
            for account, stream in among:
                counter.add_metric([account, stream.name], read(stream))
            yield counter
    yield sync_latencies(streams)
    infos = [
        ([account, stream.name, consumer.name], info_of(consumer, now_ns))
        for account, stream, consumer in consumers_of(streams)
    ]
    for field, text in CONSUMER_GAUGES:
        gauge = GaugeMetricFamily(CONSUMER_NAMES[field], text, labels=CONSUMER_LABELS)
        for labels, info in infos:
            gauge.add_metric(labels, getattr(info, field))
        yield gauge


def lag_seconds(stream: Stream) -> float:
    since_ns = stream.log.keeper.ferry.lag().since_ns
    return max(stream.account.engine.clock.now_ns() - since_ns, 0) / 1e9 if since_ns else 0.0


def server_families(desk: Desk) -> Iterator[Metric]:
    engine = desk.engine
    requests = CounterMetricFamily("tidelog_api_requests", "Requests to the JetStream API.")
    requests.add_metric([], desk.requests)
    yield requests
    refusals = CounterMetricFamily("tidelog_api_errors", "Requests to the JetStream API that were refused.")
    refusals.add_metric([], desk.refusals)
    yield refusals
    used = GaugeMetricFamily("tidelog_storage_bytes", "What streams take.", labels=["storage"])
    limit = GaugeMetricFamily("tidelog_storage_limit_bytes", "What streams may take.", labels=["storage"])
    for storage, budget in (("memory", engine.memory), ("file", engine.file)):
        used.add_metric([storage], budget.used)
        limit.add_metric([storage], budget.limit)
    yield used
    yield limit
    failed = GaugeMetricFamily("tidelog_streams_not_opened", "Streams on the disk that could not be opened.")
    failed.add_metric([], len(engine.failures))
    yield failed


def sync_latencies(streams: list[Placed]) -> Metric:
    family = HistogramMetricFamily(SYNC_SECONDS, "How long syncs took.", labels=STREAM_LABELS)
    for account, stream in streams:
        figures = stream.log.committer.figures
        buckets, below = [], 0
        for bound, count in zip([*LATENCY_BUCKETS_S, "+Inf"], figures.buckets, strict=True):
            below += count
            buckets.append((str(bound), below))
        family.add_metric([account, stream.name], buckets, figures.seconds)
    return family


# ---- as prometheus-nats-exporter names them ----

EXPORTER_SERVER_LABELS = ("server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader")
EXPORTER_ACCOUNT_LABELS = (*EXPORTER_SERVER_LABELS, "account", "account_name", "account_id")
EXPORTER_STREAM_LABELS = (
    *EXPORTER_ACCOUNT_LABELS,
    "stream_name",
    "stream_leader",
    "is_stream_leader",
    "stream_raft_group",
)
EXPORTER_CONSUMER_LABELS = (
    *EXPORTER_STREAM_LABELS,
    "consumer_name",
    "consumer_leader",
    "is_consumer_leader",
    "consumer_desc",
)
EXPORTER_STREAM: dict[str, Callable[[Stream], float]] = {
    "total_messages": lambda s: s.log.store.count,
    "total_bytes": lambda s: s.log.state().size,
    "first_seq": lambda s: s.log.store.first_seq,
    "last_seq": lambda s: s.log.store.last_seq,
    "consumer_count": lambda s: len(s.consumers),
    "subject_count": lambda s: s.log.state().subjects,
}
EXPORTER_CONSUMER = ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending")
EXPORTER_POSITIONS = ("delivered", "ack_floor")


def exporter_families(prefix: str, state: ServerState, desk: Desk, now_ns: int) -> Iterator[Metric]:
    front = [state.server_id, state.server_name, "", desk.settings.domain, "", "false"]
    name = state.server_name
    streams = placed_streams(desk)
    for key, read in EXPORTER_STREAM.items():
        gauge = GaugeMetricFamily(f"{prefix}stream_{key}", key, labels=EXPORTER_STREAM_LABELS)
        for account, stream in streams:
            gauge.add_metric([*front, account, account, account, stream.name, name, "true", ""], read(stream))
        yield gauge
    infos = [
        (
            [
                *front,
                *([account] * 3),
                *(stream.name, name, "true", ""),
                *(consumer.name, name, "true", consumer.config.description),
            ],
            info_of(consumer, now_ns),
        )
        for account, stream, consumer in consumers_of(streams)
    ]
    for key in EXPORTER_CONSUMER:
        gauge = GaugeMetricFamily(f"{prefix}consumer_{key}", key, labels=EXPORTER_CONSUMER_LABELS)
        for labels, info in infos:
            gauge.add_metric(labels, getattr(info, key))
        yield gauge
    for position in EXPORTER_POSITIONS:
        for key in ("consumer_seq", "stream_seq"):
            full = f"{prefix}consumer_{position}_{key}"
            gauge = GaugeMetricFamily(full, key, labels=EXPORTER_CONSUMER_LABELS)
            for labels, info in infos:
                gauge.add_metric(labels, getattr(getattr(info, position), key))
            yield gauge
    yield from exporter_accounts(prefix, front, desk)


def exporter_accounts(prefix: str, front: list[str], desk: Desk) -> Iterator[Metric]:
    for key in ("max_memory", "max_storage", "memory_used", "storage_used"):
        gauge = GaugeMetricFamily(f"{prefix}account_{key}", key, labels=EXPORTER_ACCOUNT_LABELS)
        for name, account in sorted(desk.engine.accounts.items()):
            figures = {
                "max_memory": account.limits.max_memory,
                "max_storage": account.limits.max_storage,
                "memory_used": account.memory.used,
                "storage_used": account.file.used,
            }
            gauge.add_metric([*front, name, name, name], figures[key])
        yield gauge
