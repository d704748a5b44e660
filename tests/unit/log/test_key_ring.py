"""Key rings: what is read, what is refused, and that nothing shows a secret."""

import base64

import pytest

from tidelog.base.errors import ConfigError, KeyUnavailable
from tidelog.base.limits import KEY_ID_SIZE
from tidelog.log.key_ring import KeyRing

SECRET = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(1, 33))).decode()


def test_the_first_seals_and_any_opens() -> None:
    ring = KeyRing.parse(f"\n# a comment\n  new:{SECRET}  \nold:{OTHER}\r\n", "keys")
    assert ring.first.id == "new"
    assert ring.find("new") is ring.first
    assert ring.find("old").secret == bytes(range(1, 33))


def test_a_missing_key_is_named() -> None:
    ring = KeyRing.parse(f"new:{SECRET}", "keys")
    with pytest.raises(KeyUnavailable, match=r"'older'.*which has new") as caught:
        ring.find("older")
    assert caught.value.key_id == "older"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no key"),
        ("# nothing\n\n", "no key"),
        (SECRET, "keys:1: a key is id:base64"),
        (f"a b:{SECRET}", "a key is id:base64"),
        (f":{SECRET}", "a key is id:base64"),
        (f"{'x' * (KEY_ID_SIZE + 1)}:{SECRET}", "a key is id:base64"),
        (f"a:{SECRET}\nb:{SECRET[:-8]}", "keys:2: a key has 32 bytes, not 27"),
        (f"a:{SECRET[:-4]}", "not 30"),
        ("a:!!!", "is not base64"),
        (f"{SECRET[:-1]}:new", "is not base64"),
        ("a:", "32 bytes, not 0"),
        ("a:" + base64.b64encode(bytes(33)).decode(), "not 33"),
        (f"a:{SECRET}\na:{OTHER}", "keys:2: key 'a' is there twice"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        KeyRing.parse(text, "keys")
    assert SECRET[:8] not in str(caught.value)


def test_the_longest_id() -> None:
    assert KeyRing.parse(f"{'x' * KEY_ID_SIZE}:{SECRET}", "keys").first.id == "x" * KEY_ID_SIZE


def test_nothing_shows_a_secret() -> None:
    ring = KeyRing.parse(f"new:{SECRET}", "keys")
    for text in (repr(ring), repr(ring.first), str(ring.first)):
        assert "new" in text
        assert SECRET not in text
        assert repr(bytes(range(32)))[2:10] not in text
