"""NATS keys: ed25519 keys as readable text.

A public key is the base32 text, without padding, of

    prefix (1 byte: 5 bits of kind, 3 zero bits) | key (32 bytes) | CRC-16/XMODEM of both, little-endian

so that its first letter names the kind: U user, A account, N server. A seed holds the secret that the key
comes from; its first letter is S, its second the kind:

    (seed prefix, high bits of kind) | (low bits of kind, zero bits) | seed (32 bytes) | CRC

Texts are valid if they have the right size, alphabet, checksum and prefix. No error or return value of this
module repeats a seed. Signatures are checked by `cryptography`, which is imported with the first one: it is
slow to import.
"""

import base64
import binascii
import os
import re
from collections.abc import Callable
from enum import IntEnum

KEY_SIZE = 32
SIGNATURE_SIZE = 64
NONCE_SIZE = 11

_SEED = 18 << 3
_CRC_SIZE = 2
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")


class Kind(IntEnum):
    """The prefix byte of a public key."""

    ACCOUNT = 0 << 3
    SERVER = 13 << 3
    USER = 20 << 3


def encode_public(kind: Kind, key: bytes) -> str:
    """The text of a public key."""
    assert len(key) == KEY_SIZE
    return _encode(bytes([kind]) + key)


def decode_public(text: str, kind: Kind) -> bytes:
    """The 32 bytes of a public key of this kind. Raises ValueError."""
    raw = _decode(text, 1 + KEY_SIZE)
    if raw[0] != kind:
        raise ValueError(f"not a public key of kind {kind.name}")
    return raw[1:]


def is_public(text: str, kind: Kind) -> bool:
    """Whether `text` is a valid public key of this kind."""
    try:
        decode_public(text, kind)
    except ValueError:
        return False
    return True


def encode_seed(kind: Kind, seed: bytes) -> str:
    """The text of a seed. Keep it secret."""
    assert len(seed) == KEY_SIZE
    return _encode(bytes([_SEED | kind >> 5, (kind & 31) << 3]) + seed)


def decode_seed(text: str) -> tuple[Kind, bytes]:
    """Kind and bytes of a seed. Raises ValueError, which does not repeat it."""
    raw = _decode(text, 2 + KEY_SIZE)
    if raw[0] & 0xF8 != _SEED:
        raise ValueError("not a seed")
    return Kind((raw[0] & 7) << 5 | raw[1] >> 3), raw[2:]


def new_server_id(chance: Callable[[int], bytes] = os.urandom) -> str:
    """A server's name for itself. Nobody signs with it, so no key pair is made."""
    return encode_public(Kind.SERVER, chance(KEY_SIZE))


def new_nonce(chance: Callable[[int], bytes] = os.urandom) -> str:
    """What a client must sign."""
    return base64.urlsafe_b64encode(chance(NONCE_SIZE)).rstrip(b"=").decode()


def verify(public: str, message: bytes, signature: str) -> bool:
    """Whether user `public` signed `message`; `signature` is base64url without padding, or plain base64."""
    raw = _decode_signature(signature)
    if raw is None:
        return False
    try:
        key = decode_public(public, Kind.USER)
    except ValueError:
        return False
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(raw, message)
    except InvalidSignature:
        return False
    return True


def _decode_signature(text: str) -> bytes | None:
    try:
        if _URL_SAFE.fullmatch(text):
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        else:
            raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if len(raw) == SIGNATURE_SIZE else None


def _encode(raw: bytes) -> str:
    checksum = binascii.crc_hqx(raw, 0).to_bytes(_CRC_SIZE, "little")
    return base64.b32encode(raw + checksum).rstrip(b"=").decode()


def _decode(text: str, size: int) -> bytes:
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        raise ValueError("not base32") from None
    # The last character may carry bits that belong to no byte; only one spelling is valid.
    if len(raw) != size + _CRC_SIZE or base64.b32encode(raw).rstrip(b"=").decode() != text:
        raise ValueError("not a key: wrong size")
    if binascii.crc_hqx(raw[:size], 0).to_bytes(_CRC_SIZE, "little") != raw[size:]:
        raise ValueError("not a key: wrong checksum")
    return raw[:size]
