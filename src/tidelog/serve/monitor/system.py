"""Answers to requests on `$SYS.REQ.`: the monitoring documents over NATS, in the envelope of nats-server.

    $SYS.REQ.SERVER.PING[.<NAME>]           every server answers: VARZ, CONNZ, SUBSZ, ACCOUNTZ, HEALTHZ, STATSZ, IDZ ...
    $SYS.REQ.SERVER.<server id>.<NAME>      this server
    $SYS.REQ.ACCOUNT.<account>.<NAME>       one account: CONNZ, SUBSZ, LEAFZ, INFO, STATZ
    $SYS.REQ.USER.INFO                      who the asker is

The system account may ask all of these. Every other account may ask who it is, and for CONNZ and STATZ of
itself.

How it works: `SystemDesk.answer` is a function of subject, body and asker. A body is a JSON object whose
options are turned into those of the HTTP request, so both have one reading. It subscribes to nothing and
sends nothing; `interest` says which subjects somebody must listen to for it. It takes no actions (KICK, LDM,
RELOAD).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelog.base.instant import timestamp
from tidelog.broker.settings import Permissions, SubjectRights
from tidelog.serve.monitor import account, connz, health, inside, jetstream, peer, subsz
from tidelog.serve.monitor.desk import Monitor, whole
from tidelog.serve.monitor.document import Document, encode, number
from tidelog.serve.monitor.jetstream import Jetstream
from tidelog.serve.monitor.process import core_count, resident_size
from tidelog.serve.monitor.query import BadQuery, Query
from tidelog.serve.monitor.varz import ByKind, by_kind, varz

PREFIX = "$SYS.REQ."
PING = "PING"

# Options that have another name in a body than in an HTTP request.
NAMES = {"account": "acc", "include_unused": "unused"}
JSZ_NAMES = {"consumer": "consumers", "raft_groups": "raft", "leader_only": "leader-only"}
# Set by servers with streams.
STREAM_FLAGS = 1
STATES = ("open", "closed", "all")
KINDS: dict[str, type] = {
    "auth": bool,
    "cid": int,
    "exact_match": bool,
    "include_unused": bool,
    "leader_only": bool,
    "limit": int,
    "offset": int,
    "state": int,
    "subscriptions": bool,
    "subscriptions_detail": bool,
    "tags": list,
}


@dataclass(frozen=True, slots=True)
class Asker:
    """Who sent the request."""

    account: str
    user: str = ""
    permissions: Permissions | None = None


class ServerInfo(Document, frozen=True, kw_only=True):
    name: str
    host: str
    id: str
    cluster: str = ""
    domain: str = ""
    ver: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None
    jetstream: bool
    flags: int
    seq: int
    time: str


class Identity(Document, frozen=True, kw_only=True):
    name: str
    host: str
    id: str


class Subjects(Document, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Responses(Document, frozen=True, kw_only=True):
    max: int
    ttl: int


class UserPermissions(Document, frozen=True, kw_only=True):
    publish: Subjects | None = None
    subscribe: Subjects | None = None
    responses: Responses | None = None


class UserInfo(Document, frozen=True, kw_only=True):
    user: str
    account: str
    account_name: str = ""
    permissions: UserPermissions | None = None


class Statsz(Document, frozen=True, kw_only=True):
    start: str
    mem: int
    cores: int
    cpu: int | float
    connections: int
    total_connections: int
    active_accounts: int
    subscriptions: int
    sent: account.Volume
    sent_to_clients: account.Volume
    received: account.Volume
    received_from_clients: account.Volume
    slow_consumers: int
    slow_consumer_stats: ByKind | None = None
    stale_connections: int = 0
    stale_connection_stats: ByKind | None = None
    stalled_clients: int = 0
    active_servers: int
    jetstream: Jetstream | None = None
    gomaxprocs: int


class Silence(Exception):
    """No answer is due."""


Handler = Callable[[Query], Any]


class SystemDesk:
    """Finds the answer to a request."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.sent = 0
        state, broker, clock = monitor.state, monitor.broker, monitor.clock
        server_id = state.server_id
        self.of_server: dict[str, Handler] = {
            "VARZ": lambda _: varz(state, broker, clock, monitor.meter),
            "CONNZ": lambda query: whole(connz.connz(server_id, broker, clock, connz.read_query(query))),
            "SUBSZ": lambda query: whole(subsz.subsz(server_id, broker, clock, subsz.read_query(query))),
            "ACCOUNTZ": lambda query: account.accountz(
                server_id, broker, clock, query, state.accounts_with_streams()
            ),
            "HEALTHZ": self.healthz,
            "ROUTEZ": lambda query: peer.routez(state, clock, query),
            "LEAFZ": lambda query: peer.leafz(state, clock, query),
            "GATEWAYZ": lambda query: peer.gatewayz(state, clock, query),
            "JSZ": self.jsz,
            "IPQUEUESZ": inside.ipqueuesz,
            "EXPVARZ": lambda _: inside.expvar(),
        }
        self.of_account: dict[str, Callable[[str, Query], Any]] = {
            "CONNZ": lambda name, query: self.of_server["CONNZ"](query | {"acc": name}),
            "SUBSZ": lambda name, query: self.of_server["SUBSZ"](query | {"acc": name, "subs": "1"}),
            "LEAFZ": lambda _, query: self.of_server["LEAFZ"](query),
            "INFO": lambda name, _: account.account_info(name, broker, state.accounts_with_streams()),
            "JSZ": self.account_jsz,
            "STATZ": self.account_statz,
        }

    def interest(self, system: bool) -> list[str]:
        """What the system account, or any other, must be listened to for."""
        own = [f"{PREFIX}USER.INFO", f"{PREFIX}ACCOUNT.PING.CONNZ", f"{PREFIX}ACCOUNT.PING.STATZ"]
        if not system:
            return [*own, f"{PREFIX}SERVER.PING.CONNZ"]
        names = [*self.of_server, "IDZ", "STATSZ"]
        targets = [PING, self.monitor.state.server_id]
        return [
            f"{PREFIX}SERVER.PING",
            f"{PREFIX}USER.INFO",
            *(f"{PREFIX}SERVER.{target}.{name}" for target in targets for name in names),
            *(f"{PREFIX}ACCOUNT.*.{name}" for name in self.of_account),
        ]

    def answer(self, subject: str, body: bytes, asker: Asker) -> bytes | None:
        """The bytes to send to the reply subject; None: nothing is to be sent."""
        try:
            return self.find(subject.removeprefix(PREFIX).split("."), body, asker)
        except Silence:
            return None
        except BadQuery as error:
            return self.enveloped({"data": None, "error": {"code": 500, "description": str(error)}})
        except (msgspec.DecodeError, RecursionError) as error:
            return self.enveloped({"error": {"code": 400, "description": str(error)}})

    def find(self, tokens: list[str], body: bytes, asker: Asker) -> bytes:
        if tokens == ["USER", "INFO"]:
            return self.enveloped({"data": user_info(asker)})
        query = self.read_body(body)
        if asker.account != self.monitor.broker.settings.system_account:
            tokens = confine(tokens, asker.account)
        match tokens:
            case ["SERVER", "PING"] | ["SERVER", _, "STATSZ"]:
                return self.enveloped({"statsz": self.statsz()})
            case ["SERVER", _, "IDZ"]:
                state = self.monitor.state
                return encode(
                    Identity(name=state.server_name, host=state.options.host, id=state.server_id), 0
                )
            case ["SERVER", _, name] if name in self.of_server:
                return self.enveloped({"data": self.of_server[name](query)})
            case ["ACCOUNT", "PING", "STATZ"]:
                return self.enveloped({"data": self.account_statz("", query)})
            case ["ACCOUNT", wanted, name] if name in self.of_account:
                return self.enveloped({"data": self.of_account[name](wanted, query)})
        raise Silence

    def read_body(self, body: bytes) -> Query:
        """Options as an HTTP request would have them. Silence: the filter names other servers."""
        options: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any]) if body.strip() else {}
        for key, value in options.items():
            if not isinstance(value, KINDS.get(key, object)):
                raise msgspec.ValidationError(f"cannot take {type(value).__name__} for {key}")
        if not self.is_meant(options):
            raise Silence
        query = {NAMES.get(key, key): option_text(value) for key, value in options.items()}
        state = options.get("state", 0)
        if state not in range(len(STATES)):
            raise BadQuery(f"Error decoding state for {state}")
        query["state"] = STATES[state]
        subscriptions = "detail" if options.get("subscriptions_detail") else query.get("subscriptions", "")
        return query | {"subs": subscriptions}

    def is_meant(self, options: dict[str, Any]) -> bool:
        state = self.monitor.state
        exact = options.get("exact_match", False)
        own = {
            "server_name": state.server_name,
            "host": state.options.host,
            "cluster": state.options.cluster.name,
        }
        for key, value in own.items():
            wanted = str(options.get(key, ""))
            if wanted and (wanted != value if exact else wanted not in value):
                return False
        tags = {tag.lower() for tag in self.monitor.broker.settings.tags}
        if any(str(tag).lower() not in tags for tag in options.get("tags") or ()):
            return False
        return options.get("domain", "") in ("", state.options.jetstream.domain)

    def enveloped(self, content: dict[str, Any]) -> bytes:
        state, settings = self.monitor.state, self.monitor.broker.settings
        self.sent += 1
        info = ServerInfo(
            name=state.server_name,
            host=state.options.host,
            id=state.server_id,
            cluster=state.options.cluster.name,
            ver=state.version,
            tags=settings.tags,
            metadata=dict(settings.metadata) or None,
            domain=state.options.jetstream.domain if state.desk is not None else "",
            jetstream=state.desk is not None,
            flags=STREAM_FLAGS if state.desk is not None else 0,
            seq=self.sent,
            time=timestamp(self.monitor.clock.now_ns()),
        )
        return encode({"server": info, **content}, 0)

    def healthz(self, query: Query) -> dict[str, Any]:
        """Over NATS the status is in the document."""
        status, found = health.healthz(self.monitor.state, query)
        fields: dict[str, Any] = msgspec.to_builtins(found)
        return {"status": fields.pop("status"), "status_code": status, **fields}

    def jsz(self, query: Query) -> jetstream.Jsz:
        state = self.monitor.state
        if query.get("leader_only") == "1" and state.desk is None:
            raise Silence
        asked = {JSZ_NAMES.get(key, key): value for key, value in query.items()}
        return jetstream.jsz(state, self.monitor.clock, jetstream.read_query(asked))

    def account_jsz(self, name: str, query: Query) -> object:
        """The detail of one account."""
        details = self.jsz(query | {"acc": name}).account_details
        if not details:
            raise BadQuery(f'account "{name}" not found')
        return details[0]

    def account_statz(self, name: str, query: Query) -> account.Accstatz:
        """Of one account, or of all with an empty name. Accounts without connections say nothing."""
        monitor = self.monitor
        found = account.accstatz(monitor.state.server_id, monitor.broker, monitor.clock, query)
        statistics = [one for one in found.account_statz if name in ("", one.acc)]
        if not statistics:
            raise Silence
        return msgspec.structs.replace(found, account_statz=statistics)

    def statsz(self) -> Statsz:
        monitor, broker = self.monitor, self.monitor.broker
        sent = account.Volume(msgs=broker.out_msgs, bytes=broker.out_bytes)
        received = account.Volume(msgs=broker.in_msgs, bytes=broker.in_bytes)
        return Statsz(
            start=timestamp(monitor.state.start_ns),
            mem=resident_size(),
            cores=core_count(),
            cpu=number(monitor.meter.read()),
            connections=broker.client_count,
            total_connections=broker.total_connections,
            active_accounts=sum(1 for one in broker.accounts() if one.client_count or one.leaf_count),
            subscriptions=broker.subscription_count,
            sent=sent,
            sent_to_clients=sent,
            received=received,
            received_from_clients=received,
            slow_consumers=broker.slow_consumers,
            slow_consumer_stats=by_kind(broker.slow_consumers) if broker.slow_consumers else None,
            stale_connections=broker.stale_connections,
            stale_connection_stats=by_kind(broker.stale_connections) if broker.stale_connections else None,
            stalled_clients=broker.stalls,
            active_servers=1,
            jetstream=jetstream.varz_part(monitor.state),
            gomaxprocs=1,
        )


