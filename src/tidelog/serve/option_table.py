"""The options of the configuration file: which keys there are, what they mean, and which are refused.

`read_options` turns a tree into `Found`: the value of every option that is set, by a name such as `port` or
`limits.max_payload`. Flags are read into the same names (`serve.flag`) and laid over; `serve.option_build`
adds the defaults.

What nats-server has and we do not is accepted with a warning where to overlook it is harmless, and refused
where it is not (operators and their JWTs, callouts, encryption).
"""

from typing import Any

from tidelog.base.duration import format_duration
from tidelog.base.errors import ConfigError
from tidelog.serve.conf import Node, Tree
from tidelog.serve.field import (
    INT32_MAX,
    SECOND_NS,
    UNKEPT,
    Findings,
    Reader,
    Table,
    aliases,
    boolean,
    duration_ns,
    fault,
    integer,
    interval_ns,
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
)
from tidelog.serve.option_account import mappings_reader, read_accounts
from tidelog.serve.option_cold import read_cold
from tidelog.serve.option_listener import (
    check_gateway,
    check_mqtt,
    read_cluster,
    read_leafnodes,
    read_websocket,
    write_timeout,
)
from tidelog.serve.option_stream import read_jetstream, read_sync
from tidelog.serve.option_tls import tls_reader
from tidelog.serve.option_user import read_authorization

SUB_TOKENS_MAX = 255
LAME_DUCK_MIN_NS = 30 * SECOND_NS
# What the exporter that most Grafana boards are made for calls its metrics.
COMPAT_PREFIX = "gnatsd"

# The values of the options that are set, by name.
Found = dict[str, Any]

# Blocks that flags may change in part: their options become names with the block's as a prefix.
BLOCKS = ("authorization", "jetstream", "cluster")

# -- readers of single options --


def int32(key: str) -> Reader:
    def read(node: Node) -> int:
        if integer(node) > INT32_MAX:
            raise fault(node, f"{key} value is too big")
        return integer(node)

    return read


def max_connections(node: Node) -> int:
    return integer(node) or -1  # 0 is nobody


def at_least_zero(node: Node) -> int:
    return max(0, integer(node))


def max_sub_tokens(node: Node) -> int:
    if integer(node) > SUB_TOKENS_MAX:
        raise fault(node, "max_sub_tokens value is too big")
    if integer(node) <= 0:
        raise fault(node, "max_sub_tokens value can not be negative")
    return integer(node)


def server_name(node: Node) -> str:
    if " " in text(node):
        raise fault(node, "server name cannot contain spaces")
    return text(node)


def lame_duck_duration_s(node: Node) -> float:
    ns = duration_ns(node, "lame_duck_duration")
    if ns < LAME_DUCK_MIN_NS:
        about = f"invalid lame_duck_duration of {format_duration(ns)}, minimum is 30 seconds"
        raise fault(node, about)
    return ns / SECOND_NS


def lame_duck_grace_s(node: Node) -> float:
    ns = duration_ns(node, "lame_duck_grace_period")
    if ns < 0:
        raise fault(node, "invalid lame_duck_grace_period, needs to be positive")
    return ns / SECOND_NS


def tags(node: Node) -> tuple[str, ...]:
    found = (tag.strip().lower() for tag in strings("tags")(node))
    return tuple(dict.fromkeys(tag for tag in found if tag))


def refused(what: str) -> Reader:
    def read(node: Node) -> None:
        raise fault(node, f"{what} is not supported, and the server would let in others than it asks for")

    return read


def refuse_proxy_protocol(node: Node) -> None:
    if boolean(node):
        raise fault(node, "proxy_protocol is not supported: no client could connect through the proxy")


