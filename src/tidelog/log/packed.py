"""Packed segments: sealed ones, compressed or encrypted or both, that read like plain ones. docs/formats/packed.md.

Promises
  * `PackedFile` has the size, the positions and the bytes of the plain segment, its header included.
  * One flipped bit anywhere costs nothing: what describes the file is in it twice (`damage` says where one of the two
    is damaged), and a bit of a block is found by its checksum (`repairs` has what should stand where in the file, and
    `on_repair` is told, when the block is read).
  * Other damage costs the blocks that it hit and no others: `read` says which bytes of the plain segment they are,
    `read_lenient` has zeros in their place, `readable_ranges` lists the rest.
  * What a key does not open is never taken for damage.

A `PackedFile` may move between threads but is used by one at a time.

What it does not do: decide when to pack, write files, change what is packed (to erase a message, the segment is packed
anew), or find randomness (it is handed in).
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn

from tidelog.base.errors import BlockDamaged, KeyUnavailable, StorageError
from tidelog.base.limits import PACKED_BLOCK_SIZE, PACKED_BLOCKS_CACHED
from tidelog.disk.disk import Bytes, File
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.packed_block import (
    BLOCK_HEAD_SIZE,
    CHECK_SIZE,
    DESCRIPTION_SIZE,
    SALT_SIZE,
    SEGMENT_HEADER_SIZE,
    SEGMENT_MAGIC,
    TAG_SIZE,
    Cipher,
    Codec,
    Compression,
    Description,
    decode_description,
    decode_head,
    derive_salt,
    file_secrets,
    is_packed,
    with_flag,
)
from tidelog.log.record import checksum

__all__ = ["PackedFile", "describe", "is_packed", "pack"]

CompressionName = Literal["none", "zstd"]
CipherName = Literal["aes", "chacha"]

# position, stored size with the head, plain size
_ENTRY = struct.Struct("<QII")
_TABLE_CRC_SIZE = 4
_BLOCKS_POS = SEGMENT_HEADER_SIZE + DESCRIPTION_SIZE
_SMALLEST = _BLOCKS_POS + _TABLE_CRC_SIZE + DESCRIPTION_SIZE


def pack(
    data: Bytes,
    compression: CompressionName,
    key: Key | None,
    chance: bytes = b"",
    cipher: CipherName = "aes",
    block_size: int = PACKED_BLOCK_SIZE,
) -> bytes:
    """The file that takes the place of a plain segment. With a key, `chance` is SALT_SIZE fresh random bytes."""
    view = memoryview(data).cast("B")
    header = bytes(view[:SEGMENT_HEADER_SIZE])
    assert header[:8] == SEGMENT_MAGIC, "a segment begins with its header"
    assert not is_packed(header), "packed already"
    assert key is None or len(chance) == SALT_SIZE, "sealing needs randomness"
    sealed_by, salt, check = Cipher.NONE, bytes(SALT_SIZE), bytes(CHECK_SIZE)
    if key is not None:
        sealed_by = Cipher[cipher.upper()]
        salt = derive_salt(key, chance, view)
        _, check = file_secrets(key, sealed_by, salt)
    description = Description(
        Compression[compression.upper()],
        sealed_by,
        len(view),
        block_size,
        salt,
        check,
        key.id if key is not None else "",
        header,
    )
    codec = Codec(description, key)
    described = description.encode()
    parts, entries, pos = [with_flag(header, True), described], [], _BLOCKS_POS
    for number in range(description.blocks):
        start_pos, end_pos = description.range_of(number)
        block = codec.encode(number, bytes(view[start_pos:end_pos]))
        parts.append(block)
        entries.append(_ENTRY.pack(pos, len(block), end_pos - start_pos))
        pos += len(block)
    table = b"".join(entries)
    return b"".join([*parts, table, checksum(table).to_bytes(_TABLE_CRC_SIZE, "little"), described])


class PackedFile:
    """A `File` that cannot be changed. Closing it closes the file that it wraps."""

    def __init__(self, file: File, keys: KeyRing | None = None) -> None:
        self.file = file
        # Damage that costs nothing, in words.
        self.damage: list[str] = []
        # By position in the file, the bytes that should stand there.
        self.repairs: dict[int, bytes] = {}
        self.on_repair: Callable[[int], None] | None = None
        self.description = self._describe()
        self.size = self.description.plain_size
        self._codec = Codec(self.description, self._key(keys))
        # Position and size of each block; None if they are not known.
        self._places = self._read_table() or self._walk()
        self._cache: OrderedDict[int, bytes] = OrderedDict()

    # ---- what a plain segment has ----

    def read(self, pos: int, size: int) -> bytes:
        """As of the plain segment. BlockDamaged names the bytes that are lost, if any of these are."""
        return self._read(pos, size, lenient=False)

    def read_lenient(self, pos: int, size: int) -> bytes:
        """The same, with zeros for what is lost."""
        return self._read(pos, size, lenient=True)

    def readable_ranges(self) -> list[tuple[int, int]]:
        """What of the plain segment can be read, from where to where. Reads all of it."""
        ranges = [(0, SEGMENT_HEADER_SIZE)]
        for number in range(self.description.blocks):
            start_pos, end_pos = self.description.range_of(number)
            try:
                self._block(number)
            except BlockDamaged:
                continue
            if ranges[-1][1] == start_pos:
                start_pos = ranges.pop()[0]
            ranges.append((start_pos, end_pos))
        return ranges

    def sync(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self._cache.clear()
        self.file.close()

    def append(self, parts: Sequence[Bytes]) -> int:  # noqa: ARG002
        self._refuse()

    def write(self, pos: int, data: Bytes) -> None:  # noqa: ARG002
        self._refuse()

    def truncate(self, size: int) -> None:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StorageError("a packed segment cannot be changed, only packed anew")

    # ---- blocks ----

    def _read(self, pos: int, size: int, lenient: bool) -> bytes:
        assert pos >= 0
        stop = min(pos + size, self.size)
        if stop <= pos:
            return b""
        parts = [self.description.header[pos:stop]]
        block_size = self.description.block_size
        first = max(pos - SEGMENT_HEADER_SIZE, 0) // block_size
        past = -(-(stop - SEGMENT_HEADER_SIZE) // block_size)
        for number in range(first, past):
            start_pos, end_pos = self.description.range_of(number)
            try:
                block = self._block(number)
            except BlockDamaged:
                if not lenient:
                    raise
                block = bytes(end_pos - start_pos)
            parts.append(block[max(pos - start_pos, 0) : stop - start_pos])
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        kept = self._cache.get(number)
        if kept is not None:
            self._cache.move_to_end(number)
            return kept
        place = self._places[number]
        try:
            if place is None:
                raise ValueError("it cannot be found")
            stored = self.file.read(*place)
            plain, right = self._codec.restore(number, stored)
        except ValueError as error:
            start_pos, end_pos = self.description.range_of(number)
            raise BlockDamaged(start_pos, end_pos, str(error)) from None
        if right != stored:
            self._note_repair(place[0], stored, right)
        self._cache[number] = plain
        if len(self._cache) > PACKED_BLOCKS_CACHED:
            self._cache.popitem(last=False)
        return plain

    def _note_repair(self, pos: int, stored: bytes, right: bytes) -> None:
        wrong = [at for at, (one, other) in enumerate(zip(stored, right, strict=True)) if one != other]
        self.repairs[pos + wrong[0]] = right[wrong[0] : wrong[-1] + 1]
        if self.on_repair is not None:
            self.on_repair(pos + wrong[0])

    # ---- opening ----

    def _describe(self) -> Description:
        header = self.file.read(0, SEGMENT_HEADER_SIZE)
        front, back = _descriptions(self.file)
        description = describe(self.file)
        if with_flag(description.header, True) != header:
            self.damage.append("the header")
        if front is None:
            self.damage.append("the description at the front")
        if back is None:
            self.damage.append("the description at the end")
        return description

    def _key(self, keys: KeyRing | None) -> Key | None:
        if self.description.cipher is Cipher.NONE:
            return None
        if keys is None:
            raise KeyUnavailable(
                self.description.key_id, "a packed segment was sealed with it, and no keys are given"
            )
        return keys.find(self.description.key_id)

    def _read_table(self) -> list[tuple[int, int] | None] | None:
        """None if it is damaged."""
        table_size = self.description.blocks * _ENTRY.size
        end_pos = self.file.size - DESCRIPTION_SIZE - _TABLE_CRC_SIZE
        if end_pos - table_size >= _BLOCKS_POS:
            table = self.file.read(end_pos - table_size, table_size + _TABLE_CRC_SIZE)
            table, crc = table[:table_size], table[table_size:]
            if int.from_bytes(crc, "little") == checksum(table):
                entries = [(pos, size) for pos, size, _ in _ENTRY.iter_unpack(table)]
                if all(self._possible(pos, size, number) for number, (pos, size) in enumerate(entries)):
                    return list(entries)
        self.damage.append("the block table")
        return None

    def _walk(self) -> list[tuple[int, int] | None]:
        """From head to head, without the table: a damaged head ends it."""
        places: list[tuple[int, int] | None] = []
        pos = _BLOCKS_POS
        for number in range(self.description.blocks):
            head = decode_head(self.file.read(pos, BLOCK_HEAD_SIZE))
            start_pos, end_pos = self.description.range_of(number)
            if head is None or head[1:] != (end_pos - start_pos, number):
                break
            size = BLOCK_HEAD_SIZE + head[0]
            if not self._possible(pos, size, number):
                break
            places.append((pos, size))
            pos += size
        return places + [None] * (self.description.blocks - len(places))

    def _possible(self, pos: int, size: int, number: int) -> bool:
        start_pos, end_pos = self.description.range_of(number)
        size_most = BLOCK_HEAD_SIZE + end_pos - start_pos + TAG_SIZE
        return pos >= _BLOCKS_POS and BLOCK_HEAD_SIZE <= size <= size_most and pos + size <= self.file.size


def describe(file: File) -> Description:
    """How the packed segment in `file` describes itself, by either of its ends."""
    front, back = _descriptions(file)
    description = front or back
    if description is None:
        raise StorageError("packed segment: both of its descriptions are damaged")
    return description


def _descriptions(file: File) -> tuple[Description | None, Description | None]:
    front = decode_description(file.read(SEGMENT_HEADER_SIZE, DESCRIPTION_SIZE))
    back = None
    if file.size >= _SMALLEST:
        back = decode_description(file.read(file.size - DESCRIPTION_SIZE, DESCRIPTION_SIZE))
    return front, back
