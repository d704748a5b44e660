"""How options are taken out of a configuration tree: one reader per kind of value, and a collector of faults.

A reader gets a `Node` and returns the value, or raises ConfigError with the node's position. A section of
the file is described by a table from key to (name in the settings, reader); `read_section` applies it. A
fault in one option does not hide those in others: they are collected in `Findings` and told together, in the
order of the file.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.base.duration import parse_duration_ns
from tidelog.base.errors import ConfigError, ConfigErrors
from tidelog.serve.conf import Node, Tree
from tidelog.serve.scanner import Zulu

SECOND_NS = 1_000_000_000
INT32_MAX = 2**31 - 1
PORT_MAX = 65_535
# Above this, a timeout is likely minutes that were written without quotes: `1m` is a million.
TIMEOUT_HIGH_S = 60

Reader = Callable[[Node], Any]
Table = Mapping[str, tuple[str, Reader]]


class Findings:
    """What was noticed while a configuration was read."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        # `doubts` are also in `warnings`; nats-server's -t fails for them.
        self.doubts: list[str] = []
        self.warnings: list[str] = []

    def add(self, error: ConfigError) -> None:
        self.errors.extend(error.errors if isinstance(error, ConfigErrors) else (error,))

    def doubt(self, node: Node, field: str, reason: str) -> None:
        self.doubt_plainly(node, f"invalid use of field {quoted(field)}: {reason}")

    def doubt_plainly(self, node: Node, reason: str) -> None:
        text = f"{where(node)}: {reason}"
        self.doubts.append(text)
        self.warnings.append(text)

    def not_built(self, node: Node, what: str) -> None:
        self.warnings.append(f"{where(node)}: {what} is accepted but not yet built")

    def finish(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ConfigErrors(self.errors)


def where(node: Node) -> str:
    return f"{node.path}:{node.line}:{node.column}"


def fault(node: Node, message: str) -> ConfigError:
    return ConfigError(message, node.path, node.line, node.column)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def kind(node: Node) -> str:
    """The kind of a value, as nats-server's messages call it."""
    names = {str: "string", bool: "bool", int: "int64", float: "float64", Zulu: "time.Time"}
    return names.get(type(node.value)) or (
        "map[string]interface {}" if isinstance(node.value, dict) else "[]interface {}"
    )


# -- sections --

# The name, in a table, of options that are read and checked but not kept.
UNKEPT = ""


def read_section(
    tree: Tree, table: Table, findings: Findings, unknown: str = "unknown field {}"
) -> dict[str, Any]:
    """The values of a section's options by their names in the settings. Faults go to `findings`."""
    found: dict[str, Any] = {}
    for key, node in tree.items():
        try:
            if key.lower() in table:
                name, reader = table[key.lower()]
                found[name] = reader(node)
            elif not node.used:
                raise fault(node, unknown.format(quoted(key)))
        except ConfigError as error:
            findings.add(error)
    found.pop(UNKEPT, None)
    return found


def aliases(names: str, name: str, reader: Reader) -> dict[str, tuple[str, Reader]]:
    """Rows of a table for one option with several spellings, given in one string."""
    return dict.fromkeys(names.split(), (name, reader))


def table_of(node: Node, message: str = "Expected a map") -> Tree:
    if not isinstance(node.value, dict):
        raise fault(node, f"{message}, got {kind(node)}")
    return node.value


def list_of(node: Node, message: str = "Expected an array") -> list[Node]:
    if not isinstance(node.value, list):
        raise fault(node, f"{message}, got {kind(node)}")
    return node.value


# -- scalars --


def text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise fault(node, f"Expected a string, got {kind(node)}")
    return node.value


def word(node: Node) -> str:
    """A name, which may not hold spaces."""
    value = text(node)
    if " " in value:
        raise fault(node, "name cannot contain spaces")
    return value


def boolean(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise fault(node, f"Expected a boolean, got {kind(node)}")
    return node.value


def integer(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise fault(node, f"Expected an integer, got {kind(node)}")
    return node.value


def port(node: Node) -> int:
    return valid_port(node, integer(node))


def valid_port(node: Node, number: int) -> int:
    if not -1 <= number <= PORT_MAX:
        raise fault(node, f"invalid port {number}")
    return number


def strings(name: str) -> Callable[[Node], tuple[str, ...]]:
    """A reader of one string or a list of them; `name` is what messages call it."""

    def read(node: Node) -> tuple[str, ...]:
        if isinstance(node.value, str):
            return (node.value,)
        if not isinstance(node.value, list):
            raise fault(node, f"error parsing {name}: unsupported type {kind(node)}")
        for item in node.value:
            if not isinstance(item.value, str):
                raise fault(item, f"error parsing {name}: unsupported type in array {kind(item)}")
        return tuple(text(item) for item in node.value)

    return read


def string_map(name: str) -> Callable[[Node], tuple[tuple[str, str], ...]]:
    """A reader of a map from names to strings, as sorted pairs."""

    def read(node: Node) -> tuple[tuple[str, str], ...]:
        if not isinstance(node.value, dict):
            raise fault(node, f"error parsing {name}: unsupported type {kind(node)}")
        return tuple(sorted((key, text(value)) for key, value in node.value.items()))

    return read


def listen(node: Node) -> tuple[str, int]:
    """Host (may be empty) and port, from a port, `host:port` or `[v6]:port`."""
    if not isinstance(node.value, str):
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            raise fault(node, f"expected port or host:port, got {kind(node)}")
        return "", valid_port(node, node.value)
    host, colon, digits = node.value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or "[" in host or "]" in host:
        raise fault(node, f"could not parse address string {quoted(node.value)}")
    try:
        return host, valid_port(node, int(digits))
    except ValueError:
        raise fault(node, f"could not parse port {quoted(digits)}") from None


def for_listen(found: dict[str, Any]) -> None:
    """Puts what `listen` said into `host` and `port`; an empty host means the default."""
    if "listen" in found:
        host, found["port"] = found.pop("listen")
        if host:
            found["host"] = host
    if not found.get("host", "0"):
        del found["host"]


# -- durations and sizes --


def duration_ns(node: Node, name: str) -> int:
    """A duration, which must be a string."""
    try:
        return parse_duration_ns(text(node))
    except ValueError as error:
        raise fault(node, f"error parsing {name}: {error}") from error


def interval_ns(findings: Findings, name: str) -> Callable[[Node], int]:
    """A reader of durations that takes a plain number for seconds, with a doubt."""

    def read(node: Node) -> int:
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            findings.doubt(node, name, f"{name} should be converted to a duration")
            return node.value * SECOND_NS
        return duration_ns(node, name)

    return read


def interval_s(findings: Findings, name: str) -> Callable[[Node], float]:
    read = interval_ns(findings, name)
    return lambda node: read(node) / SECOND_NS


def timeout_s(section: str) -> Callable[[Node], float]:
    """A reader of timeouts: seconds, or a duration."""

    def read(node: Node) -> float:
        if isinstance(node.value, str):
            try:
                return parse_duration_ns(node.value) / SECOND_NS
            except ValueError as error:
                raise fault(node, f"error parsing {section}, 'timeout' {error}") from error
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise fault(node, f"error parsing {section}, 'timeout' wrong type")
        return float(node.value)

    return read


def doubt_high_timeout(node: Node, seconds: float, findings: Findings) -> None:
    if seconds > TIMEOUT_HIGH_S:
        findings.doubt(
            node,
            "timeout",
            f"timeout of {node.value} ({seconds:f} seconds) is high, consider keeping it under 60 seconds. "
            "possibly caused by unquoted duration; use '1m' instead of 1m, for example",
        )


def storage_size(name: str) -> Callable[[Node], int]:
    """A reader of sizes: an integer, or a string such as "10G", whose units are powers of 1024."""

    def read(node: Node) -> int:
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        if not isinstance(node.value, str):
            raise fault(node, f"{name} must be int64 or string")
        if not node.value:
            return 0
        shift = {"K": 10, "M": 20, "G": 30, "T": 40}.get(node.value[-1])
        digits = node.value[:-1]
        if not digits.removeprefix("-").isdecimal():
            raise fault(node, f"{name} strconv.ParseInt: parsing {quoted(digits)}: invalid syntax")
        if shift is None:
            raise fault(node, f"{name} sizes defined as strings must end in K, M, G, T")
        return int(digits) << shift

    return read
