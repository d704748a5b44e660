"""The opening handshake of a websocket: what is accepted, what is refused and how."""

import dataclasses

import pytest

from tidelog.base.errors import ConfigError
from tidelog.base.limits import WEBSOCKET_REQUEST_SIZE
from tidelog.serve.options import WebsocketSettings
from tidelog.serve.upgrade import Opening, Refused, Upgrade, UpgradeRules

REQUEST = {
    "Host": "example.com:8080",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
DEFLATE = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}


def request(line: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    """A good request, changed by header; underscores in names stand for dashes, None removes."""
    headers: dict[str, str | None] = {
        **REQUEST,
        **{name.replace("_", "-"): to for name, to in changes.items()},
    }
    lines = [line, *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def rules(*, secure: bool = False, **settings: object) -> UpgradeRules:
    return UpgradeRules.of(dataclasses.replace(WebsocketSettings(), **settings), secure=secure)  # type: ignore[arg-type]


def opened(data: bytes, rules: UpgradeRules) -> Upgrade:
    upgrade = Opening(rules).receive(data)
    assert upgrade is not None
    return upgrade


def refused(data: bytes, rules: UpgradeRules) -> Refused:
    with pytest.raises(Refused) as caught:
        Opening(rules).receive(data)
    return caught.value


def test_answer_is_the_one_of_rfc_6455() -> None:
    assert opened(request(), rules()).answer == (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    )


@pytest.mark.parametrize("line", ["GET / HTTP/1.0", "GET /some/path?a=b HTTP/1.1", "GET http://a/ HTTP/1.1"])
def test_any_path_is_for_clients(line: str) -> None:
    assert opened(request(line), rules())


def test_header_names_and_tokens_in_any_case() -> None:
    assert opened(request().replace(b"Upgrade", b"UPGRADE").replace(b"websocket", b"WebSocket"), rules())


def test_request_may_come_byte_by_byte() -> None:
    opening, data = Opening(rules()), request()
    assert [opening.receive(data[i : i + 1]) for i in range(len(data) - 1)] == [None] * (len(data) - 1)
    assert opening.receive(memoryview(data)[-1:]) == opened(data, rules())


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (request("POST / HTTP/1.1"), b"405 Method Not Allowed", "request method must be GET"),
        (request("GET / HTTP/1.0", Host=None), b"400 Bad Request", "'Host' missing in request"),
        (request(Upgrade=None), b"400 Bad Request", "invalid value for header 'Upgrade'"),
        (request(Upgrade="h2c"), b"400 Bad Request", "invalid value for header 'Upgrade'"),
        (request(Connection="close"), b"400 Bad Request", "invalid value for header 'Connection'"),
        (request(Sec_WebSocket_Key=None), b"400 Bad Request", "key missing"),
        (request(Sec_WebSocket_Key="c2hvcnQ="), b"400 Bad Request", "invalid websocket key"),
        (request(Sec_WebSocket_Key="?"), b"400 Bad Request", "invalid websocket key"),
        (request(Sec_WebSocket_Key="\u00e4"), b"400 Bad Request", "invalid websocket key"),
        (request(Sec_WebSocket_Version="8"), b"400 Bad Request", "invalid version"),
        (request("GET /mqtt HTTP/1.1"), b"404 Not Found", "mqtt websocket endpoint not enabled"),
        (request("GET /x/leafnode?a HTTP/1.1"), b"404 Not Found", "leafnode connections are not accepted"),
    ],
)
def test_bad_request_is_answered(data: bytes, status: bytes, why: str) -> None:
    error = refused(data, rules())
    head, _, body = error.answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 " + status
    assert b"Sec-Websocket-Version: 13" in lines
    assert b"Connection: close" in lines
    assert body == status.partition(b" ")[2] + b"\n"
    assert b"Content-Length: %d" % len(body) in lines
    assert str(error) == f"websocket handshake error: {why}"


def test_answer_to_head_has_no_body() -> None:
    assert refused(request("HEAD / HTTP/1.1"), rules()).answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "title", "body"),
    [
        (b"CONNECT {}\r\n\r\n", b"400 Bad Request", b""),
        (b"\x16\x03\x01\x02\x00\x01", b"400 Bad Request", b""),
        (request(Host=None), b"400 Bad Request: missing required Host header", b""),
        (request("GET / HTTP/2.0"), b"505 HTTP Version Not Supported: unsupported protocol version", b""),
        (request(Transfer_Encoding="magic"), b"501 Not Implemented", b"Unsupported transfer encoding"),
    ],
)
def test_what_is_not_http_is_answered_shortly(data: bytes, title: bytes, body: bytes) -> None:
    head, _, rest = refused(data, rules()).answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + title + b"\r\n")
    assert head.endswith(b"\r\nConnection: close")
    assert rest == (body or title)


def test_size_of_a_request_is_bounded() -> None:
    spare = WEBSOCKET_REQUEST_SIZE - len(request(X_Fill=""))
    assert opened(request(X_Fill="x" * spare), rules())
    too_large = request(X_Fill="x" * (spare + 1))
    assert refused(too_large, rules()).answer.startswith(b"HTTP/1.1 431 ")
    opening = Opening(rules())
    assert opening.receive(too_large[:-2]) is None
    with pytest.raises(Refused, match="request too large"):
        opening.receive(too_large[-2:])


