"""Small packed segments for tests."""

from tidelog.disk.memory import MemoryFile
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.packed import CipherName, CompressionName, PackedFile, pack
from tidelog.log.packed_block import with_flag
from tidelog.log.record import encode_message

OLD = Key("old", bytes(range(32)))
NEW = Key("new", bytes(range(100, 132)))
RING = KeyRing((NEW, OLD))
CHANCE = bytes(range(200, 232))

Method = tuple[CompressionName, CipherName | None]
METHODS: list[Method] = [
    (compression, cipher)
    for compression in ("none", "zstd")  # type: ignore[misc]
    for cipher in (None, "aes", "chacha")
]


def header(base_seq: int = 1000) -> bytes:
    facts = (1).to_bytes(2, "little") + bytes(2) + b"the id of a log!" + base_seq.to_bytes(8, "little")
    return with_flag(
        b"TIDESEG1" + bytes(4) + facts + (1_700_000_000).to_bytes(8, "little") + bytes(16), False
    )


SALT = int.from_bytes(header()[16:20], "little")


def segment(messages: int = 12, payload_size: int = 40, salt: int = 0) -> bytes:
    """With the salt SALT its records are those of its log; the golden files have none."""
    records = [
        encode_message(
            1000 + number, number, b"orders.new", b"", b"%04d" % number * (payload_size // 4), salt=salt
        )
        for number in range(messages)
    ]
    return header() + b"".join(records)


def packed(plain: bytes, method: Method, block_size: int = 256, key: Key = NEW) -> bytes:
    compression, cipher = method
    if cipher is None:
        return pack(plain, compression, None, block_size=block_size)
    return pack(plain, compression, key, CHANCE, cipher, block_size)


def opened(data: bytes, keys: KeyRing | None = RING) -> PackedFile:
    return PackedFile(MemoryFile(bytearray(data)), keys)
