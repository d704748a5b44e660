"""The command line: nats-server's flags, parsed as Go parses them, and how Options come of them and the file.

One or two dashes are the same. `-f value` and `-f=value`; a switch takes its value only with `=`. The first
word that is no flag ends them; it may be `version` or `help`. The last of several wins, and flags win over
the file.

`parse_arguments` says what is to be done, `load` reads the file and returns Options. Neither prints, exits or
sends signals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import Node, parse_file
from tidelog.serve.digest import config_digest
from tidelog.serve.field import PORT_MAX, Findings, quoted
from tidelog.serve.option_build import build_options
from tidelog.serve.option_table import Found, read_options
from tidelog.serve.option_tls import tls_from_flags
from tidelog.serve.options import Options

Action = Literal["serve", "version", "help", "help_tls", "test_config", "signal"]

TRUE_WORDS = ("1", "t", "T", "true", "TRUE", "True")
FALSE_WORDS = ("0", "f", "F", "false", "FALSE", "False")

# Flag to option name. A flag that stands for several switches names them with commas.
SWITCHES = {
    "h": "help",
    "help": "help",
    "v": "version",
    "version": "version",
    "help_tls": "help_tls",
    "t": "test_config",
    "D": "log.debug",
    "debug": "log.debug",
    "V": "log.trace",
    "trace": "log.trace",
    "VV": "log.trace,trace_verbose",
    "DV": "log.debug,log.trace",
    "DVV": "log.debug,log.trace,trace_verbose",
    "T": "log.time",
    "logtime": "log.time",
    "logtime_utc": "log.utc",
    "s": "log.syslog",
    "syslog": "log.syslog",
    "js": "jetstream.enabled",
    "jetstream": "jetstream.enabled",
    "no_advertise": "cluster.no_advertise",
    "tls": "tls.on",
    "tlsverify": "tls.verify",
}
NUMBERS = {
    "p": "port",
    "port": "port",
    "m": "http_port",
    "http_port": "http_port",
    "ms": "https_port",
    "https_port": "https_port",
    "log_size_limit": "log.size_limit",
    "max_traced_msg_len": "limits.max_traced_msg_len",
    "connect_retries": "cluster.connect_retries",
    "profile": "prof_port",
}
TEXTS = {
    "a": "host",
    "addr": "host",
    "net": "host",
    "n": "broker.server_name",
    "name": "broker.server_name",
    "server_name": "broker.server_name",
    "P": "pid_file",
    "pid": "pid_file",
    "ports_file_dir": "ports_file_dir",
    "client_advertise": "client_advertise",
    "c": "config_file",
    "config": "config_file",
    "sl": "signal",
    "signal": "signal",
    "l": "log.file",
    "log": "log.file",
    "r": "log.remote_syslog",
    "remote_syslog": "log.remote_syslog",
    "sd": "jetstream.store_dir",
    "store_dir": "jetstream.store_dir",
    "user": "authorization.user",
    "pass": "authorization.password",
    "auth": "authorization.token",
    "tlscert": "tls.cert_file",
    "tlskey": "tls.key_file",
    "tlscacert": "tls.ca_file",
    "routes": "routes",
    "cluster": "cluster_listen",
    "cluster_listen": "cluster_listen",
    "cluster_name": "cluster.name",
    "cluster_advertise": "cluster.advertise",
}
PORTS = ("port", "http_port", "https_port", "prof_port")


class FlagError(ConfigError):
    """The command line itself cannot be understood: the place for a hint at the help, and exit status 2."""


@dataclass(frozen=True)
class Invocation:
    """What a command line asks for. `overrides` are options by name (`serve.option_table`), also secrets."""

    action: Action = "serve"
    config_file: str = ""
    signal: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict, repr=False)


def parse_arguments(argv: Sequence[str]) -> Invocation:
    """Of the arguments behind the program's name. FlagError, or ConfigError for values that cannot be."""
    found, words = parse_flags(argv)
    config_file = found.pop("config_file", "")
    signal = found.pop("signal", "")
    tests = found.pop("test_config", False)
    asked = {name: found.pop(name, False) for name in ("version", "help", "help_tls")}
    action: Action = "serve"
    if asked["version"]:
        action = "version"
    elif asked["help"]:
        action = "help"
    elif asked["help_tls"]:
        action = "help_tls"
    elif words and words[0].lower() == "version":
        action = "version"
    elif words and words[0].lower() == "help":
        action = "help"
    elif words:
        raise ConfigError(f"unrecognized command: {quoted(words[0])}")
    elif signal:
        if signal.count("=") > 1:
            raise ConfigError(f"invalid signal parameters: [{' '.join(signal.split('=')[2:])}]")
        action = "signal"
    elif tests:
        if not config_file:
            raise ConfigError("must specify [-c, --config] option to check configuration file syntax")
        action = "test_config"
    if action in ("serve", "test_config"):
        resolve(found)
    return Invocation(action, config_file, signal, found)


