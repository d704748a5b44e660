"""Which server a command talks to, and as whom: flags, environment and contexts put together.

A value comes from the first of: the command's flag, the same flag before the command, the environment, the
context (`--context`, then NATS_CONTEXT, then the selected one), the default. A user without a password is a
token, as in the `nats` command.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from tidelog.cli import duration
from tidelog.cli.duration import DURATION
from tidelog.client.address import DEFAULT_URL
from tidelog.client.connection import DEFAULT_TIMEOUT_S, Connection, connect
from tidelog.client.context import Context, ContextStore

# Parameter: flags, variable, help.
_FLAGS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "server": (("--server", "-s"), "NATS_URL", "Server URLs, with commas between."),
    "user": (("--user",), "NATS_USER", "User, or a token when there is no password."),
    "password": (("--password",), "NATS_PASSWORD", "Password."),
    "creds": (("--creds",), "NATS_CREDS", "Credentials file."),
    "nkey": (("--nkey",), "NATS_NKEY", "File with an nkey seed."),
    "tlscert": (("--tlscert",), "NATS_CERT", "Our certificate, a PEM file."),
    "tlskey": (("--tlskey",), "NATS_KEY", "Its private key, a PEM file."),
    "tlsca": (("--tlsca",), "NATS_CA", "Trusted certificates, a PEM file."),
    "context_name": (("--context",), "NATS_CONTEXT", "Context to use."),
    "connection_name": (("--connection-name",), "", "What to call this connection."),
    "inbox_prefix": (("--inbox-prefix",), "", "First tokens of reply subjects."),
}
_META = "tidelog.connection"


@dataclass(frozen=True, slots=True)
class Target:
    """Everything `connect` wants to know. Empty: not given."""

    server: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    jwt: str = field(default="", repr=False)
    creds: str = ""
    nkey: str = ""
    tlscert: str = ""
    tlskey: str = ""
    tlsca: str = ""
    tlsfirst: bool = False
    connection_name: str = ""
    inbox_prefix: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S

    def connect(self, url: str = "") -> Connection:
        """To `url`, or to the first of the target's servers that answers."""
        return connect(
            url or self.server or DEFAULT_URL,
            name=self.connection_name or "tidelog",
            user=self.user,
            password=self.password,
            token=self.token,
            jwt=self.jwt,
            credentials_file=self.creds,
            nkey_file=self.nkey,
            tls_ca=self.tlsca,
            tls_cert=self.tlscert,
            tls_key=self.tlskey,
            tls_first=self.tlsfirst,
            inbox_prefix=self.inbox_prefix or "_INBOX",
            timeout_s=self.timeout_s,
        )


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that say where to connect. `current_target` reads them; the command does not see them."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        # `meta` is one for all commands of a line, and the outer ones come first.
        if value is not None and value is not False:
            ctx.meta.setdefault(_META, {})[param.name] = value

    def option(*names: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return click.option(*names, expose_value=False, callback=keep, **settings)

    for name, (flags, variable, words) in reversed(_FLAGS.items()):
        shown = f"{words}  [env: {variable}]" if variable else words
        function = option(*flags, name, help=shown)(function)
    words = "How long to wait for the server.  [env: NATS_TIMEOUT; default: 5s]"
    function = option("--timeout", "timeout_s", type=DURATION, help=words)(function)
    function = option("--tlsfirst", is_flag=True, help="Encrypt before the server's greeting.")(function)
    return option("--no-context", is_flag=True, help="Use no context.")(function)


def given_flags() -> Mapping[str, Any]:
    """The connection flags of this command and of those before it."""
    flags: Mapping[str, Any] = click.get_current_context().meta.get(_META, {})
    return flags


def current_target() -> Target:
    """For the running command. Raises ClientError for a context that cannot be used."""
    return resolve(given_flags(), os.environ, ContextStore())


def resolve(flags: Mapping[str, Any], environment: Mapping[str, str], store: ContextStore) -> Target:
    values = {
        name: flags.get(name) or environment.get(variable, "") for name, (_, variable, _) in _FLAGS.items()
    }
    name = "" if flags.get("no_context") else values.pop("context_name", "") or store.selected()
    values.pop("context_name", None)
    context = store.load(name).resolved() if name else Context(name="")
    # Who somebody is comes from one place: a user given by flag is not joined with the context's key.
    if any(values[key] for key in ("user", "creds", "nkey")):
        identity = {key: values[key] for key in ("user", "password", "creds", "nkey")}
        token, jwt = "", ""
    else:
        identity = {key: getattr(context, key) for key in ("user", "password", "creds", "nkey")}
        identity["password"] = values["password"] or context.password
        token, jwt = context.token, context.user_jwt
    if identity["user"] and not identity["password"]:
        token, identity["user"] = identity["user"], ""
    timeout = environment.get("NATS_TIMEOUT", "")
    return Target(
        server=values["server"] or context.url,
        token=token,
        jwt=jwt,
        tlscert=values["tlscert"] or context.cert,
        tlskey=values["tlskey"] or context.key,
        tlsca=values["tlsca"] or context.ca,
        tlsfirst=bool(flags.get("tlsfirst")) or context.tls_first,
        connection_name=values["connection_name"],
        inbox_prefix=values["inbox_prefix"] or context.inbox_prefix,
        timeout_s=flags.get("timeout_s") or (duration.parse(timeout) if timeout else DEFAULT_TIMEOUT_S),
        **identity,
    )
