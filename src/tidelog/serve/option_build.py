"""Options out of what file and flags say: defaults are added, and what no single option can tell is checked.

That users are named once, that the one who needs no password exists, that limits fit each other, that a
listener has what it needs. Faults carry the place of the option in the file; what a flag is to blame for has
no place.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidelog.base.duration import format_duration
from tidelog.broker.settings import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountSettings,
    Authorization,
    BrokerSettings,
    Limits,
    User,
)
from tidelog.serve.conf import Node
from tidelog.serve.field import SECOND_NS, Findings, fault, quoted
from tidelog.serve.log import LogSettings
from tidelog.serve.option_account import PlacedUser
from tidelog.serve.option_table import Found
from tidelog.serve.options import ClusterSettings, ColdSettings, JetStreamSettings, Options, WebsocketSettings

# Larger messages hold up all others on the same connections.
PAYLOAD_DISCOURAGED_SIZE = 8 * 1024 * 1024
BCRYPT_PREFIX = "$2a$"

# 0, and the empty string, mean the default.
ZERO_IS_DEFAULT = (
    *("host", "port", "lame_duck_duration_s", "lame_duck_grace_s", "limits.max_control_line"),
    *("limits.max_payload", "limits.max_pending", "limits.max_closed_clients", "limits.ping_interval_ns"),
    *("limits.ping_max", "limits.write_deadline_ns"),
)


class Builder:
    """The checks over several options, and the place to complain about each."""

    def __init__(self, found: Found, places: Mapping[str, Node], findings: Findings, path: str) -> None:
        self.found = {name: value for name, value in found.items() if value or name not in ZERO_IS_DEFAULT}
        self.places = places
        self.findings = findings
        self.nowhere = Node("", path, 0, 0)

    def place(self, *names: str) -> Node:
        return next((self.places[name] for name in names if name in self.places), self.nowhere)

    def fail(self, message: str, *names: str) -> None:
        self.findings.add(fault(self.place(*names), message))

    def section(self, prefix: str) -> dict[str, Any]:
        """The options under a prefix, which are taken out."""
        names = [name for name in self.found if name.startswith(prefix + ".")]
        return {name[len(prefix) + 1 :]: self.found.pop(name) for name in names}

    def authorization(self, placed: tuple[PlacedUser, ...]) -> Authorization:
        found = self.section("authorization")
        has_list = "users" in found or bool(placed)
        own: tuple[User, ...] = found.pop("users", ())
        if "authorization" in self.places:
            if (found.get("user") or found.get("password")) and found.get("token"):
                self.fail("Cannot have a user/pass and token", "authorization")
            elif has_list and found.get("user"):
                self.fail("Can not have a single user/pass and a users array", "authorization")
            elif has_list and found.get("token"):
                self.fail("Can not have a token and a users array", "authorization")
        seen: set[str] = set()
        for user, node in (*placed, *((user, self.place("authorization")) for user in own)):
            what, name = ("nkey", user.nkey) if user.nkey else ("user", user.name)
            if name in seen:
                self.findings.add(fault(node, f"Duplicate {what} {quoted(name)} detected"))
            seen.add(name)
        tls = self.found.get("tls")
        if tls is not None:
            found["verify_and_map"] = tls.verify_and_map
            found.setdefault("timeout_ns", round((tls.timeout_s + 1) * SECOND_NS))
        authorization = Authorization(**found, users=(*own, *(user for user, _ in placed)))
        self.check_no_auth_user(authorization.no_auth_user, seen, "authorization.no_auth_user")
        if any_plain_password(authorization):
            self.findings.warnings.append("Plaintext passwords detected, use nkeys or bcrypt")
        return authorization

    def check_no_auth_user(self, name: str, users: set[str], place: str) -> None:
        if name and not users:
            self.fail(f'no_auth_user: "{name}" present, but users/nkeys are not defined', place)
        elif name and name not in users:
            about = "not present as user or nkey in authorization block or account configuration"
            self.fail(f'no_auth_user: "{name}" {about}', place)

    def broker(self) -> BrokerSettings:
        accounts, placed = self.found.pop("accounts", ((), ()))
        mappings = self.found.pop("mappings", ())
        if mappings:
            accounts = (*accounts, AccountSettings(GLOBAL_ACCOUNT, mappings=mappings))
        system_account = self.found.pop("system_account", "")
        known = {account.name for account in accounts} | {SYSTEM_ACCOUNT}
        if system_account and system_account not in known:
            self.fail("error resolving system account: account missing", "system_account")
        if self.found.pop("no_system_account", False):
            system_account = ""
        else:
            system_account = system_account or SYSTEM_ACCOUNT
        return BrokerSettings(
            **self.section("broker"),
            limits=Limits(**self.section("limits")),
            authorization=self.authorization(placed),
            accounts=accounts,
            system_account=system_account,
            headers=not self.found.pop("no_headers", False),
        )

    def jetstream(self, sync: str, cold: ColdSettings) -> JetStreamSettings:
        settings = JetStreamSettings(**self.section("jetstream"), sync=sync, cold=cold)
        store_dir = self.found.pop("store_dir", "")
        if store_dir and settings.store_dir:
            self.fail("Duplicate 'store_dir' configuration", "store_dir")
        return replace(settings, store_dir=settings.store_dir or store_dir)

    def options(self, config_file: str, config_digest: str) -> Options:
        broker = self.broker()
        own = self.found.pop("own", {})
        self.found["compat_metrics"] = own.get("compat_metrics", "")
        jetstream = self.jetstream(own.get("sync", ""), ColdSettings(**own.get("cold", {})))
        cluster = ClusterSettings(**self.section("cluster"))
        log = LogSettings(**self.section("log"))
        self.found["http_base_path"] = base_path(self.found.get("http_base_path", ""))
        options = Options(
            **self.found,
            broker=broker,
            jetstream=jetstream,
            cluster=cluster,
            log=log,
            config_file=config_file,
            config_digest=config_digest,
        )
        self.check(options)
        self.check_websocket(options.websocket, broker.authorization)
        return options

    def check(self, options: Options) -> None:
        limits = options.broker.limits
        if options.lame_duck_grace_s >= options.lame_duck_duration_s:
            grace, duration = (
                format_duration(round(seconds * SECOND_NS))
                for seconds in (options.lame_duck_grace_s, options.lame_duck_duration_s)
            )
            about = f"lame duck grace period ({grace}) should be strictly lower than lame duck duration"
            self.fail(f"{about} ({duration})", "lame_duck_grace_s", "lame_duck_duration_s")
        if limits.max_payload > limits.max_pending:
            about = f"max_payload ({limits.max_payload}) cannot be higher than max_pending"
            self.fail(f"{about} ({limits.max_pending})", "limits.max_payload", "limits.max_pending")
        if limits.max_payload > PAYLOAD_DISCOURAGED_SIZE:
            about = "are generally discouraged and could lead to poor performance"
            self.findings.warnings.append(f"Maximum payloads over 8.00 MB {about}")
        if options.http_port and options.https_port:
            about = f"can't specify both HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
            self.fail(about, "https_port", "https", "http_port", "http")
        if options.https_port and options.tls is None:
            self.fail("TLS cert and key required for HTTPS", "https_port", "https")
        if options.prof_port:
            self.findings.warnings.append("'prof_port' is accepted but not yet built")
        advertise = options.client_advertise
        if advertise.count(":") > 1 and not advertise.startswith("["):
            self.fail(f"address {advertise}: too many colons in address", "client_advertise")

    def check_websocket(self, settings: WebsocketSettings, authorization: Authorization) -> None:
        if not settings.port:
            return
        names = {user.nkey or user.name for user in authorization.users}
        self.check_no_auth_user(settings.no_auth_user, names, "websocket")
        about = "not compatible with presence of users/nkeys"
        if names and settings.user:
            self.fail(f"websocket authentication username {about}", "websocket")
        if names and settings.token:
            self.fail(f"websocket authentication token {about}", "websocket")


def build_options(
    found: Found,
    places: Mapping[str, Node],
    findings: Findings,
    config_file: str = "",
    config_digest: str = "",
) -> Options:
    """Options out of what file and flags say. ConfigError: all faults that were found, in reading or here."""
    findings.finish()
    options = Builder(found, places, findings, config_file).options(config_file, config_digest)
    findings.finish()
    return replace(options, warnings=tuple(findings.warnings), doubts=tuple(findings.doubts))


def any_plain_password(authorization: Authorization) -> bool:
    secrets = [authorization.password, authorization.token, *(user.password for user in authorization.users)]
    return any(secret and not secret.startswith(BCRYPT_PREFIX) for secret in secrets)


def base_path(path: str) -> str:
    """With a slash before it and none behind."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)
