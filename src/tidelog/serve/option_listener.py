"""The blocks of listeners other than the client's: `websocket`, `leafnodes`, `cluster`, `gateway`, `mqtt`.

Websocket is built. The leafnode listener binds and refuses politely; of the others only the shape is checked,
so that a file of nats-server can be used as it is, with a warning for what has no effect.
"""

from typing import Any

from tidelog.base.duration import format_duration
from tidelog.serve.conf import Node
from tidelog.serve.field import (
    SECOND_NS,
    UNKEPT,
    Findings,
    Reader,
    Table,
    aliases,
    boolean,
    duration_ns,
    fault,
    for_listen,
    integer,
    interval_ns,
    interval_s,
    kind,
    list_of,
    listen,
    port,
    quoted,
    read_section,
    string_map,
    strings,
    table_of,
    text,
    timeout_s,
)
from tidelog.serve.option_tls import tls_reader
from tidelog.serve.option_user import permissions_reader, read_authorization, read_subjects
from tidelog.serve.options import LeafnodeSettings, WebsocketSettings

# Headers that the handshake itself sets, or that clients would read a meaning into.
RESERVED_HEADERS = ("host", "content-length", "connection", "upgrade", "nats-no-masking")
LEAF_VERSION_MIN = (2, 8, 0)
# Routes are pinged at least this often, whatever the file says.
ROUTE_PING_MAX_NS = 30 * SECOND_NS
WRITE_TIMEOUTS = ("default", "close", "retry")


def listen_table() -> Table:
    return {
        "listen": ("listen", listen),
        "port": ("port", port),
        **aliases("host net", "host", text),
    }


def write_timeout(node: Node) -> str:
    if text(node) not in WRITE_TIMEOUTS:
        raise fault(node, "write_timeout must be 'default', 'close' or 'retry'")
    return text(node)


# -- websocket --


def read_websocket(node: Node, findings: Findings) -> WebsocketSettings:
    def authorization(value: Node) -> dict[str, Any]:
        table: Table = {
            **aliases("user username", "user", text),
            **aliases("pass password", "password", text),
            "token": ("token", text),
            "timeout": ("auth_timeout_s", timeout_s("websocket authorization")),
        }
        return read_section(table_of(value), table, findings)

    table: Table = {
        **listen_table(),
        "advertise": ("advertise", text),
        "no_tls": ("no_tls", boolean),
        "tls": ("tls", tls_reader(findings)),
        "same_origin": ("same_origin", boolean),
        **aliases(
            "allowed_origins allowed_origin allow_origins allow_origin origins origin",
            "allowed_origins",
            allowed_origins,
        ),
        "handshake_timeout": ("handshake_timeout_s", handshake_timeout_s),
        **aliases("compress compression", "compression", boolean),
        **aliases("authorization authentication", "authorization", authorization),
        "jwt_cookie": ("jwt_cookie", text),
        "user_cookie": ("user_cookie", text),
        "pass_cookie": ("pass_cookie", text),
        "token_cookie": ("token_cookie", text),
        "no_auth_user": ("no_auth_user", text),
        "headers": ("headers", headers),
        "ping_interval": ("ping_interval_s", interval_s(findings, "ping_interval")),
    }
    before = len(findings.errors)
    found = read_section(table_of(node, "Expected websocket to be a map"), table, findings)
    found.update(found.pop("authorization", {}))
    for_listen(found)
    if not found.get("handshake_timeout_s", 1):  # 0 is the default
        del found["handshake_timeout_s"]
    settings = WebsocketSettings(**found)
    if settings.port and settings.tls is None and not settings.no_tls and len(findings.errors) == before:
        raise fault(node, "websocket requires TLS configuration")
    if settings.port and settings.jwt_cookie:
        about = (
            "trusted operators or trusted keys configuration is required for JWT authentication via cookie"
        )
        raise fault(node, f"{about} {quoted(settings.jwt_cookie)}")
    return settings


def handshake_timeout_s(node: Node) -> float:
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return float(node.value)
    if not isinstance(node.value, str):
        raise fault(node, f"error parsing handshake timeout: unsupported type {kind(node)}")
    return duration_ns(node, "handshake timeout") / SECOND_NS


