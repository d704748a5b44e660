"""What the broker must be told: limits, accounts, users, rights. Plain frozen data, compared field by field on reload.

The configuration file (`serve.options`) is read into these; nothing here knows of files or flags.
Secrets are kept out of `repr`, so that no log line or error can carry one.
"""

from dataclasses import dataclass, field

GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SubjectRights:
    """`allow` None means everything; `deny` overrules. An entry may be `subject` or, to subscribe, `subject queue`."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseRights:
    """`allow_responses`: how many replies to a request just received may be published, and for how long."""

    max_msgs: int = 1
    expires_ns: int = 120 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Permissions:
    publish: SubjectRights = SubjectRights()
    subscribe: SubjectRights = SubjectRights()
    responses: ResponseRights | None = None


@dataclass(frozen=True, slots=True)
class User:
    """One who may come in: by `name` and `password` (plain or bcrypt), by `nkey`, or by certificate (`name` only)."""

    name: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    # None: every kind. Otherwise of STANDARD, WEBSOCKET, LEAFNODE, MQTT, IN_PROCESS ... (upper case).
    connection_types: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """One destination of a subject mapping; `weight` in percent."""

    source: str
    destination: str
    weight: int = 100


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What an account may have of streams. -1: no limit."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """What others may import. `accounts` None: everybody may."""

    subject: str
    service: bool = False
    accounts: tuple[str, ...] | None = None
    many_answers: bool = False  # of a service: `response_type` stream or chunked


@dataclass(frozen=True, slots=True)
class Import:
    """What another account exports, and as which subject it is known here."""

    subject: str
    account: str
    service: bool = False
    local: str = ""  # empty: the same


@dataclass(frozen=True, slots=True)
class AccountSettings:
    name: str
    default_permissions: Permissions | None = None
    mappings: tuple[Mapping, ...] = ()
    # -1: no limit.
    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    # None: the account may have no streams, unless it is the only one.
    streams: StreamLimits | None = None
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()


@dataclass(frozen=True, slots=True)
class Authorization:
    """`user`/`password` and `token` are the single-identity forms; `users` the full one. All empty: everybody may."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    users: tuple[User, ...] = ()
    default_permissions: Permissions | None = None
    no_auth_user: str = ""
    timeout_ns: int = 2 * SECOND_NS
    # TLS: map the verified client certificate to a user.
    verify_and_map: bool = False

    @property
    def required(self) -> bool:
        return bool(self.user or self.token or self.users)


@dataclass(frozen=True, slots=True)
class Limits:
    max_control_line: int = 4096
    max_payload: int = 1024 * 1024
    max_pending: int = 64 * 1024 * 1024
    max_connections: int = 65_536  # negative: nobody may come in (`max_connections: 0` in a file)
    max_subscriptions: int = 0  # per connection; 0: no limit
    max_sub_tokens: int = 0
    max_traced_msg_len: int = 0
    max_closed_clients: int = 10_000
    ping_interval_ns: int = 120 * SECOND_NS
    ping_max: int = 2
    write_deadline_ns: int = 10 * SECOND_NS
    no_fast_producer_stall: bool = False


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Everything the broker needs; a reload hands in a whole new one."""

    server_name: str = ""
    limits: Limits = Limits()
    authorization: Authorization = Authorization()
    accounts: tuple[AccountSettings, ...] = ()
    system_account: str = SYSTEM_ACCOUNT
    headers: bool = True
    tags: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
