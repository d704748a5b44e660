import pytest

from tidelog.client import address


def test_a_bare_host_is_a_nats_url() -> None:
    assert address.parse("example.net") == address.Address("nats", "example.net", 4222)
    assert str(address.parse("example.net:4333")) == "nats://example.net:4333"


@pytest.mark.parametrize(
    ("url", "port", "websocket", "encrypted"),
    [
        ("nats://h", 4222, False, False),
        ("tls://h", 4222, False, True),
        ("ws://h", 80, True, False),
        ("wss://h/path", 443, True, True),
    ],
)
def test_schemes_say_how_to_connect(url: str, port: int, websocket: bool, encrypted: bool) -> None:
    found = address.parse(url)
    assert (found.port, found.is_websocket, found.is_encrypted) == (port, websocket, encrypted)


def test_a_password_is_unquoted_and_never_shown() -> None:
    found = address.parse("nats://jo%40x:p%2Fw@h:1")
    assert (found.user, found.password) == ("jo@x", "p/w")
    assert "p/w" not in f"{found} {found!r}"


def test_ipv6_hosts_keep_their_brackets_in_text() -> None:
    found = address.parse("nats://[::1]:4222")
    assert found.host == "::1"
    assert str(found) == "nats://[::1]:4222"


def test_several_urls_come_with_commas_or_as_a_list() -> None:
    assert [a.host for a in address.parse_all("a, nats://b:1,,c")] == ["a", "b", "c"]
    assert [a.host for a in address.parse_all(["a,b", "c"])] == ["a", "b", "c"]


@pytest.mark.parametrize("url", ["http://h", "nats://h:port", "nats://h:70000"])
def test_what_cannot_be_an_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|port"):
        address.parse(url)


def test_no_url_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no server URL"):
        address.parse_all(" , ")