def allowed_origins(node: Node) -> tuple[str, ...]:
    origins = strings("allowed origins")(node)
    for origin in origins:
        scheme, _, host = origin.partition("://")
        if scheme.lower() not in ("http", "https"):
            about = "allowed origins must be absolute URLs with http or https scheme"
            raise fault(node, f"unable to parse allowed origin {quoted(origin)}: {about}")
        if not host.split("/")[0]:
            raise fault(node, f"unable to parse allowed origin {quoted(origin)}: host is required")
    return origins


def headers(node: Node) -> tuple[tuple[str, str], ...]:
    pairs = string_map("headers")(node)
    for name, _ in pairs:
        if name.lower() in RESERVED_HEADERS:
            raise fault(node, f"websocket: invalid header {quoted(name)} not allowed")
        if name.lower().startswith("sec-websocket-"):
            about = '"Sec-WebSocket-" prefix not allowed'
            raise fault(node, f"websocket: invalid header {quoted(name)}, {about}")
    return pairs


# -- leafnodes --


def read_leafnodes(node: Node, findings: Findings) -> LeafnodeSettings:
    table: Table = {
        **listen_table(),
        "authorization": (UNKEPT, lambda value: check_leaf_authorization(value, findings)),
        "remotes": (UNKEPT, lambda value: check_remotes(value, findings)),
        **aliases("reconnect reconnect_delay reconnect_interval", UNKEPT, interval_ns(findings, "reconnect")),
        "dial_timeout": (UNKEPT, interval_ns(findings, "dial_timeout")),
        "tls": ("tls", tls_reader(findings)),
        **aliases("leafnode_advertise advertise", "advertise", text),
        "no_advertise": (UNKEPT, boolean),
        **aliases("min_version minimum_version", UNKEPT, leaf_version),
        "compression": (UNKEPT, lambda value: check_compression(value, findings)),
        **aliases("isolate_leafnode_interest isolate", UNKEPT, boolean),
        "write_deadline": (UNKEPT, interval_ns(findings, "write_deadline")),
        "write_timeout": (UNKEPT, write_timeout),
    }
    found = read_section(table_of(node, "Expected map to define a leafnode"), table, findings)
    for_listen(found)
    return LeafnodeSettings(**found)


def leaf_version(node: Node) -> str:
    parts = text(node).removeprefix("v").split("-")[0].split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise fault(node, "invalid leafnode's minimum version: invalid semver")
    if tuple(map(int, parts)) < LEAF_VERSION_MIN:
        raise fault(node, f"the minimum version should be at least {'.'.join(map(str, LEAF_VERSION_MIN))}")
    return text(node)


def check_leaf_authorization(node: Node, findings: Findings) -> None:
    credentials: Table = {
        **aliases("user username", "user", text),
        **aliases("pass password", UNKEPT, text),
        "account": (UNKEPT, text),
        "proxy_required": (UNKEPT, boolean),
    }

    def users(value: Node) -> list[str]:
        names: list[str] = []
        for item in list_of(value, "Expected users field to be an array"):
            about = "Expected user entry to be a map/struct"
            name = read_section(table_of(item, about), credentials, findings).get("user", "")
            if name in names:
                raise fault(node, f"duplicate user {quoted(name)} detected in leafnode authorization")
            names.append(name)
        return names

    table: Table = {
        **credentials,
        "nkey": ("nkey", text),
        "timeout": (UNKEPT, timeout_s("leafnode authorization config")),
        "users": ("users", users),
    }
    found = read_section(table_of(node), table, findings)
    for name, what in (("user", "user/pass"), ("nkey", "nkey")):
        if found.get("users") and found.get(name):
            raise fault(node, f"can not have a single {what} and a users array")


