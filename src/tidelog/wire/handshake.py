"""The two JSON documents of the handshake: INFO, which the server sends, and CONNECT, the answer.

`decode_connect` promises what Go's `encoding/json` does to the peer's struct, because clients were written
against it: keys match without regard to case, unknown ones are ignored, `null` leaves a field as it was, a
wrong type is an error, bytes that are no UTF-8 become U+FFFD. Fields that are absent keep the value of the
CONNECT before, or the defaults that hold before the first one. `encode_info` gives the peer's bytes: its
key order, its empty fields left out, its escapes, its blank before the line end.

No secret leaves this module by accident: `repr` and errors carry none, and `redact` makes a line fit for a
trace log. What the fields mean is not decided here.
"""

import re
from typing import Any

import msgspec

from tidelog.base.errors import ProtocolError

REDACTED = "[REDACTED]"
SECRET_KEYS = frozenset({"pass", "auth_token", "sig", "jwt", "proxy_sig"})

_INT64_MAX = 2**63 - 1
_PUBLIC_NKEY_SIZE = 56
_SURROGATE = re.compile("[\ud800-\udfff]")


class Connect(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says about itself. The defaults hold for a client that has not sent CONNECT."""

    echo: bool = True
    verbose: bool = True
    pedantic: bool = True
    tls_required: bool = False
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    auth_token: str = ""
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0
    account: str = ""
    new_account: bool = False
    headers: bool = False
    no_responders: bool = False
    proxy_sig: str = ""

    def __repr__(self) -> str:
        shown = [
            f"{key}={value!r}"
            for key, value in msgspec.to_builtins(self).items()
            if value != getattr(UNCONNECTED, _ATTRIBUTES[key]) and not is_secret(key, value)
        ]
        return f"Connect({', '.join(shown)})"

    @property
    def has_credentials(self) -> bool:
        """Whether the client named anything that could identify it; certificates and cookies aside."""
        return bool(self.user or self.password or self.auth_token or self.nkey)


class Info(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server says about itself, in the peer's order. Fields without a default are always sent."""

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    headers: bool
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    compression: str = ""
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    leafnode_urls: tuple[str, ...] = ()
    xkey: str = ""


UNCONNECTED = Connect()

# Wire name to attribute, and wire name to type; the two differ in `pass` only.
_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(Connect)}
_TYPES: dict[str, type] = {field.encode_name: field.type for field in msgspec.structs.fields(Connect)}


def decode_connect(document: bytes, before: Connect = UNCONNECTED) -> Connect:
    """Read the argument of CONNECT on top of `before`. Raises ProtocolError, which closes without a word."""
    try:
        fields = _decode_json(document)
    except ValueError as error:
        # The decoder's message names a byte position, never a value.
        raise _malformed(str(error)) from None
    if fields is None:
        return before
    if not isinstance(fields, dict):
        raise _malformed(f"expected an object, got {type(fields).__name__}")
    changes: dict[str, Any] = {}
    for key, value in fields.items():
        name = key if key in _TYPES else key.casefold()
        wanted = _TYPES.get(name)
        if wanted is None or value is None:
            continue
        # `type` and not `isinstance`: True is no number here, and 1.0 is no integer.
        if type(value) is not wanted or (isinstance(value, int) and abs(value) > _INT64_MAX):
            raise _malformed(f"field {name} cannot be {type(value).__name__}")
        changes[_ATTRIBUTES[name]] = value
    return msgspec.structs.replace(before, **changes)


def encode_info(info: Info) -> bytes:
    """The whole INFO line."""
    document = msgspec.json.encode(info)
    for character, escape in _GO_ESCAPES:
        if character in document:
            document = document.replace(character, escape)
    return b"INFO " + document + b" \r\n"


def redact(line: bytes) -> bytes:
    """`line` (a CONNECT document, its verb before it or not) without its secrets, for a trace log.

    What cannot be read as JSON is left out as a whole: in it nobody can tell where a secret ends.
    """
    start = line.find(b"{")
    if start < 0:
        start = len(line.split(None, 1)[0]) + 1 if line[:7].upper() == b"CONNECT" else 0
    verb, document = line[:start], line[start:]
    if not document.strip():
        return line
    try:
        fields = _decode_json(document)
    except ValueError:
        return verb + REDACTED.encode()
    return verb + (msgspec.json.encode(_mask(fields)) if isinstance(fields, dict) else REDACTED.encode())


def is_secret(key: str, value: object) -> bool:
    """Whether a field of CONNECT must not be shown. A public nkey may; anything else there may be a seed."""
    name = key.casefold()
    if name == "nkey":
        return not (isinstance(value, str) and value[:1] == "U" and len(value) == _PUBLIC_NKEY_SIZE)
    return name in SECRET_KEYS


# Go escapes these for the sake of HTML; all of them occur inside strings only.
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def _decode_json(document: bytes) -> Any:
    """Any JSON value. Raises ValueError whose text holds nothing of the document."""
    try:
        return msgspec.json.decode(document)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # msgspec is stricter than Go about bad UTF-8 and lone surrogates; both mend to U+FFFD.
        mended = _mend(document)
        if mended is None:
            reason = "not UTF-8 and not JSON" if isinstance(error, UnicodeDecodeError) else str(error)
            raise ValueError(reason) from None
        return msgspec.json.decode(mended)


def _mend(document: bytes) -> str | None:
    """The document with U+FFFD in place of what is no character; None if it is no JSON even so."""
    import json  # only a client that sends bad text pays for it

    try:
        fields = json.loads(document.decode("utf-8", "replace"), parse_constant=_refuse_constant)
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: REDACTED if is_secret(key, item) and item else _mask(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_mask(item) for item in value]
    return value


def _malformed(detail: str) -> ProtocolError:
    return ProtocolError("", "Protocol Violation", f"CONNECT: {detail}")
