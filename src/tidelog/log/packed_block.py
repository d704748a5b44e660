"""How a packed segment describes itself, and how its blocks are made and undone. docs/formats/packed.md has the bytes.

Promises
  * No nonce is used twice under a key: the key of a file is derived from its salt, and the salt from randomness and
    what is sealed, so that even bad randomness does not lead to it. Within a file the nonce is the block's number.
  * A block opens only where it was put: its log, its segment, its place, its size.
  * Undoing a block costs at most what its description allows, whatever its bytes are.
  * One flipped bit in a block, its head and checksum included, costs nothing. What is flipped back is believed only
    when the seal opens, or else when it decompresses and its records are valid.

zstd and ciphers are imported with the first block that needs them: they take milliseconds that a start does not have.

What it does not do: files, tables, and choosing keys.
"""

import hashlib
import hmac
import struct
import sys
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import Protocol

from tidelog.base.errors import KeyUnavailable, StorageError
from tidelog.base.limits import KEY_ID_SIZE, PACKED_BLOCK_SIZE_MOST, PACKED_ZSTD_LEVEL
from tidelog.log.flip import find_flip, flipped
from tidelog.log.key_ring import Key
from tidelog.log.record import RECORD_HEADER_SIZE, checksum, find_valid, is_valid

SEGMENT_MAGIC = b"TIDESEG1"
SEGMENT_HEADER_SIZE = 64
PACKED_FLAG = 1
_FLAGS_POS = 14

MAGIC = b"TIDEPAK1"
VERSION = 1
SALT_SIZE = 32
CHECK_SIZE = 16
TAG_SIZE = 16
_FRONT = struct.Struct("<8sI")
_FACTS = struct.Struct(f"<BBBBQII{SALT_SIZE}s{CHECK_SIZE}s12x{KEY_ID_SIZE}s{SEGMENT_HEADER_SIZE}s")
DESCRIPTION_SIZE = _FRONT.size + _FACTS.size

# checksum, stored size, plain size, number
_HEAD = struct.Struct("<IIII")
BLOCK_HEAD_SIZE = _HEAD.size
_CRC_SIZE = 4
_SEQ_MOST = 2**64 - 1
_AAD = struct.Struct("<16sQQII")
_LOG_ID = slice(16, 32)
_BASE_SEQ = slice(32, 40)


class Compression(IntEnum):
    NONE = 0
    ZSTD = 1


class Cipher(IntEnum):
    NONE = 0
    AES = 1
    CHACHA = 2


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that reading needs but the key. Stored at both ends of the file."""

    compression: Compression
    cipher: Cipher
    plain_size: int
    block_size: int
    salt: bytes
    check: bytes
    key_id: str
    # That of the plain segment.
    header: bytes

    @property
    def blocks(self) -> int:
        return -(-(self.plain_size - SEGMENT_HEADER_SIZE) // self.block_size)

    def range_of(self, number: int) -> tuple[int, int]:
        """Where the bytes of a block begin and end in the plain segment."""
        start_pos = SEGMENT_HEADER_SIZE + number * self.block_size
        return start_pos, min(start_pos + self.block_size, self.plain_size)

    def encode(self) -> bytes:
        facts = _FACTS.pack(
            VERSION,
            self.compression,
            self.cipher,
            len(self.key_id),
            self.plain_size,
            self.block_size,
            self.blocks,
            self.salt,
            self.check,
            self.key_id.encode(),
            self.header,
        )
        return _FRONT.pack(MAGIC, checksum(facts)) + facts


def decode_description(data: bytes) -> Description | None:
    """None if that is no description, or damaged."""
    facts = data[_FRONT.size :]
    if len(facts) != _FACTS.size or data[: _FRONT.size] != _FRONT.pack(MAGIC, checksum(facts)):
        return None
    version, compression, cipher, id_size, plain_size, block_size, blocks, salt, check, key_id, header = (
        _FACTS.unpack(facts)
    )
    if version != VERSION:
        raise StorageError(
            f"packed segment: version {version} is not known to this release, which reads {VERSION}"
        )
    try:
        description = Description(
            Compression(compression),
            Cipher(cipher),
            plain_size,
            block_size,
            salt,
            check,
            key_id[:id_size].decode("ascii"),
            header,
        )
    except ValueError:
        raise StorageError(
            f"packed segment: compression {compression} or cipher {cipher} is not known"
        ) from None
    sizes_fit = 0 < block_size <= PACKED_BLOCK_SIZE_MOST and plain_size >= SEGMENT_HEADER_SIZE
    if not sizes_fit or description.blocks != blocks:
        raise StorageError("packed segment: its sizes do not add up")
    return description


def with_flag(header: bytes, packed: bool) -> bytes:
    """The segment's header with the flag set or not, and the checksum that belongs to it."""
    flags = int.from_bytes(header[_FLAGS_POS : _FLAGS_POS + 2], "little")
    flags = flags | PACKED_FLAG if packed else flags & ~PACKED_FLAG
    rest = header[12:_FLAGS_POS] + flags.to_bytes(2, "little") + header[_FLAGS_POS + 2 :]
    return header[:8] + checksum(rest).to_bytes(4, "little") + rest


def is_packed(header: bytes) -> bool:
    """Whether a segment that begins with these bytes is a packed one."""
    return header[:8] == SEGMENT_MAGIC and bool(
        int.from_bytes(header[_FLAGS_POS : _FLAGS_POS + 2], "little") & PACKED_FLAG
    )


