"""The digest of a configuration, as nats-server prints and reports it: `sha256:...` over the tree as JSON.

Two files with the same meaning have the same digest, whatever their comments and order; it is how an
operator, and the tests, see that this server and nats-server have read the same thing. The bytes are those of
Go's `encoding/json`: keys sorted, no spaces, `<`, `>` and `&` escaped, floats in the shortest form, a newline
at the end.
"""

import hashlib

from tidelog.serve.conf import Tree, Value
from tidelog.serve.scanner import Zulu

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
# Floats outside of this range are written with an exponent.
FIXED_MIN, FIXED_MAX = 1e-6, 1e21


def config_digest(tree: Tree) -> str:
    text = written(tree) + "\n"
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def written(value: Value) -> str:
    """One value as JSON."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
        return "{" + ",".join(f"{written(name)}:{written(node.value)}" for name, node in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(node.value) for node in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Zulu):
        return f'"{value.text}"'
    if isinstance(value, float):
        return written_float(value)
    if isinstance(value, int):
        return str(value)
    return written_string(value)


def written_string(value: str) -> str:
    return '"' + "".join(ESCAPES.get(char) or escaped(char) for char in value) + '"'


def escaped(char: str) -> str:
    if char < " " or char in "<>&\u2028\u2029":
        return f"\\u{ord(char):04x}"
    # A byte that is not UTF-8 is shown by the replacement character.
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char


def written_float(value: float) -> str:
    sign = "-" if repr(value).startswith("-") else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    power = int(exponent or "0")
    if value and not FIXED_MIN <= abs(value) < FIXED_MAX:
        point = "." if fraction else ""
        return f"{sign}{whole}{point}{fraction}e{'-' if power < 0 else '+'}{abs(power)}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction}"
    if power:
        return sign + whole + fraction.ljust(power, "0")
    return sign + whole + ("." + fraction if fraction else "")