def check_proxies(node: Node, findings: Findings) -> bool:
    def key(value: Node) -> str:
        # Only configurations with keys pay for what this imports.
        from tidelog.broker.nkey import Kind, is_public

        if not any(is_public(text(value), kind) for kind in Kind):
            raise fault(value, f"invalid proxy key {quoted(text(value))}")
        return text(value)

    def trusted(value: Node) -> None:
        for item in list_of(value, "expected proxies' trusted field to be an array"):
            about = "expected proxies' trusted entry to be a map/struct"
            try:
                read_section(table_of(item, about), aliases("key public_key", UNKEPT, key), findings)
            except ConfigError as error:
                findings.add(error)

    tree = table_of(node, "expected proxies to be a map/struct")
    read_section(tree, {"trusted": (UNKEPT, trusted)}, findings)
    return bool(tree)


def compat_metrics(node: Node) -> str:
    if isinstance(node.value, bool):
        return COMPAT_PREFIX if node.value else ""
    return text(node)


def read_own(node: Node, findings: Findings) -> dict[str, Any]:
    rows: Table = {
        "compat_metrics": ("compat_metrics", compat_metrics),
        "sync": ("sync", lambda item: read_sync(item, findings)),
        "cold": ("cold", lambda item: read_cold(item, findings)),
    }
    return read_section(table_of(node, "Expected tidelog to be a map"), rows, findings)


# -- the table --