class _Aead(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


class Codec:
    """Makes and undoes the blocks of one file."""

    def __init__(self, description: Description, key: Key | None) -> None:
        self.description = description
        self._aead: _Aead | None = None
        if description.cipher is not Cipher.NONE:
            assert key is not None, "sealed, and no key"
            file_key, check = file_secrets(key, description.cipher, description.salt)
            if not hmac.compare_digest(check, description.check):
                raise KeyUnavailable(
                    key.id, "is not the one of this id that a packed segment was sealed with"
                )
            self._aead = _aead(description.cipher, file_key)

    def encode(self, number: int, plain: bytes) -> bytes:
        """A whole block, head included."""
        stored = plain
        if self.description.compression is Compression.ZSTD:
            stored = _zstd().compress(plain, PACKED_ZSTD_LEVEL)
            # What does not shrink is stored as it is: its size tells.
            if len(stored) >= len(plain):
                stored = plain
        if self._aead is not None:
            stored = self._aead.encrypt(_nonce(number), stored, self._place(number, len(plain)))
        rest = struct.pack("<III", len(stored), len(plain), number) + stored
        return checksum(rest).to_bytes(4, "little") + rest

    def decode(self, number: int, block: bytes) -> bytes:
        """The plain bytes; ValueError says why there are none."""
        return self.restore(number, block)[0]

    def restore(self, number: int, block: bytes) -> tuple[bytes, bytes]:
        """The plain bytes, and the block as it should be, which is `block` unless a bit of it was flipped."""
        start_pos, end_pos = self.description.range_of(number)
        plain_size = end_pos - start_pos
        if len(block) < BLOCK_HEAD_SIZE:
            raise ValueError("it is cut short")
        # What the head says is known.
        stored_size = len(block) - BLOCK_HEAD_SIZE
        rest = struct.pack("<III", stored_size, plain_size, number) + block[BLOCK_HEAD_SIZE:]
        crc = int.from_bytes(block[:_CRC_SIZE], "little")
        if crc != checksum(rest):
            bit = find_flip(rest, crc)
            if bit is None or rest[: BLOCK_HEAD_SIZE - _CRC_SIZE] != block[_CRC_SIZE:BLOCK_HEAD_SIZE]:
                raise ValueError("its checksum does not match")
            rest = flipped(rest, bit) if bit >= 0 else rest
        right = checksum(rest).to_bytes(_CRC_SIZE, "little") + rest
        plain = self._undo(number, right[BLOCK_HEAD_SIZE:], plain_size)
        if right != block and self._aead is None and not self._has_valid_records(number, plain):
            raise ValueError("its checksum does not match")
        return plain, right

    def _undo(self, number: int, stored: bytes, plain_size: int) -> bytes:
        if self._aead is not None:
            from cryptography.exceptions import InvalidTag

            try:
                stored = self._aead.decrypt(_nonce(number), stored, self._place(number, plain_size))
            except InvalidTag:
                raise ValueError("it was altered after it was sealed") from None
        if self.description.compression is Compression.ZSTD and len(stored) != plain_size:
            stored = _decompress(stored, plain_size)
        if len(stored) != plain_size:
            raise ValueError("its size is wrong")
        return stored

    def _has_valid_records(self, number: int, plain: bytes) -> bool:
        """Whether all records that lie within the block are valid; those on its edges are judged when they are read."""
        salt = int.from_bytes(self.description.header[_LOG_ID][:4], "little")
        pos = find_valid(plain, 0, 0, _SEQ_MOST, salt) if number else 0
        while 0 <= pos <= len(plain) - RECORD_HEADER_SIZE:
            size = int.from_bytes(plain[pos + 4 : pos + 8], "little")
            if pos + size > len(plain):
                break
            if not is_valid(plain, pos, salt):
                return False
            pos += size
        return True

    def _place(self, number: int, plain_size: int) -> bytes:
        header = self.description.header
        base_seq = int.from_bytes(header[_BASE_SEQ], "little")
        return _AAD.pack(header[_LOG_ID], base_seq, self.description.plain_size, number, plain_size)


def decode_head(block: bytes) -> tuple[int, int, int] | None:
    """Stored size, plain size and number, whether they are true or not."""
    if len(block) < BLOCK_HEAD_SIZE:
        return None
    _, stored_size, plain_size, number = _HEAD.unpack_from(block)
    return stored_size, plain_size, number


def is_whole(block: bytes) -> bool:
    return int.from_bytes(block[:4], "little") == checksum(block[4:])


def derive_salt(key: Key, chance: bytes, data: bytes | bytearray | memoryview) -> bytes:
    """Different for each file, because of the random bytes; and if those should ever repeat, for different data."""
    digest = hmac.new(key.secret, b"tidelog packed salt 1" + chance, hashlib.sha256)
    digest.update(data)
    return digest.digest()


def file_secrets(key: Key, cipher: Cipher, salt: bytes) -> tuple[bytes, bytes]:
    """The key of a file, and what tells the right key from another with its name."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"tidelog packed segment 1" + bytes([cipher])
    derived = HKDF(SHA256(), 32 + CHECK_SIZE, salt, info).derive(key.secret)
    return derived[:32], derived[32:]


def _aead(cipher: Cipher, file_key: bytes) -> _Aead:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    return AESGCM(file_key) if cipher is Cipher.AES else ChaCha20Poly1305(file_key)


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _decompress(data: bytes, plain_size: int) -> bytes:
    zstd = _zstd()
    decompressor = zstd.ZstdDecompressor()
    try:
        plain: bytes = decompressor.decompress(data, plain_size + 1)
    except zstd.ZstdError:
        raise ValueError("it cannot be decompressed") from None
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("it cannot be decompressed")
    return plain
