"""/jsz: streams. Disabled, until there are streams."""

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import BadQuery, Query, read_bool, read_int
from tidelog.serve.monitor.state import ServerState


class Api(Document, frozen=True, kw_only=True):
    level: int
    total: int
    errors: int


class Config(Document, frozen=True, kw_only=True):
    max_memory: int
    max_storage: int


class Jsz(Document, frozen=True, kw_only=True):
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: Api
    server_id: str
    now: str
    disabled: bool = False
    config: Config
    streams: int
    consumers: int
    messages: int
    bytes: int
    total: int


def jsz(state: ServerState, clock: Clock, query: Query) -> Jsz:
    for name in ("accounts", "streams", "consumers", "direct-consumers", "config"):
        read_bool(query, name)
    for name in ("offset", "limit"):
        read_int(query, name)
    leader_only = read_bool(query, "leader-only")
    for name in ("raft", "stream-leader-only"):
        read_bool(query, name)
    if leader_only:
        raise BadQuery("filtered response: not leader")
    return Jsz(
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        accounts=0,
        ha_assets=0,
        api=Api(level=0, total=0, errors=0),
        server_id=state.server_id,
        now=timestamp(clock.now_ns()),
        disabled=True,
        config=Config(max_memory=0, max_storage=0),
        streams=0,
        consumers=0,
        messages=0,
        bytes=0,
        total=0,
    )
