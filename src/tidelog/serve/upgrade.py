"""The opening handshake of a websocket: one HTTP request in, one answer out, without I/O.

Checks what nats-server checks, in its order, and answers with its status lines and headers, because load
balancers and clients look at them. Any path is a client's, except those ending in `/leafnode` and `/mqtt`,
for which there is nobody: they get 404. Differences, all on purpose: a refused connection is closed instead
of kept for another request, paths are not normalised by redirects, and masking cannot be switched off by
`Nats-No-Masking`.

Imports h11: import this module only once a websocket listener is wanted.
"""

import base64
import binascii
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import urlsplit

import h11

from tidelog.base.errors import ConfigError, TidelogError
from tidelog.base.limits import WEBSOCKET_REQUEST_SIZE
from tidelog.serve.filter import Bytes
from tidelog.serve.options import WebsocketSettings

# RFC 6455 §1.3: appended to the client's key before hashing.
_ACCEPT_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_DEFLATE_ANSWER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_FORBIDDEN_HEADERS = frozenset({"host", "content-length", "connection", "upgrade", "nats-no-masking"})

# What h11 says of HTTP/1.1 without the header.
_NO_HOST = "Missing mandatory Host: header"

# (scheme, host, port)
Origin = tuple[str, str, int]


class Refused(TidelogError):
    """No websocket: write `answer` and close. `str()` is for the log."""

    def __init__(self, text: str, answer: bytes = b"") -> None:
        super().__init__(text)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class UpgradeRules:
    """What the settings ask of a request and of the answer, read once per listener and reload."""

    settings: WebsocketSettings
    # Whether the listener speaks TLS: what `same_origin` compares with.
    secure: bool
    allowed_origins: frozenset[Origin]
    headers: str

    @classmethod
    def of(cls, settings: WebsocketSettings, *, secure: bool) -> "UpgradeRules":
        """Raises ConfigError for an origin that is no URL and for headers that are the handshake's own."""
        for name, _ in settings.headers:
            if name.lower() in _FORBIDDEN_HEADERS or name.lower().startswith("sec-websocket-"):
                raise ConfigError(f"websocket: invalid header {name!r} not allowed")
        origins = frozenset(_allowed(text) for text in settings.allowed_origins)
        return cls(
            settings, secure, origins, "".join(f"{name}: {value}\r\n" for name, value in settings.headers)
        )


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A request that was accepted, and what it said about the client."""

    answer: bytes
    compress: bool
    # From X-Forwarded-For; empty if there is none.
    client_ip: str = ""
    browser: bool = False
    # Safari does not take a compressed message in several frames.
    whole_compressed: bool = False
    # Cookies of the configured names; empty if absent.
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    jwt: str = field(default="", repr=False)


class Opening:
    """Collects the request, however it is cut, and judges it."""

    def __init__(self, rules: UpgradeRules) -> None:
        self._rules = rules
        self._size = 0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=WEBSOCKET_REQUEST_SIZE)

    def receive(self, data: Bytes) -> Upgrade | None:
        """None: there is more to come. Raises Refused."""
        self._size += len(data)
        if self._size > WEBSOCKET_REQUEST_SIZE:
            raise _bad_http("request too large", 431)
        self._http.receive_data(bytes(data))
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise _bad_http(str(error), error.error_status_hint) from error
        if not isinstance(event, h11.Request):
            return None
        if event.http_version not in (b"1.1", b"1.0"):
            raise _bad_http("unsupported protocol version", 505)
        upgrade = judge(Request(event), self._rules)
        # A client cannot know yet that it may speak; the peer hangs up on it too, if it notices.
        if self._http.trailing_data[0]:
            raise Refused("client sent data before handshake is complete")
        return upgrade


class Request:
    """The parts of an HTTP request that count here."""

    def __init__(self, event: h11.Request) -> None:
        self.method = event.method.decode("ascii")
        self.path = event.target.decode("ascii").partition("?")[0]
        self._headers = [(name, value.decode("latin-1")) for name, value in event.headers]

    def all(self, name: bytes) -> list[str]:
        return [value for header, value in self._headers if header == name]

    def first(self, name: bytes) -> str:
        return next(iter(self.all(name)), "")

    def contains(self, name: bytes, token: str) -> bool:
        """One of the comma-separated values of that header is `token`, in any case."""
        return any(
            part.strip(" \t").lower() == token for value in self.all(name) for part in value.split(",")
        )


def judge(request: Request, rules: UpgradeRules) -> Upgrade:
    """Decide on a request by RFC 6455 §4.2.1 and the rules. Raises Refused."""
    if request.path.endswith("/mqtt"):
        raise _refused(request, HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
    if request.path.endswith("/leafnode"):
        raise _refused(request, HTTPStatus.NOT_FOUND, "leafnode connections are not accepted")
    if request.method != "GET":
        raise _refused(request, HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
    key = request.first(b"sec-websocket-key")
    wrong = (
        "'Host' missing in request"
        if not request.first(b"host")
        else "invalid value for header 'Upgrade'"
        if not request.contains(b"upgrade", "websocket")
        else "invalid value for header 'Connection'"
        if not request.contains(b"connection", "upgrade")
        else "key missing"
        if not key
        else "invalid websocket key"
        if not _is_key(key)
        else "invalid version"
        if not request.contains(b"sec-websocket-version", "13")
        else ""
    )
    if wrong:
        raise _refused(request, HTTPStatus.BAD_REQUEST, wrong)
    wrong = _wrong_origin(request, rules)
    if wrong:
        raise _refused(request, HTTPStatus.FORBIDDEN, f"origin not allowed: {wrong}")
    return _accepted(request, rules, key)


def _accepted(request: Request, rules: UpgradeRules, key: str) -> Upgrade:
    settings = rules.settings
    compress = settings.compression and _offers_deflate(request.all(b"sec-websocket-extensions"))
    accept = base64.b64encode(hashlib.sha1((key + _ACCEPT_GUID).encode("latin-1")).digest()).decode()
    answer = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n"
        + (f"Sec-WebSocket-Extensions: {_DEFLATE_ANSWER}\r\n" if compress else "")
        + rules.headers
        + "\r\n"
    )
    agent = request.first(b"user-agent")
    browser = agent.startswith("Mozilla/")
    cookies = _cookies(request.all(b"cookie"))
    return Upgrade(
        answer=answer.encode("latin-1"),
        compress=compress,
        client_ip=_address(request.first(b"x-forwarded-for")),
        browser=browser,
        # Chrome on macOS also says "Safari/"; only Safari itself has "Version/" beside it.
        whole_compressed=browser and "Version/" in agent and "Safari/" in agent,
        user=cookies.get(settings.user_cookie, ""),
        password=cookies.get(settings.pass_cookie, ""),
        token=cookies.get(settings.token_cookie, ""),
        jwt=cookies.get(settings.jwt_cookie, ""),
    )


def _offers_deflate(values: Iterable[str]) -> bool:
    """An offer that fixes our window is passed over: the answer would have to promise a window in return."""
    for offer in (offer for value in values for offer in value.split(",")):
        name, *parameters = (part.strip(" \t").lower() for part in offer.split(";"))
        if name == "permessage-deflate" and not any(
            p.startswith("server_max_window_bits") for p in parameters
        ):
            return True
    return False


def _wrong_origin(request: Request, rules: UpgradeRules) -> str:
    """Why the page behind this socket may not open it; empty: it may. Only browsers say which page it is."""
    if not rules.settings.same_origin and not rules.allowed_origins:
        return ""
    text = request.first(b"origin") or request.first(b"sec-websocket-origin")
    if not text:
        return ""
    origin = _origin(text)
    if origin is None:
        return f"invalid URI {text!r}"
    if rules.settings.same_origin:
        scheme = "https" if rules.secure else "http"
        if origin != _origin(f"{scheme}://{request.first(b'host')}"):
            return "not same origin"
    if rules.allowed_origins and origin not in rules.allowed_origins:
        return "not in the allowed list"
    return ""


def _origin(text: str) -> Origin | None:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if not url.scheme or not url.hostname:
        return None
    return url.scheme, url.hostname, port or (443 if url.scheme == "https" else 80)


def _allowed(text: str) -> Origin:
    origin = _origin(text)
    if origin is None or origin[0] not in ("http", "https"):
        raise ConfigError(
            f"websocket: allowed origin {text!r} is not a URL of the form http://host[:port] or https://host[:port]"
        )
    return origin


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key.encode("latin-1"), validate=True)) == 16
    except binascii.Error:
        return False


def _cookies(values: Iterable[str]) -> dict[str, str]:
    """Values as they stand, but without quotes; of several of one name the last counts."""
    cookies = {}
    for pair in (pair for value in values for pair in value.split(";")):
        name, equals, content = pair.strip(" \t").partition("=")
        if name and equals:
            quoted = len(content) > 1 and content[0] == content[-1] == '"'
            cookies[name] = content[1:-1] if quoted else content
    return cookies


def _address(text: str) -> str:
    """`text` if it is one address; a list of several hops tells nothing that could be believed."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ""
    return text


def _refused(request: Request, status: HTTPStatus, why: str) -> Refused:
    body = f"{status.phrase}\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Sec-Websocket-Version: 13\r\nX-Content-Type-Options: nosniff\r\n"
        f"Date: {formatdate(usegmt=True)}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    text = head if request.method == "HEAD" else head + body
    return Refused(f"websocket handshake error: {why}", text.encode("ascii"))


def _bad_http(why: str, code: int) -> Refused:
    """What is not good HTTP/1 is answered in the peer's short form."""
    status = HTTPStatus(code)
    title = f"{status.value} {status.phrase}"
    body = ""
    if code == HTTPStatus.HTTP_VERSION_NOT_SUPPORTED:
        title += ": unsupported protocol version"
    elif code == HTTPStatus.NOT_IMPLEMENTED:
        body = "Unsupported transfer encoding"
    elif why == _NO_HOST:
        title += ": missing required Host header"
    head = f"HTTP/1.1 {title}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    return Refused(f"websocket handshake error: {why}", (head + (body or title)).encode("ascii"))