def check_remotes(node: Node, findings: Findings) -> None:
    def subjects(value: Node) -> None:
        read_subjects(value, queues=False)

    def proxy(value: Node) -> None:
        parts: Table = {
            **aliases("url username password", UNKEPT, text),
            "timeout": (UNKEPT, interval_ns(findings, "proxy timeout")),
        }
        read_section(table_of(value, "Expected proxy to be a map"), parts, findings)

    table: Table = {
        **aliases("no_randomize dont_randomize hub disabled ignore_discovered_servers", UNKEPT, boolean),
        **aliases("isolate_leafnode_interest isolate request_isolation", UNKEPT, boolean),
        **aliases("ws_compress ws_compression websocket_compress websocket_compression", UNKEPT, boolean),
        **aliases("ws_no_masking websocket_no_masking", UNKEPT, boolean),
        **aliases("url urls", UNKEPT, strings("leafnode url")),
        **aliases("account local creds credentials nkey seed", UNKEPT, text),
        "tls": (UNKEPT, tls_reader(findings)),
        **aliases("deny_imports deny_import deny_exports deny_export", UNKEPT, subjects),
        **aliases("jetstream_cluster_migrate js_cluster_migrate", UNKEPT, switch_or_map),
        "compression": (UNKEPT, lambda value: check_compression(value, findings)),
        "first_info_timeout": (UNKEPT, interval_ns(findings, "first_info_timeout")),
        "dial_timeout": (UNKEPT, interval_ns(findings, "dial_timeout")),
        "proxy": (UNKEPT, proxy),
    }
    for item in list_of(node, "Expected remotes field to be an array"):
        about = "Expected remote leafnode entry to be a map/struct"
        read_section(table_of(item, about), table, findings)
    if node.value:
        findings.not_built(node, "'remotes' of leafnodes")


def switch_or_map(node: Node) -> None:
    if not isinstance(node.value, bool | dict):
        raise fault(node, f"Expected boolean or map for jetstream_cluster_migrate, got {kind(node)}")


def check_compression(node: Node, findings: Findings) -> None:
    """A switch, a mode, or a map of a mode and thresholds."""
    if isinstance(node.value, bool | str):
        return

    def thresholds(value: Node) -> None:
        for item in list_of(value):
            duration_ns(item, "compression threshold")

    about = 'field "compression" should be a boolean or a structure'
    table: Table = {
        "mode": (UNKEPT, text),
        **aliases("rtt_thresholds thresholds rtts rtt", UNKEPT, thresholds),
    }
    read_section(table_of(node, about), table, findings)


# -- cluster, gateway, mqtt: shape only --


def name_without_spaces(what: str) -> Reader:
    def read(node: Node) -> str:
        if " " in text(node):
            raise fault(node, f"{what} name cannot contain spaces")
        return text(node)

    return read


def urls(what: str) -> Reader:
    def read(node: Node) -> tuple[str, ...]:
        items = list_of(node, f"Expected {what}s to be an array")
        for item in items:
            if not is_url(text(item).strip()):
                raise fault(item, f"error parsing {what} url [{quoted(text(item).strip())}]")
        return tuple(text(item).strip() for item in items)

    return read


def is_url(url: str) -> bool:
    """Whether it has a scheme, or is a name without one, and its port, if any, is a number."""
    scheme, has_scheme, rest = url.partition("://")
    if not has_scheme:
        return ":" not in url.split("/")[0]
    address = rest.split("/")[0].rpartition("@")[2]
    digits = address.rpartition("]")[2].partition(":")[2]
    return bool(scheme) and (not digits or digits.isdecimal())


def peer_authorization(what: str, findings: Findings) -> Reader:
    """Of the credentials that servers show each other."""

    def read(node: Node) -> dict[str, str]:
        found = read_authorization(node, findings)
        if "users" in found:
            raise fault(node, f"{what} authorization does not allow multiple users")
        if found.get("token"):
            raise fault(node, f"{what} authorization does not support tokens")
        if "default_permissions" in found:
            about = 'setting "permissions" within cluster authorization block is deprecated'
            findings.doubt(node, "authorization", about)
        return {name: found[name] for name in ("user", "password") if name in found}

    return read