def option_table(findings: Findings) -> Table:
    """Every key of the top level: the name of the option, and its reader."""

    def not_built(what: str, reader: Reader) -> Reader:
        def read(node: Node) -> None:
            if reader(node):
                findings.not_built(node, f"'{what}'")

        return read

    def switches(node: Node) -> bool:
        for name, value in table_of(node, "error parsing feature flags: unsupported type").items():
            if not isinstance(value.value, bool):
                about = f"error parsing feature flag {quoted(name)}: expected bool, got {kind(value)}"
                findings.add(fault(value, about))
        return bool(node.value)

    return {
        # Listeners
        "listen": ("listen", listen),
        "port": ("port", port),
        **aliases("host net", "host", text),
        "client_advertise": ("client_advertise", text),
        "tls": ("tls", tls_reader(findings)),
        "allow_non_tls": ("allow_non_tls", boolean),
        **aliases("websocket ws", "websocket", lambda node: read_websocket(node, findings)),
        **aliases("leaf leafnodes", "leafnode", lambda node: read_leafnodes(node, findings)),
        "proxy_protocol": (UNKEPT, refuse_proxy_protocol),
        # The server
        "server_name": ("broker.server_name", server_name),
        "server_tags": ("broker.tags", tags),
        "server_metadata": ("broker.metadata", string_map("metadata")),
        **aliases("pid_file pidfile", "pid_file", text),
        "ports_file_dir": ("ports_file_dir", text),
        "lame_duck_duration": ("lame_duck_duration_s", lame_duck_duration_s),
        "lame_duck_grace_period": ("lame_duck_grace_s", lame_duck_grace_s),
        "tidelog": ("own", lambda node: read_own(node, findings)),
        # Monitoring
        "http": ("http", listen),
        "https": ("https", listen),
        **aliases("http_port monitor_port", "http_port", port),
        "https_port": ("https_port", port),
        "http_base_path": ("http_base_path", text),
        "prof_port": ("prof_port", port),
        "prof_block_rate": (UNKEPT, integer),
        # The log
        "debug": ("log.debug", boolean),
        "trace": ("log.trace", boolean),
        "trace_verbose": ("trace_verbose", boolean),
        "trace_headers": ("trace_headers", boolean),
        "logtime": ("log.time", boolean),
        "logtime_utc": ("log.utc", boolean),
        **aliases("log_file logfile", "log.file", text),
        **aliases("log_size_limit logfile_size_limit", "log.size_limit", at_least_zero),
        **aliases("log_max_num logfile_max_num", "log.max_num", at_least_zero),
        "syslog": ("log.syslog", boolean),
        "remote_syslog": ("log.remote_syslog", text),
        # Limits
        "max_control_line": ("limits.max_control_line", int32("max_control_line")),
        "max_payload": ("limits.max_payload", int32("max_payload")),
        "max_pending": ("limits.max_pending", integer),
        **aliases("max_connections max_conn", "limits.max_connections", max_connections),
        **aliases("max_subscriptions max_subs", "limits.max_subscriptions", at_least_zero),
        **aliases("max_sub_tokens max_subscription_tokens", "limits.max_sub_tokens", max_sub_tokens),
        "max_traced_msg_len": ("limits.max_traced_msg_len", at_least_zero),
        "max_closed_clients": ("limits.max_closed_clients", integer),
        "ping_interval": ("limits.ping_interval_ns", interval_ns(findings, "ping_interval")),
        "ping_max": ("limits.ping_max", integer),
        "write_deadline": ("limits.write_deadline_ns", interval_ns(findings, "write_deadline")),
        "write_timeout": (UNKEPT, not_built("write_timeout", lambda node: write_timeout(node) == "retry")),
        "no_fast_producer_stall": ("limits.no_fast_producer_stall", boolean),
        "no_header_support": ("no_headers", boolean),
        # Who may come in
        "authorization": ("authorization", lambda node: read_authorization(node, findings)),
        "accounts": ("accounts", lambda node: read_accounts(node, findings)),
        "no_auth_user": ("authorization.no_auth_user", text),
        **aliases("mappings maps", "mappings", mappings_reader(findings)),
        **aliases("system_account system", "system_account", text),
        **aliases("no_system_account no_system no_sys_acc", "no_system_account", boolean),
        **aliases(
            "operator operators root roots root_operator root_operators", UNKEPT, refused("operator mode")
        ),
        **aliases("trusted trusted_keys", UNKEPT, refused("operator mode (trusted keys)")),
        **aliases("resolver account_resolver accounts_resolver", UNKEPT, refused("an account resolver")),
        **aliases("resolver_tls resolver_preload resolver_pinned_accounts", UNKEPT, refused("a resolver")),
        "default_sentinel": (UNKEPT, not_built("default_sentinel", text)),
        "proxies": (UNKEPT, not_built("proxies", lambda node: check_proxies(node, findings))),
        # Not built
        "cluster": ("cluster", lambda node: read_cluster(node, findings)),
        "gateway": (UNKEPT, lambda node: check_gateway(node, findings)),
        "mqtt": (UNKEPT, lambda node: check_mqtt(node, findings)),
        "jetstream": ("jetstream", lambda node: read_jetstream(node, findings)),
        **aliases("store_dir storedir", "store_dir", text),
        "default_js_domain": (UNKEPT, not_built("default_js_domain", string_map("default_js_domain"))),
        "ocsp": (UNKEPT, not_built("ocsp", lambda node: node.value)),
        "ocsp_cache": (UNKEPT, not_built("ocsp_cache", lambda node: node.value)),
        "feature_flags": (UNKEPT, not_built("feature_flags", switches)),
        **aliases(
            "disable_sublist_cache no_sublist_cache", UNKEPT, not_built("disable_sublist_cache", boolean)
        ),
        **aliases("connect_error_reports reconnect_error_reports", UNKEPT, integer),
    }


def read_options(tree: Tree, findings: Findings) -> tuple[Found, dict[str, Node]]:
    """The options that a tree sets, and by their names the places where. Faults go to `findings`."""
    table = option_table(findings)
    found = read_section(tree, table, findings)
    places = {table[key.lower()][0]: node for key, node in tree.items() if key.lower() in table}
    for block in BLOCKS:
        for name, value in found.pop(block, {}).items():
            found.setdefault(f"{block}.{name}", value)
    for block in ("listen", "http", "https"):
        if block in found:
            host, number = found.pop(block)
            host_name = "host" if block == "listen" else "http_host"
            if host:
                found[host_name] = host
            found["port" if block == "listen" else f"{block}_port"] = number
    if found.get("trace_verbose") or found.get("trace_headers"):
        found["log.trace"] = True
    return found, places