def load(invocation: Invocation, environ: Mapping[str, str]) -> Options:
    """The configuration of a server that is started like this. ConfigError: there can be no such server."""
    findings = Findings()
    found: Found = {}
    places: dict[str, Node] = {}
    digest = ""
    if invocation.config_file:
        tree = parse_file(invocation.config_file, environ)
        digest = config_digest(tree)
        if not tree:
            text = f"{invocation.config_file}: config has no values or is empty"
            findings.doubts.append(text)
            findings.warnings.append(text)
        found, places = read_options(tree, findings)
    if "jetstream.store_dir" in invocation.overrides:
        found.pop("store_dir", None)
    found.update(invocation.overrides)
    if invocation.overrides.get("cluster.routes") and not {"cluster.port", "cluster.host"} & found.keys():
        raise ConfigError("solicited routes require cluster capabilities, e.g. --cluster")
    return build_options(found, places, findings, invocation.config_file, digest)


def tested(options: Options) -> str:
    """What `-t` says of a good file. ConfigError: there are doubts, for which nats-server fails, too."""
    if options.doubts:
        raise ConfigError("\n".join(options.doubts))
    return f"configuration file {options.config_file} is valid ({options.config_digest})"


# -- flags --


def parse_flags(argv: Sequence[str]) -> tuple[Found, list[str]]:
    """The options that flags set, and the words behind them."""
    found: Found = {}
    arguments = list(argv)
    while arguments and len(arguments[0]) > 1 and arguments[0].startswith("-"):
        argument = arguments.pop(0)
        if argument == "--":
            break
        name, equals, value = argument[2 if argument.startswith("--") else 1 :].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {argument}")
        if name in SWITCHES:
            is_on = switch_value(name, value) if equals else True
            found.update(dict.fromkeys(SWITCHES[name].split(","), is_on))
            continue
        if name not in NUMBERS and name not in TEXTS:
            raise FlagError(f"flag provided but not defined: -{name}")
        if not equals:
            if not arguments:
                raise FlagError(f"flag needs an argument: -{name}")
            value = arguments.pop(0)
        if name in NUMBERS:
            found[NUMBERS[name]] = number_value(name, value)
        else:
            found[TEXTS[name]] = value
    return found, arguments


def switch_value(name: str, value: str) -> bool:
    if value not in TRUE_WORDS + FALSE_WORDS:
        raise FlagError(f"invalid boolean value {quoted(value)} for -{name}: parse error")
    return value in TRUE_WORDS


def number_value(name: str, value: str) -> int:
    try:
        number = int(value, 0) if value.strip("0") else 0
    except ValueError:
        raise FlagError(f"invalid value {quoted(value)} for flag -{name}: parse error") from None
    if NUMBERS[name] in PORTS and not -1 <= number <= PORT_MAX:
        raise ConfigError(f"invalid port {number}")
    return number


# -- flags that mean more than one option --


def resolve(found: Found) -> None:
    """Replaces what flags say of TLS and clusters by the options that they mean."""
    if " " in found.get("broker.server_name", ""):
        raise ConfigError("server name cannot contain spaces")
    tls = {name[4:]: found.pop(name) for name in [*found] if name.startswith("tls.")}
    if tls.get("on") is False:
        found["tls"] = None
    elif tls:
        cert_file, key_file, ca_file = (tls.get(name, "") for name in ("cert_file", "key_file", "ca_file"))
        found["tls"] = tls_from_flags(cert_file, key_file, ca_file, verify=tls.get("verify", False))
    if "routes" in found:
        routes = found.pop("routes")
        found["cluster.routes"] = tuple(route.strip() for route in routes.split(",")) if routes else ()
    if "cluster_listen" in found:
        found.update(cluster_options(found.pop("cluster_listen")))


def cluster_options(url: str) -> Found:
    """Of `nats://[user:password@]host:port`; empty: no cluster."""
    if not url:
        return {"cluster.port": 0}
    scheme, _, rest = url.partition("://")
    credentials, at, address = rest.rpartition("@")
    host, colon, digits = address.split("/")[0].rpartition(":")
    if not scheme or not colon or not digits.removeprefix("-").isdecimal():
        raise ConfigError("the cluster address must read nats://host:port")
    user, has_password, password = credentials.partition(":")
    if at and not has_password:
        raise ConfigError("expected cluster password to be set")
    return {
        "cluster.host": host.strip("[]"),
        "cluster.port": int(digits),
        "cluster.user": user,
        "cluster.password": password,
    }
