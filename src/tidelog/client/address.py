"""Where a server is, and who may be named on the way: one URL taken apart.

`nats://` (or no scheme at all) is TCP, with TLS when the server asks for it; `tls://` insists on TLS; `ws://`
and `wss://` are websockets. `user:password@` names a user, `token@` alone a token. Several URLs are separated
by commas.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

DEFAULT_URL = "nats://127.0.0.1:4222"
_PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Address:
    scheme: str
    host: str
    port: int
    path: str = "/"
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def is_encrypted(self) -> bool:
        """Whether the URL itself insists on TLS."""
        return self.scheme in ("tls", "wss")

    def __str__(self) -> str:
        """The URL without the secrets in it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse(url: str) -> Address:
    """Raises ValueError, whose text does not repeat a password."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    if parts.scheme not in _PORTS:
        raise ValueError(f"unknown scheme {parts.scheme!r}: use one of {', '.join(_PORTS)}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of {parts.hostname!r} is not a number from 1 to 65535") from None
    return Address(
        scheme=parts.scheme,
        host=parts.hostname or "127.0.0.1",
        port=port or _PORTS[parts.scheme],
        path=parts.path or "/",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def parse_all(urls: str | Iterable[str]) -> list[Address]:
    """One URL, several with commas between, or a list of either; in the order given."""
    texts = [urls] if isinstance(urls, str) else urls
    found = [parse(url.strip()) for text in texts for url in text.split(",") if url.strip()]
    if not found:
        raise ValueError("no server URL given")
    return found
