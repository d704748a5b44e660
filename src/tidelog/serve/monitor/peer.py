"""/routez, /leafz, /gatewayz: other servers. There are none, and the documents say so."""

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import Query, read_bool, read_subscriptions
from tidelog.serve.monitor.state import ServerState

Nobody = list[None]


class Routez(Document, frozen=True, kw_only=True):
    server_id: str
    server_name: str
    now: str
    num_routes: int
    routes: Nobody


class Leafz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    leafnodes: int
    leafs: Nobody


class Gatewayz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    outbound_gateways: dict[str, None]
    inbound_gateways: dict[str, None]


def routez(state: ServerState, clock: Clock, query: Query) -> Routez:
    read_subscriptions(query)
    now = timestamp(clock.now_ns())
    return Routez(server_id=state.server_id, server_name=state.server_name, now=now, num_routes=0, routes=[])


def leafz(state: ServerState, clock: Clock, query: Query) -> Leafz:
    read_bool(query, "subs")
    return Leafz(server_id=state.server_id, now=timestamp(clock.now_ns()), leafnodes=0, leafs=[])


def gatewayz(state: ServerState, clock: Clock, query: Query) -> Gatewayz:
    read_subscriptions(query)
    read_bool(query, "accs")
    now = timestamp(clock.now_ns())
    return Gatewayz(server_id=state.server_id, now=now, outbound_gateways={}, inbound_gateways={})
