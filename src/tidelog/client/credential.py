"""Who we are: user and password, a token, an nkey seed, or a credentials file.

An nkey seed is base32 text of `<two prefix bytes><32-byte ed25519 seed><crc16>`; the public key is the same
with one prefix byte. The prefix holds five bits each: "S" for a seed, then the kind, "U" for a user. A
credentials file holds a JWT and a seed, each between `-----BEGIN ...-----` and `------END ...------` lines.

What it promises: secrets stay out of `repr` and out of every error. The keys are read when needed and not
kept open. What it does not do: read JWTs; they are handed on.
"""

import base64
import binascii
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.base.errors import ClientError

_SEED_PREFIX = 18 << 3
_USER_PREFIX = 20 << 3
_SEED_SIZE = 32
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
    """The public user key that belongs to `seed`, and its signature of `data`."""
    # Slow to import, and few connections use keys.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(decode_seed(seed))
    return _encode_public(key.public_key().public_bytes_raw()), key.sign(data)


def decode_seed(seed: str) -> bytes:
    """The 32 bytes of a user seed. Raises ClientError that does not repeat it."""
    try:
        raw = base64.b32decode(seed.strip() + "=" * (-len(seed.strip()) % 8))
    except (binascii.Error, ValueError):
        raise ClientError("nkey seed is not base32 text") from None
    if len(raw) != 2 + _SEED_SIZE + 2 or binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise ClientError("nkey seed has a wrong length or checksum")
    if raw[0] & 0xF8 != _SEED_PREFIX or (raw[0] & 7) << 5 | raw[1] >> 3 != _USER_PREFIX:
        raise ClientError("nkey seed is not a user's (those start with SU)")
    return raw[2:-2]


def _encode_public(key: bytes) -> str:
    raw = bytes([_USER_PREFIX]) + key
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


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
