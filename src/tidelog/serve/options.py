"""What `tidelog serve` runs by: the broker's settings, and those of listeners, TLS, log and process.

Plain frozen data, and the one place where the defaults of all of it stand (the broker's in
`broker.settings`). A reload makes a whole new `Options` and compares (`serve.reload`). How files and flags
become Options: `serve.option_table`, `serve.flag`.

Ports, of every listener: a number is that port, ANY_PORT (-1) a free one of the system's choice, 0 means that
the listener is off; the client listener cannot be off. Durations are seconds as floats, or nanoseconds where
the name ends in `_ns`. Secrets are kept out of `repr`.
"""

from dataclasses import dataclass, field

from tidelog.base.limits import COLD_WARM_SIZE
from tidelog.base.record import Record
from tidelog.broker.settings import BrokerSettings
from tidelog.serve.log import LogSettings

ANY_PORT = -1
DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 4222
DEFAULT_LEAFNODE_PORT = 7422

# (file, line, column) of the key of a block: for what is found out later, such as an unreadable certificate.
Position = tuple[str, int, int]
NOWHERE: Position = ("", 0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class CertificatePair(Record):
    """A certificate chain and its key, both PEM files."""

    cert_file: str
    key_file: str


@dataclass(frozen=True, eq=False, repr=False)
class TlsSettings(Record):
    """A `tls` block. File names stand as written: relative ones start at the working directory."""

    certificates: tuple[CertificatePair, ...] = ()
    ca_file: str = ""
    verify: bool = False
    verify_and_map: bool = False
    # Handshake before INFO. With a delay: INFO goes out when no handshake has begun by then.
    handshake_first: bool = False
    fallback_delay_s: float = 0.0
    timeout_s: float = 2.0
    # TLS connections accepted per second; 0: any number.
    connection_rate_limit: int = 0
    # IANA names, as in "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"; empty: what OpenSSL holds to be good.
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    min_version: str = "1.2"
    # Lower-case hex sha256 of the DER-encoded SubjectPublicKeyInfo; empty: any certificate that verifies.
    pinned_certs: frozenset[str] = frozenset()
    position: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class WebsocketSettings(Record):
    """The `websocket` block. Its credentials, when given, stand in for those of `authorization`."""

    host: str = DEFAULT_HOST
    port: int = 0
    advertise: str = ""
    no_tls: bool = False
    tls: TlsSettings | None = None
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    handshake_timeout_s: float = 2.0
    compression: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    auth_timeout_s: float = 0.0  # 0: that of `authorization`
    no_auth_user: str = ""
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    ping_interval_s: float = 0.0  # 0: that of all clients


@dataclass(frozen=True, eq=False, repr=False)
class LeafnodeSettings(Record):
    """The listener of the `leafnodes` block, which binds and refuses politely."""

    host: str = DEFAULT_HOST
    port: int = 0
    advertise: str = ""
    tls: TlsSettings | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSettings(Record):
    """The `cluster` block: checked for shape, reported by the monitor, without effect."""

    name: str = ""
    host: str = DEFAULT_HOST
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    routes: tuple[str, ...] = field(default=(), repr=False)  # URLs may hold credentials
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class ColdSettings(Record):
    """The `cold` block of our own."""

    enabled: bool = False
    url: str = ""  # empty: a folder below the store directory
    streams: bool = True  # all streams in files, unless they say themselves; else only those that do
    # What stays here, and how long the archive keeps what a stream lets go of; -1: without bound, for ever.
    local_size: int = -1
    local_age_ns: int = -1
    keep_ns: int = 0
    bytes_per_second: int = 0  # that are sent; 0: as many as there are
    parallel: int = 2  # segments that are sent at a time, and as many that are fetched
    cache_size: int = COLD_WARM_SIZE  # of each stream, what has come back


@dataclass(frozen=True, eq=False, repr=False)
class JetStreamSettings(Record):
    """The `jetstream` block. -1: what the machine has."""

    enabled: bool = False
    store_dir: str = ""
    domain: str = ""
    max_memory_size: int = -1
    max_file_size: int = -1
    # When streams in files are synced that do not say themselves: a preset, or knobs as JSON; empty: as the next two
    # say.
    sync: str = ""
    sync_interval_s: float = 0.0  # 0: before every acknowledgement, as with `sync_always`
    sync_always: bool = False
    strict: bool = True
    # 0: no limit; of batches, and of what waits, the usual one.
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window_ns: int = 0
    max_batches_per_stream: int = 0
    max_batches: int = 0
    max_batch_messages: int = 0
    max_batch_idle_ns: int = 0
    request_queue_limit: int = 0
    cold: ColdSettings = field(default_factory=ColdSettings)


@dataclass(frozen=True, eq=False, repr=False)
class Options(Record):
    """One server's whole configuration: defaults, then the file, then the flags."""

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    config_file: str = ""
    config_digest: str = ""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    client_advertise: str = ""
    tls: TlsSettings | None = None
    allow_non_tls: bool = False
    websocket: WebsocketSettings = WebsocketSettings()
    leafnode: LeafnodeSettings = LeafnodeSettings()
    cluster: ClusterSettings = ClusterSettings()
    jetstream: JetStreamSettings = JetStreamSettings()

    http_host: str = ""  # empty: `host`
    http_port: int = 0
    https_port: int = 0
    http_base_path: str = "/"
    # Names that the usual Grafana boards expect, beside our own: the prefix before `varz_...`; empty: off.
    compat_metrics: str = ""

    log: LogSettings = field(default_factory=LogSettings)
    trace_verbose: bool = False
    trace_headers: bool = False
    pid_file: str = ""
    ports_file_dir: str = ""
    prof_port: int = 0

    lame_duck_duration_s: float = 120.0
    lame_duck_grace_s: float = 10.0

    # To be logged at start and at reload: doubtful values, and what is accepted but not yet built.
    warnings: tuple[str, ...] = field(default=(), compare=False)
    # The part of `warnings` for which nats-server's `-t` fails.
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def server_name(self) -> str:
        return self.broker.server_name
