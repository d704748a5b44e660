"""Who we are: user and password, a token, an nkey seed, or a credentials file.

A credentials file holds a JWT and a seed, each between `-----BEGIN ...-----` and `------END ...------` lines.

What it promises: secrets stay out of `repr` and out of every error. The keys are read when needed and not
kept open. What it does not do: read JWTs; they are handed on.
"""

import base64
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.base.errors import ClientError
from tidelog.broker import nkey

_SECTION = re.compile(r"-{3,}\s*BEGIN ([A-Z ]+?)\s*-{3,}\s*(\S+)\s*-{3,}\s*END \1\s*-{3,}", re.DOTALL)
_SEED_TEXT = re.compile(r"\bS[A-Z2-7]{57}\b")


@dataclass(frozen=True, slots=True)
class Credential:
    """All empty: come as nobody in particular."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    seed: str = field(default="", repr=False)
    jwt: str = field(default="", repr=False)

    def connect_fields(self, nonce: str) -> dict[str, str]:
        """What CONNECT must carry to prove this identity to a server that sent `nonce`."""
        fields: dict[str, str] = {}
        if self.user:
            fields |= {"user": self.user, "pass": self.password}
        if self.token:
            fields["auth_token"] = self.token
        if self.jwt:
            fields["jwt"] = self.jwt
        if self.seed and nonce:
            public, signature = sign(self.seed, nonce.encode())
            fields["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
            if not self.jwt:
                fields["nkey"] = public
        return fields


def sign(seed: str, data: bytes) -> tuple[str, bytes]:
    """The public key that belongs to a user's `seed`, and its signature of `data`. Raises ClientError."""
    # Slow to import, and few connections use keys.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        kind, secret = nkey.decode_seed(seed.strip())
    except ValueError as error:
        raise ClientError(f"nkey seed cannot be used: {error}") from None
    if kind is not nkey.Kind.USER:
        raise ClientError("nkey seed is not a user's (those start with SU)")
    key = Ed25519PrivateKey.from_private_bytes(secret)
    return nkey.encode_public(kind, key.public_key().public_bytes_raw()), key.sign(data)


def read_seed(path: str | os.PathLike[str]) -> str:
    """The seed in an nkey file, whatever else (comments, markers) is in it."""
    found = _SEED_TEXT.search(_read(path))
    if not found:
        raise ClientError(f"{os.fspath(path)}: no nkey seed in this file")
    return found[0]


def read_credentials(path: str | os.PathLike[str]) -> Credential:
    """The JWT and the seed in a credentials file."""
    sections = dict(_SECTION.findall(_read(path)))
    jwt, seed = sections.get("NATS USER JWT", ""), sections.get("USER NKEY SEED", "")
    if not jwt or not seed:
        raise ClientError(f"{os.fspath(path)}: needs a NATS USER JWT and a USER NKEY SEED section")
    return Credential(jwt=jwt, seed=seed)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ClientError(f"{os.fspath(path)}: {reason}") from None
