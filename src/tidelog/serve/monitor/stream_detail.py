"""What /jsz and /varz say of streams and consumers, account by account."""

from typing import Any

import msgspec

from tidelog import API_LEVEL
from tidelog.base.instant import timestamp
from tidelog.broker.desk.desk import AccountDesk, Desk
from tidelog.broker.desk.info import ClusterInfo, StreamState, state_of
from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.jetstream import Api, Config, Jetstream, Jsz, JszQuery, Limits, Stats
from tidelog.serve.monitor.state import ServerState
from tidelog.stream.account import AccountStreams
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_info import info_of
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import FILE, MEMORY, StreamConfig

UINT64 = 2**64
# What the peer says of a server that syncs before it acknowledges.
DEFAULT_SYNC_NS = 120_000_000_000


class StreamDetail(Document, frozen=True, kw_only=True):
    name: str
    created: str
    cluster: ClusterInfo
    config: StreamConfig | None = None
    state: StreamState
    consumer_detail: tuple[dict[str, Any], ...] = ()
    direct_consumer_detail: tuple[dict[str, Any], ...] = ()


class AccountDetail(Stats, frozen=True, kw_only=True):
    name: str
    id: str
    stream_detail: tuple[StreamDetail, ...] = ()


def jsz(state: ServerState, desk: Desk, now_ns: int, query: JszQuery) -> Jsz:
    accounts = enabled(desk)
    all_streams = desk.engine.streams()
    consumers = sum(len(stream.consumers) for stream in all_streams)
    stats = stats_of(desk)
    return Jsz(
        **{field: getattr(stats, field) for field in Stats.__struct_fields__},
        server_id=state.server_id,
        now=timestamp(now_ns),
        config=config_of(state, desk),
        limits=limits_of(desk),
        streams=len(all_streams),
        streams_leader=len(all_streams) if query.raft else 0,
        consumers=consumers,
        consumers_leader=consumers if query.raft else 0,
        messages=sum(stream.log.store.count for stream in all_streams),
        bytes=sum(stream.log.state().size for stream in all_streams),
        account_details=tuple(
            account_detail(one, desk, query, now_ns) for one in wanted_accounts(accounts, query)
        ),
        total=len(accounts),
    )


def enabled(desk: Desk) -> list[AccountDesk]:
    """Accounts that may have streams, by name."""
    return [account for _, account in sorted(desk.accounts.items()) if account.streams is not None]


def wanted_accounts(accounts: list[AccountDesk], query: JszQuery) -> list[AccountDesk]:
    named = [account for account in accounts if account.account.name == query.account]
    if named:
        return named
    return accounts[query.offset :][: query.limit] if query.accounts else []


def stats_of(desk: Desk) -> Stats:
    engine = desk.engine
    reserved = {
        storage: sum(account.reserved_size(storage) for account in engine.accounts.values())
        for storage in (MEMORY, FILE)
    }
    return Stats(
        memory=engine.memory.used,
        storage=engine.file.used,
        reserved_memory=reserved[MEMORY],
        reserved_storage=reserved[FILE],
        accounts=len(engine.accounts),
        ha_assets=0,
        api=Api(level=API_LEVEL, total=desk.requests, errors=desk.refusals),
    )


def config_of(state: ServerState, desk: Desk) -> Config:
    settings = desk.engine.settings
    return Config(
        max_memory=settings.max_memory_size,
        max_storage=settings.max_file_size,
        store_dir=state.store_path,
        sync_interval=settings.policy.interval_ns or DEFAULT_SYNC_NS,
        sync_always=settings.policy.on_commit,
        domain=settings.domain,
        compress_ok=True,
        strict=desk.settings.strict,
    )


def limits_of(desk: Desk) -> Limits:
    settings = desk.engine.settings
    return Limits(
        max_request_batch=settings.max_request_batch,
        max_ack_pending=settings.max_ack_pending,
        max_duplicate_window=settings.duplicate_window_ns,
        max_batch_inflight_per_stream=settings.max_batches_per_stream,
        max_batch_inflight_total=settings.max_batches,
        max_batch_size=settings.max_batch_messages,
        max_batch_timeout=settings.max_batch_idle_ns,
    )


def account_detail(account: AccountDesk, desk: Desk, query: JszQuery, now_ns: int) -> AccountDetail:
    streams = account.streams
    assert streams is not None
    return AccountDetail(
        name=account.account.name,
        id=account.account.name,
        memory=streams.memory.used,
        storage=streams.file.used,
        # What the account may have, where no limit is the largest number, as at the peer.
        reserved_memory=streams.limits.max_memory % UINT64,
        reserved_storage=streams.limits.max_storage % UINT64,
        accounts=0,
        ha_assets=0,
        api=Api(level=0, total=account.requests, errors=account.refusals),
        stream_detail=stream_details(streams, desk, query, now_ns) if query.streams else (),
    )


def stream_details(
    streams: AccountStreams, desk: Desk, query: JszQuery, now_ns: int
) -> tuple[StreamDetail, ...]:
    return tuple(stream_detail(streams.find(name), desk, query, now_ns) for name in streams.names())


def stream_detail(stream: Stream, desk: Desk, query: JszQuery, now_ns: int) -> StreamDetail:
    public: list[dict[str, Any]] = []
    direct: list[dict[str, Any]] = []
    if query.consumers:
        for _, consumer in sorted(stream.consumers.items()):
            if not consumer.config.direct:
                public.append(consumer_detail(consumer, query, now_ns))
            elif query.direct_consumers:
                direct.append(consumer_detail(consumer, query, now_ns))
    return StreamDetail(
        name=stream.name,
        created=timestamp(stream.created_ns),
        cluster=ClusterInfo(leader=desk.settings.server_name),
        config=stream.config if query.config else None,
        state=state_of(stream),
        consumer_detail=tuple(public),
        direct_consumer_detail=tuple(direct),
    )


def consumer_detail(consumer: Consumer, query: JszQuery, now_ns: int) -> dict[str, Any]:
    detail: dict[str, Any] = msgspec.to_builtins(info_of(consumer, now_ns))
    if query.config:
        detail["config"] = msgspec.to_builtins(consumer.config)
    else:
        del detail["config"]
    return detail


def varz_part(state: ServerState, desk: Desk) -> Jetstream:
    return Jetstream(config=config_of(state, desk), stats=stats_of(desk), limits=limits_of(desk))
