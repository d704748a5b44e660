"""/jsz: streams and consumers, as far as the options ask for them; and the part of /varz about them.

Where there are streams, `stream_detail` is asked, which knows the rooms that they are made of.
"""

from typing import Any

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import BadQuery, Query, read_bool, read_int
from tidelog.serve.monitor.state import ServerState

# Accounts in one answer that does not say how many.
LIMIT = 1024


class Api(Document, frozen=True, kw_only=True):
    level: int
    total: int
    errors: int


class Config(Document, frozen=True, kw_only=True):
    max_memory: int
    max_storage: int
    store_dir: str = ""
    sync_interval: int = 0
    sync_always: bool = False
    domain: str = ""
    compress_ok: bool = False
    strict: bool = False


class Limits(Document, frozen=True, kw_only=True):
    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_duplicate_window: int = 0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: int = 0


class Stats(Document, frozen=True, kw_only=True):
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: Api


class Jsz(Stats, frozen=True, kw_only=True):
    server_id: str
    now: str
    disabled: bool = False
    config: Config
    limits: Limits | None = None
    streams: int
    streams_leader: int = 0
    consumers: int
    consumers_leader: int = 0
    messages: int
    bytes: int
    account_details: tuple[Any, ...] = ()
    total: int


class Jetstream(Document, frozen=True, kw_only=True):
    """The part of /varz."""

    config: Config
    stats: Stats
    limits: Limits


class JszQuery(Document, frozen=True, kw_only=True):
    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumers: bool = False
    direct_consumers: bool = False
    config: bool = False
    raft: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = LIMIT


def read_query(query: Query) -> JszQuery:
    accounts, streams, consumers, direct_consumers, config = (
        read_bool(query, name) for name in ("accounts", "streams", "consumers", "direct-consumers", "config")
    )
    offset, limit = read_int(query, "offset"), read_int(query, "limit")
    # A single server leads everything, so these two leave nothing out.
    leader_only = read_bool(query, "leader-only")
    raft = read_bool(query, "raft")
    read_bool(query, "stream-leader-only")
    account = query.get("acc", "")
    streams = streams or consumers
    return JszQuery(
        account=account,
        accounts=accounts or (streams and not account),
        streams=streams,
        consumers=consumers,
        direct_consumers=direct_consumers,
        config=config,
        raft=raft,
        leader_only=leader_only,
        offset=max(offset, 0),
        limit=limit or LIMIT,
    )


def jsz(state: ServerState, clock: Clock, query: JszQuery) -> Jsz:
    if state.desk is None:
        if query.leader_only:
            raise BadQuery("filtered response: not leader")
        return disabled(state, clock.now_ns())
    from tidelog.serve.monitor import stream_detail  # for those who have streams

    return stream_detail.jsz(state, state.desk, clock.now_ns(), query)


def varz_part(state: ServerState) -> Jetstream | None:
    if state.desk is None:
        return None
    from tidelog.serve.monitor import stream_detail

    return stream_detail.varz_part(state, state.desk)


def disabled(state: ServerState, now_ns: int) -> Jsz:
    return Jsz(
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        accounts=0,
        ha_assets=0,
        api=Api(level=0, total=0, errors=0),
        server_id=state.server_id,
        now=timestamp(now_ns),
        disabled=True,
        config=Config(max_memory=0, max_storage=0),
        streams=0,
        consumers=0,
        messages=0,
        bytes=0,
        total=0,
    )
