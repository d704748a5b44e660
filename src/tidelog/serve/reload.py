"""What a changed configuration changes in a running server, and whether it may: all of it, or nothing.

`plan` compares two `Options` field by field. Each difference falls under the rule with the longest matching
path; a rule says what takes effect, or why nothing can. One refused difference refuses the reload: the old
Options stay in force as a whole. The same rules make up the table in docs/reference/reload.md.

Promises: no secret stands in a plan, only that it changed. Every option has a rule (a test sees to it). A
refusal reads as nats-server's: `config reload not supported for X: old=..., new=...`.

It only compares. Files (certificates) may have changed behind equal options: who applies a plan reads them
anew, whether the plan names them or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tidelog.base.duration import format_duration
from tidelog.base.record import Record
from tidelog.serve.field import SECOND_NS
from tidelog.serve.options import ANY_PORT, Options

REDACTED = "[REDACTED]"


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Record):
    """`path` in Options, `key` in the file, `peer`: nats-server's name. `effect`: what a reload does, or why not."""

    path: str
    key: str
    peer: str
    effect: str
    reloadable: bool = True
    grows: bool = False  # a number that may not become less, and may not begin or cease to be given


def fixed(path: str, key: str, peer: str, reason: str) -> Rule:
    return Rule(path, key, peer, reason, reloadable=False)


BOUND = "the socket is bound at start"
NEW_CONNECTIONS = "holds for new connections"
NOT_BUILT = "no effect: not built yet"
USERS_CHECKED = "clients that may no longer come in get `Authorization Violation` and are closed"