def read_cluster(node: Node, findings: Findings) -> dict[str, Any]:
    """The block as fields of `ClusterSettings`."""

    def ping_interval(value: Node) -> None:
        if interval_ns(findings, "ping_interval")(value) > ROUTE_PING_MAX_NS:
            about = f"Cluster 'ping_interval' will reset to {format_duration(ROUTE_PING_MAX_NS)}"
            findings.doubt_plainly(value, f"{about} which is the max for routes")

    table: Table = {
        **listen_table(),
        "name": ("name", name_without_spaces("cluster")),
        "authorization": ("authorization", peer_authorization("Cluster", findings)),
        "routes": ("routes", urls("route")),
        "tls": (UNKEPT, tls_reader(findings)),
        **aliases("cluster_advertise advertise", "advertise", text),
        "no_advertise": ("no_advertise", boolean),
        "connect_retries": ("connect_retries", integer),
        "connect_backoff": (UNKEPT, boolean),
        "permissions": (UNKEPT, permissions_reader(findings)),
        "pool_size": (UNKEPT, integer),
        "accounts": (UNKEPT, strings("accounts")),
        "compression": (UNKEPT, lambda value: check_compression(value, findings)),
        "ping_interval": (UNKEPT, ping_interval),
        "ping_max": (UNKEPT, integer),
        "write_deadline": (UNKEPT, interval_ns(findings, "write_deadline")),
        "write_timeout": (UNKEPT, write_timeout),
    }
    found = read_section(table_of(node, "Expected map to define cluster"), table, findings)
    found.update(found.pop("authorization", {}))
    for_listen(found)
    if found:
        findings.not_built(node, "'cluster'")
    return found


def check_gateway(node: Node, findings: Findings) -> None:
    def remotes(value: Node) -> None:
        table: Table = {
            "name": (UNKEPT, text),
            "tls": (UNKEPT, tls_reader(findings)),
            "url": (UNKEPT, text),
            "urls": (UNKEPT, urls("gateway")),
        }
        for item in list_of(value, "Expected gateways field to be an array"):
            read_section(table_of(item, "Expected gateway entry to be a map/struct"), table, findings)

    table: Table = {
        **listen_table(),
        "name": (UNKEPT, name_without_spaces("gateway")),
        "authorization": (UNKEPT, peer_authorization("Gateway", findings)),
        "tls": (UNKEPT, tls_reader(findings)),
        "advertise": (UNKEPT, text),
        "connect_retries": (UNKEPT, integer),
        "connect_backoff": (UNKEPT, boolean),
        "gateways": (UNKEPT, remotes),
        **aliases("reject_unknown reject_unknown_cluster", UNKEPT, boolean),
        "write_deadline": (UNKEPT, interval_ns(findings, "write_deadline")),
        "write_timeout": (UNKEPT, write_timeout),
    }
    read_section(table_of(node, "Expected gateway to be a map"), table, findings)
    findings.not_built(node, "'gateway'")


def check_mqtt(node: Node, findings: Findings) -> None:
    def authorization(value: Node) -> None:
        parts: Table = {
            **aliases("user username pass password token", UNKEPT, text),
            "timeout": (UNKEPT, timeout_s("mqtt authorization")),
        }
        read_section(table_of(value), parts, findings)

    def max_ack_pending(value: Node) -> None:
        if not 0 <= integer(value) <= 0xFFFF:
            raise fault(value, f"invalid value {integer(value)}, should in [0..{0xFFFF}] range")

    table: Table = {
        **listen_table(),
        "tls": (UNKEPT, tls_reader(findings)),
        **aliases("authorization authentication", UNKEPT, authorization),
        **aliases("no_auth_user js_domain", UNKEPT, text),
        **aliases("ack_wait ackwait", UNKEPT, interval_ns(findings, "ack_wait")),
        **aliases("js_api_timeout api_timeout", UNKEPT, interval_ns(findings, "js_api_timeout")),
        **aliases("max_ack_pending max_pending max_inflight", UNKEPT, max_ack_pending),
        **aliases("stream_replicas consumer_replicas", UNKEPT, integer),
        **aliases("consumer_memory_storage reject_qos2_publish downgrade_qos2_subscribe", UNKEPT, boolean),
        **aliases(
            "consumer_inactive_threshold consumer_auto_cleanup",
            UNKEPT,
            interval_ns(findings, "consumer_inactive_threshold"),
        ),
    }
    read_section(table_of(node, "Expected mqtt to be a map"), table, findings)
    findings.not_built(node, "'mqtt'")
