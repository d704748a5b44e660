"""/varz: what the server is, how it is configured, what it has done."""

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.broker.settings import SECOND_NS
from tidelog.broker.view import BrokerView
from tidelog.serve.monitor.document import Document, age, number
from tidelog.serve.monitor.jetstream import Jetstream, varz_part
from tidelog.serve.monitor.process import ProcessorMeter, core_count, resident_size
from tidelog.serve.monitor.state import ServerState
from tidelog.serve.options import Options

# What nats-server uses where nothing is configured.
TLS_TIMEOUT_S = 2.0
LEAFNODE_TIMEOUT_S = 2.0


class Leafnode(Document, frozen=True, kw_only=True):
    host: str = ""
    port: int = 0
    auth_timeout: int | float = 0
    tls_timeout: int | float = 0
    tls_required: bool = False
    tls_verify: bool = False


class Cluster(Document, frozen=True, kw_only=True):
    name: str = ""
    addr: str = ""
    cluster_port: int = 0


class Websocket(Document, frozen=True, kw_only=True):
    host: str = ""
    port: int = 0
    advertise: str = ""
    no_auth_user: str = ""
    jwt_cookie: str = ""
    handshake_timeout: int = 0
    auth_timeout: int | float = 0
    no_tls: bool = False
    tls_map: bool = False
    tls_pinned_certs: tuple[str, ...] = ()
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    compression: bool = False


class Empty(Document, frozen=True, kw_only=True):
    """A part of the server that is not there."""


class ByKind(Document, frozen=True, kw_only=True):
    """A count for each kind of connection."""

    clients: int
    routes: int
    gateways: int
    leafs: int


class DiskWaits(Document, frozen=True, kw_only=True):
    waiters: int
    waits: int
    wait_time: int
    max_wait_time: int


class Varz(Document, frozen=True, kw_only=True):
    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    max_connections: int
    max_subscriptions: int = 0
    ping_interval: int
    ping_max: int
    http_host: str
    http_port: int
    http_base_path: str
    https_port: int
    auth_timeout: int | float
    max_control_line: int
    max_payload: int
    max_pending: int
    cluster: Cluster
    gateway: Empty
    leaf: Leafnode
    mqtt: Empty
    websocket: Websocket
    jetstream: Jetstream | Empty
    tls_timeout: int | float
    write_deadline: int
    start: str
    now: str
    uptime: str
    mem: int
    cores: int
    gomaxprocs: int
    cpu: int | float
    connections: int
    total_connections: int
    routes: int
    remotes: int
    leafnodes: int
    in_msgs: int
    in_bytes: int
    in_client_msgs: int
    in_client_bytes: int
    out_msgs: int
    out_bytes: int
    out_client_msgs: int
    out_client_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_clients: int
    subscriptions: int
    http_req_stats: dict[str, int]
    config_load_time: str
    config_digest: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None
    system_account: str = ""
    slow_consumer_stats: ByKind
    stale_connection_stats: ByKind
    disk_io_wait_stats: DiskWaits
    tls_cert_not_after: str = ""