def test_client_that_does_not_wait_for_the_answer_gets_none() -> None:
    error = refused(request() + b"\x82\x80", rules())
    assert (str(error), error.answer) == ("client sent data before handshake is complete", b"")


@pytest.mark.parametrize(
    ("secure", "origin", "passes"),
    [
        (False, "http://example.com:8080", True),
        (False, "HTTP://EXAMPLE.com:8080", True),
        (False, "https://example.com:8080", False),
        (True, "https://example.com:8080", True),
        (True, "http://example.com:8080", False),
        (False, "http://example.com", False),
        (False, "null", False),
        (False, "http://[", False),
        (False, "http://example.com:99999", False),
        (False, None, True),
    ],
)
def test_same_origin(secure: bool, origin: str | None, passes: bool) -> None:
    strict = rules(secure=secure, same_origin=True)
    data = request(Origin=origin)
    assert opened(data, rules(secure=secure))
    if passes:
        assert opened(data, strict)
    else:
        error = refused(data, strict)
        assert error.answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert str(error).startswith("websocket handshake error: origin not allowed: ")


def test_same_origin_knows_the_usual_ports() -> None:
    assert opened(request(Host="a", Origin="https://a:443"), rules(secure=True, same_origin=True))
    assert opened(request(Host="a:80", Origin="http://a"), rules(same_origin=True))


def test_allowed_origins() -> None:
    listed = rules(allowed_origins=("http://good.example", "https://ok.example:8443"))
    for good in ("http://good.example", "http://good.example:80", "https://ok.example:8443"):
        assert opened(request(Origin=good), listed)
        assert opened(request(Sec_WebSocket_Origin=good), listed)
    for bad in ("https://good.example", "https://ok.example", "http://evil.example"):
        assert "not in the allowed list" in str(refused(request(Origin=bad), listed))
    both = rules(allowed_origins=("http://good.example",), same_origin=True)
    assert "not same origin" in str(refused(request(Origin="http://good.example"), both))


@pytest.mark.parametrize("origin", ["good.example", "ftp://good.example", "http://", "http://a:x"])
def test_allowed_origin_must_be_a_url(origin: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL of the form"):
        rules(allowed_origins=(origin,))


def test_additional_headers_of_the_answer() -> None:
    answer = opened(request(), rules(headers=(("X-One", "1"), ("X-Two", "2")))).answer
    assert answer.endswith(b"\r\nX-One: 1\r\nX-Two: 2\r\n\r\n")


@pytest.mark.parametrize("name", ["Host", "content-length", "Connection", "UPGRADE", "Sec-WebSocket-Accept"])
def test_headers_of_the_handshake_cannot_be_configured(name: str) -> None:
    with pytest.raises(ConfigError, match=f"invalid header '{name}' not allowed"):
        rules(headers=((name, "x"),))


@pytest.mark.parametrize(
    ("offer", "compresses"),
    [
        (None, False),
        ("permessage-deflate", True),
        ("x-other, Permessage-Deflate; client_max_window_bits", True),
        ("permessage-deflate; server_max_window_bits=10", False),
        ("permessage-deflate; server_max_window_bits=10, permessage-deflate", True),
        ("x-permessage-deflate", False),
    ],
)
def test_compression_is_agreed_on_if_both_want_it(offer: str | None, compresses: bool) -> None:
    data = request(Sec_WebSocket_Extensions=offer)
    assert not opened(data, rules()).compress
    upgrade = opened(data, rules(compression=True))
    assert upgrade.compress == compresses
    header = (
        b"\r\nSec-WebSocket-Extensions: permessage-deflate; "
        b"server_no_context_takeover; client_no_context_takeover\r\n"
    )
    assert (header in upgrade.answer) == compresses


def test_cookies_of_the_configured_names() -> None:
    named = rules(user_cookie="u", pass_cookie="p", token_cookie="t", jwt_cookie="j")
    upgrade = opened(request(Cookie='u=old; u=derek; p="s=cret"; x=1; t=; bad;j=a.b.c'), named)
    assert (upgrade.user, upgrade.password, upgrade.token, upgrade.jwt) == ("derek", "s=cret", "", "a.b.c")
    assert "s=cret" not in repr(upgrade)
    assert "a.b.c" not in repr(upgrade)
    assert opened(request(Cookie="u=derek; =nameless"), rules()).user == ""


@pytest.mark.parametrize(
    ("header", "address"),
    [(None, ""), ("1.2.3.4", "1.2.3.4"), ("::1", "::1"), ("1.2.3.4, 5.6.7.8", ""), ("somewhere", "")],
)
def test_address_that_a_proxy_names(header: str | None, address: str) -> None:
    assert opened(request(X_Forwarded_For=header), rules()).client_ip == address


def test_browsers_are_known_by_their_agent() -> None:
    safari = "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 Version/17.1 Safari/605.1.15"
    chrome = "Mozilla/5.0 (Macintosh) AppleWebKit/537.36 Chrome/120.0 Safari/537.36"
    found = [opened(request(User_Agent=agent), rules()) for agent in (safari, chrome, "curl/8")]
    assert [(each.browser, each.whole_compressed) for each in found] == [
        (True, True),
        (True, False),
        (False, False),
    ]
