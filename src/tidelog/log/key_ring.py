"""Keys that seal what is stored: each a secret of 32 bytes under a name that is stored beside what it sealed.

A ring is written as text, a key a line:

    2026-05:kxWJ...   the first one seals
    2025-11:9fQz...   the others only open what was sealed before

each `id:base64 of 32 bytes`. Empty lines and lines that begin with # do not count. So keys are rotated by putting a new
line on top, and dropped when nothing is sealed with them any more.

Promises: no error, `repr` or log line shows a secret, nor any part of a line that could be one.

What it does not do: read files or the environment (the owner hands in the text), or make keys.
"""

import base64
import binascii
import re

from tidelog.base.errors import ConfigError, KeyUnavailable
from tidelog.base.limits import KEY_ID_SIZE

SECRET_SIZE = 32

_ID = re.compile(rf"[A-Za-z0-9._@/+-]{{1,{KEY_ID_SIZE}}}")


class Key:
    __slots__ = ("id", "secret")

    def __init__(self, key_id: str, secret: bytes) -> None:
        assert len(secret) == SECRET_SIZE
        assert _ID.fullmatch(key_id)
        self.id = key_id
        self.secret = secret

    def __repr__(self) -> str:
        return f"Key({self.id!r})"


class KeyRing:
    """`first` seals; any opens."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        assert keys, "a ring without keys is None"
        self.first = keys[0]
        self._by_id = {key.id: key for key in keys}

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._by_id)})"

    @classmethod
    def parse(cls, text: str, source: str) -> "KeyRing":
        """`source` is where the text comes from, for errors: a file, or the name of a variable."""
        keys: dict[str, Key] = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            key = _parse_line(line, source, number)
            if key.id in keys:
                raise ConfigError(f"key {key.id!r} is there twice", source, number)
            keys[key.id] = key
        if not keys:
            raise ConfigError("there is no key: lines of id:base64 are expected", source)
        return cls(tuple(keys.values()))

    def find(self, key_id: str) -> Key:
        key = self._by_id.get(key_id)
        if key is None:
            raise KeyUnavailable(key_id, f"not in the key ring, which has {', '.join(self._by_id)}")
        return key


def _parse_line(line: str, source: str, number: int) -> Key:
    key_id, colon, secret = line.partition(":")
    # Without a colon, or with a strange id, the line may be a bare secret: it is not repeated.
    if not colon or not _ID.fullmatch(key_id):
        raise ConfigError(
            f"a key is id:base64, with an id of 1 to {KEY_ID_SIZE} letters, digits and any of . _ @ / + -",
            source,
            number,
        )
    # Nor is the id while the rest is wrong: somebody may have swapped the two.
    try:
        decoded = base64.b64decode(secret.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("what is behind the colon is not base64", source, number) from None
    if len(decoded) != SECRET_SIZE:
        raise ConfigError(f"a key has {SECRET_SIZE} bytes, not {len(decoded)}", source, number)
    return Key(key_id, decoded)