def confine(tokens: list[str], account_name: str) -> list[str]:
    """What an ordinary account may ask, turned to itself."""
    if tokens in (["SERVER", PING, "CONNZ"], ["ACCOUNT", PING, "CONNZ"]):
        return ["ACCOUNT", account_name, "CONNZ"]
    if tokens == ["ACCOUNT", PING, "STATZ"]:
        return ["ACCOUNT", account_name, "STATZ"]
    raise Silence


def option_text(value: object) -> str:
    """An option's value as it would stand in a URL."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return "" if value is None else str(value)


def user_info(asker: Asker) -> UserInfo:
    permissions = asker.permissions
    return UserInfo(
        user=asker.user,
        account=asker.account,
        account_name=asker.account,
        permissions=user_permissions(permissions) if permissions is not None else None,
    )


def user_permissions(permissions: Permissions) -> UserPermissions:
    responses = permissions.responses
    return UserPermissions(
        publish=subjects(permissions.publish),
        subscribe=subjects(permissions.subscribe),
        responses=Responses(max=responses.max_msgs, ttl=responses.expires_ns)
        if responses is not None
        else None,
    )


def subjects(rights: SubjectRights) -> Subjects | None:
    if rights.allow is None and not rights.deny:
        return None
    return Subjects(allow=rights.allow or (), deny=rights.deny)