RULES = (
    fixed("host", "host", "Host", BOUND),
    fixed("port", "port", "Port", BOUND + "; -1 keeps the port in use"),
    Rule("client_advertise", "client_advertise", "ClientAdvertise", "in INFO from now on"),
    Rule("tls", "tls", "TLSConfig", NEW_CONNECTIONS + "; certificate files are read anew at every reload"),
    Rule("allow_non_tls", "allow_non_tls", "AllowNonTLS", NEW_CONNECTIONS),
    fixed("websocket", "websocket", "Websocket", BOUND + ", and its answers are prepared"),
    Rule(
        "websocket.tls",
        "websocket.tls",
        "Websocket",
        NEW_CONNECTIONS + "; files are read anew at every reload",
    ),
    fixed("leafnode", "leafnodes", "LeafNode", BOUND),
    Rule(
        "leafnode.tls", "leafnodes.tls", "LeafNode", NEW_CONNECTIONS + "; files are read anew at every reload"
    ),
    Rule("cluster", "cluster", "Cluster", NOT_BUILT),
    Rule("jetstream.enabled", "jetstream", "JetStream", "streams are opened, or closed and kept"),
    fixed("jetstream.store_dir", "jetstream.store_dir", "StoreDir", "streams are open there"),
    fixed("jetstream.domain", "jetstream.domain", "JetStreamDomain", "clients know the server by it"),
    Rule(
        "jetstream.max_memory_size",
        "jetstream.max_mem",
        "JetStreamMaxMemory",
        "at once; may only grow",
        grows=True,
    ),
    Rule(
        "jetstream.max_file_size",
        "jetstream.max_file",
        "JetStreamMaxStore",
        "at once; may only grow",
        grows=True,
    ),
    fixed("jetstream.sync", "tidelog.sync", "SyncPolicy", "open logs follow it"),
    fixed("jetstream.cold", "tidelog.cold", "Cold", "open logs follow it"),
    fixed("jetstream.sync_interval_s", "jetstream.sync_interval", "SyncInterval", "open logs follow it"),
    fixed("jetstream.sync_always", "jetstream.sync_interval", "SyncAlways", "open logs follow it"),
    Rule("jetstream.strict", "jetstream.strict", "NoJetStreamStrict", "at once"),
    Rule("jetstream", "jetstream.limits", "JetStreamLimits", "for what is made or changed from now on"),
    fixed("http_host", "http", "HTTPHost", BOUND),
    fixed("http_port", "http_port", "HTTPPort", BOUND),
    fixed("https_port", "https_port", "HTTPSPort", BOUND),
    fixed("http_base_path", "http_base_path", "HTTPBasePath", "boards and probes hold addresses under it"),
    Rule("compat_metrics", "tidelog.compat_metrics", "CompatMetrics", "from the next scrape"),
    Rule("log.debug", "debug", "Debug", "at once"),
    Rule("log.trace", "trace", "Trace", "at once"),
    Rule("trace_verbose", "trace_verbose", "TraceVerbose", "at once"),
    Rule("trace_headers", "trace_headers", "TraceHeaders", "at once"),
    Rule("log.time", "logtime", "Logtime", "at once"),
    Rule("log.utc", "logtime_utc", "LogtimeUTC", "at once"),
    Rule("log.file", "log_file", "LogFile", "the new file is opened, then the old one closed"),
    Rule("log.size_limit", "log_size_limit", "LogSizeLimit", "at once"),
    Rule("log.max_num", "log_max_num", "LogMaxFiles", "at the next rotation"),
    Rule("log.syslog", "syslog", "Syslog", "at once"),
    Rule("log.remote_syslog", "remote_syslog", "RemoteSyslog", "at once"),
    fixed("pid_file", "pid_file", "PidFile", "written at start, removed at the end"),
    fixed("ports_file_dir", "ports_file_dir", "PortsFileDir", "written at start, removed at the end"),
    Rule("prof_port", "prof_port", "ProfPort", NOT_BUILT),
    Rule("lame_duck_duration_s", "lame_duck_duration", "LameDuckDuration", "for the next lame duck mode"),
    Rule("lame_duck_grace_s", "lame_duck_grace_period", "LameDuckGracePeriod", "for the next lame duck mode"),
    fixed("broker.server_name", "server_name", "ServerName", "clients and peers know the server by it"),
    fixed("broker.headers", "no_header_support", "NoHeaderSupport", "clients were told at connect"),
    Rule("broker.tags", "server_tags", "Tags", "at once"),
    Rule("broker.metadata", "server_metadata", "Metadata", "at once"),
    fixed("broker.system_account", "system_account", "SystemAccount", "its events have receivers"),
    Rule("broker.accounts", "accounts", "Accounts", "clients of accounts that are gone are closed"),
    Rule("broker.authorization", "authorization", "Authorization", USERS_CHECKED),
    Rule(
        "broker.authorization.users",
        "users, permissions",
        "Users",
        USERS_CHECKED + "; subscriptions that are no longer allowed end with a permissions violation",
    ),
    Rule("broker.authorization.timeout_ns", "authorization.timeout", "AuthTimeout", NEW_CONNECTIONS),
    Rule("broker.authorization.no_auth_user", "no_auth_user", "NoAuthUser", USERS_CHECKED),
    Rule("broker.limits.max_control_line", "max_control_line", "MaxControlLine", "at once"),
    Rule("broker.limits.max_payload", "max_payload", "MaxPayload", "at once; clients get a new INFO"),
    Rule("broker.limits.max_pending", "max_pending", "MaxPending", "at the next message for a client"),
    Rule("broker.limits.max_connections", "max_connections", "MaxConn", "the youngest above it are closed"),
    Rule("broker.limits.max_subscriptions", "max_subscriptions", "MaxSubs", "for new subscriptions"),
    Rule("broker.limits.max_sub_tokens", "max_sub_tokens", "MaxSubTokens", "for new subscriptions"),
    Rule("broker.limits.max_traced_msg_len", "max_traced_msg_len", "MaxTracedMsgLen", "at once"),
    Rule("broker.limits.max_closed_clients", "max_closed_clients", "MaxClosedClients", "at once"),
    Rule("broker.limits.ping_interval_ns", "ping_interval", "PingInterval", "from a client's next ping on"),
    Rule("broker.limits.ping_max", "ping_max", "MaxPingsOut", "from a client's next ping on"),
    Rule("broker.limits.write_deadline_ns", "write_deadline", "WriteDeadline", "for writes that begin later"),
    Rule("broker.limits.no_fast_producer_stall", "no_fast_producer_stall", "NoFastProducerStall", "at once"),
)
RULE_BY_PATH = {rule.path: rule for rule in RULES}