def varz(state: ServerState, broker: BrokerView, clock: Clock, meter: ProcessorMeter) -> Varz:
    options = state.options
    settings = broker.settings
    limits = settings.limits
    tls = options.tls
    now_ns = clock.now_ns()
    # Each is a sum over all connections.
    in_msgs, in_bytes = broker.in_msgs, broker.in_bytes
    out_msgs, out_bytes = broker.out_msgs, broker.out_bytes
    return Varz(
        server_id=state.server_id,
        server_name=state.server_name,
        version=state.version,
        proto=1,
        git_commit=state.git_commit,
        go=state.runtime,
        host=options.host,
        port=state.port,
        auth_required=settings.authorization.required,
        tls_required=tls is not None and not options.allow_non_tls,
        tls_verify=tls is not None and (tls.verify or tls.verify_and_map),
        connect_urls=state.connect_urls,
        ws_connect_urls=state.websocket_connect_urls,
        max_connections=limits.max_connections,
        max_subscriptions=limits.max_subscriptions,
        ping_interval=limits.ping_interval_ns,
        ping_max=limits.ping_max,
        http_host=options.http_host or options.host,
        http_port=state.http_port,
        http_base_path=options.http_base_path.rstrip("/"),
        https_port=state.https_port,
        auth_timeout=number(settings.authorization.timeout_ns / SECOND_NS),
        max_control_line=limits.max_control_line,
        max_payload=limits.max_payload,
        max_pending=limits.max_pending,
        cluster=cluster(options),
        gateway=Empty(),
        leaf=leafnode(options, state.leafnode_port),
        mqtt=Empty(),
        websocket=websocket(options, state.websocket_port),
        jetstream=varz_part(state) or Empty(),
        tls_timeout=number(tls.timeout_s if tls is not None else TLS_TIMEOUT_S),
        write_deadline=limits.write_deadline_ns,
        start=timestamp(state.start_ns),
        now=timestamp(now_ns),
        uptime=age(now_ns - state.start_ns),
        mem=resident_size(),
        cores=core_count(),
        gomaxprocs=1,  # one loop does all the work
        cpu=number(meter.read()),
        connections=broker.client_count,
        total_connections=broker.total_connections,
        routes=0,
        remotes=0,
        leafnodes=broker.leaf_count,
        in_msgs=in_msgs,
        in_bytes=in_bytes,
        in_client_msgs=in_msgs,
        in_client_bytes=in_bytes,
        out_msgs=out_msgs,
        out_bytes=out_bytes,
        out_client_msgs=out_msgs,
        out_client_bytes=out_bytes,
        slow_consumers=broker.slow_consumers,
        stale_connections=broker.stale_connections,
        stalled_clients=broker.stalls,
        subscriptions=broker.subscription_count,
        http_req_stats=dict(sorted(state.http_requests.items())),
        config_load_time=timestamp(state.config_load_ns),
        config_digest=options.config_digest,
        tags=settings.tags,
        metadata=dict(settings.metadata) or None,
        system_account=settings.system_account,
        slow_consumer_stats=by_kind(broker.slow_consumers),
        stale_connection_stats=by_kind(broker.stale_connections),
        disk_io_wait_stats=DiskWaits(waiters=0, waits=0, wait_time=0, max_wait_time=0),
        tls_cert_not_after=timestamp(state.certificate_end_ns) if state.certificate_end_ns else "",
    )


def by_kind(clients: int) -> ByKind:
    """Clients are the only kind that is served."""
    return ByKind(clients=clients, routes=0, gateways=0, leafs=0)


def cluster(options: Options) -> Cluster:
    configured = options.cluster
    if not configured.port:
        return Cluster(name=configured.name)
    return Cluster(name=configured.name, addr=configured.host, cluster_port=configured.port)


def leafnode(options: Options, port: int) -> Leafnode:
    if not port:
        return Leafnode()
    tls = options.leafnode.tls
    return Leafnode(
        host=options.leafnode.host,
        port=port,
        auth_timeout=number(LEAFNODE_TIMEOUT_S),
        tls_timeout=number(tls.timeout_s if tls is not None else TLS_TIMEOUT_S),
        tls_required=tls is not None,
        tls_verify=tls is not None and (tls.verify or tls.verify_and_map),
    )


def websocket(options: Options, port: int) -> Websocket:
    if not port:
        return Websocket()
    settings = options.websocket
    tls = settings.tls
    return Websocket(
        host=settings.host,
        port=port,
        advertise=settings.advertise,
        no_auth_user=settings.no_auth_user,
        jwt_cookie=settings.jwt_cookie,
        handshake_timeout=int(settings.handshake_timeout_s * SECOND_NS),
        auth_timeout=number(settings.auth_timeout_s),
        no_tls=settings.no_tls,
        tls_map=tls is not None and tls.verify_and_map,
        tls_pinned_certs=tuple(sorted(tls.pinned_certs)) if tls is not None else (),
        same_origin=settings.same_origin,
        allowed_origins=settings.allowed_origins,
        compression=settings.compression,
    )
