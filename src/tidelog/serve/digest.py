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
    size = abs(value)
    if size == 0 or FIXED_MIN <= size < FIXED_MAX:
        text = repr(value)
        if "e" in text:
            text = f"{value:.30f}".rstrip("0") if size < 1 else f"{value:.1f}"
        return text.removesuffix(".0")
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa.removesuffix('.0')}e{sign}{int(exponent.lstrip('+-'))}"