@dataclass(frozen=True, eq=False, repr=False)
class Change(Record):
    """One difference, in words that may be logged."""

    option: str
    old: str
    new: str
    rule: Rule

    def __str__(self) -> str:
        """As nats-server logs it: `debug = true`, or why it is refused."""
        if not self.rule.reloadable:
            about = f"config reload not supported for {self.rule.peer}"
            return f"{about}: old={self.old}, new={self.new} ({self.rule.effect})"
        return self.option if self.new in ("", REDACTED) else f"{self.option} = {self.new}"


@dataclass(frozen=True, eq=False, repr=False)
class ReloadPlan(Record):
    """`options` are to be in force afterwards: the new ones, or, if anything was refused, the old."""

    applied: tuple[Change, ...]
    refused: tuple[Change, ...]
    options: Options


def plan(old: Options, new: Options) -> ReloadPlan:
    """What follows from running by `new` instead of `old`."""
    if new.port == ANY_PORT:  # any port will do, so the one in use does
        new = replace(new, port=old.port)
    applied: list[Change] = []
    refused: list[Change] = []
    for path, before, after, is_secret in differences(old, new):
        rule = rule_of(path)
        if rule.grows and not (isinstance(before, int) and isinstance(after, int) and 0 <= before <= after):
            rule = replace(rule, reloadable=False)
        change = Change(option_name(rule, path), *shown(path, before, after, is_secret=is_secret), rule)
        (applied if rule.reloadable else refused).append(change)
    if refused:
        return ReloadPlan((), tuple(refused), old)
    return ReloadPlan(tuple(applied), (), new)


def differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, object, object, bool]]:
    """Path, values, and whether they are secret, of all that two settings of one class differ in."""
    for field in fields(old):
        if not field.compare or field.name in ("config_file", "config_digest"):
            continue
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        path = prefix + field.name
        if is_dataclass(before) and before.__class__ is after.__class__:
            yield from differences(before, after, path + ".")
        else:
            yield path, before, after, not field.repr


def rule_of(path: str) -> Rule:
    """The rule with the longest path that holds for this one."""
    while path not in RULE_BY_PATH:
        path, dot, _ = path.rpartition(".")
        assert dot, "every option has a rule"
    return RULE_BY_PATH[path]


def option_name(rule: Rule, path: str) -> str:
    """As it is called in the file, as far as the rule tells."""
    rest = path[len(rule.path) :]
    for unit in ("_ns", "_s"):
        rest = rest.removesuffix(unit)
    return rule.key + rest


def shown(path: str, before: object, after: object, *, is_secret: bool) -> tuple[str, str]:
    if is_secret:
        return REDACTED, REDACTED
    return in_word(path, before), in_word(path, after)


def in_word(path: str, value: object) -> str:
    """A value as messages show it. Structures, which may hold secrets, are counted, not shown."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and path.endswith(("_ns", "_s")):
        return format_duration(int(value) if path.endswith("_ns") else round(value * SECOND_NS))
    if isinstance(value, tuple | frozenset):
        items = sorted(value) if isinstance(value, frozenset) else value
        if all(isinstance(item, str) for item in items):
            return f"[{' '.join(map(str, items))}]"
        return f"{len(items)} entries"
    if value is None:
        return "disabled"
    return "enabled" if is_dataclass(value) else str(value)


def rule_table() -> str:
    """The rules as a Markdown table."""
    lines = ["| option | reload | |", "| --- | --- | --- |"]
    for rule in sorted(RULES, key=lambda rule: (not rule.reloadable, rule.key)):
        names = ", ".join(f"`{name}`" for name in rule.key.split(", "))
        lines.append(f"| {names} | {'yes' if rule.reloadable else 'no'} | {rule.effect} |")
    return "\n".join(lines) + "\n"
