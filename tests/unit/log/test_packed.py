"""Packed segments: their bytes, their keys, and what damage costs."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.base.chance import Chance
from tidelog.base.errors import BlockDamaged, DiskFailed, KeyUnavailable, StorageError
from tidelog.base.limits import PACKED_BLOCK_SIZE, PACKED_BLOCK_SIZE_MOST, PACKED_BLOCKS_CACHED
from tidelog.disk.memory import MemoryFile, failure
from tidelog.log.flip import flipped
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.packed import PackedFile, is_packed, pack
from tidelog.log.packed_block import (
    DESCRIPTION_SIZE,
    SEGMENT_HEADER_SIZE,
    Cipher,
    Codec,
    Compression,
    Description,
    decode_description,
    with_flag,
)
from tidelog.log.record import checksum, decode, is_valid
from unit.log.packed_case import (
    CHANCE,
    METHODS,
    NEW,
    OLD,
    RING,
    SALT,
    Method,
    header,
    opened,
    packed,
    segment,
)

GOLDEN = Path(__file__).parent / "golden"
BLOCKS_POS = SEGMENT_HEADER_SIZE + DESCRIPTION_SIZE


def golden_name(method: Method) -> str:
    return f"packed-1-{method[0]}-{method[1] or 'plain'}"


@pytest.mark.parametrize("method", METHODS)
def test_golden_files_stay_readable(method: Method) -> None:
    stored = (GOLDEN / golden_name(method)).read_bytes()
    file = opened(stored)
    assert file.read(0, file.size) == segment()
    assert file.damage == []
    if method[0] == "none":
        # What zstd writes may change with its version.
        assert packed(segment(), method) == stored


@pytest.mark.parametrize("method", METHODS)
def test_a_segment_reads_the_same(method: Method) -> None:
    plain = segment(3000, 100)
    file = opened(packed(plain, method, PACKED_BLOCK_SIZE))
    assert file.size == len(plain) > 4 * PACKED_BLOCK_SIZE
    assert file.read(0, len(plain) + 5) == plain
    assert file.read(file.size - 3, 10) == plain[-3:]
    assert file.read(file.size, 10) == b""
    assert file.read(file.size + 10, 10) == b""
    assert file.readable_ranges() == [(0, len(plain))]
    assert not is_packed(file.read(0, SEGMENT_HEADER_SIZE))
    file.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("extra", [0, 1, 255, 256, 257])
def test_sizes_at_the_edges_of_blocks(method: Method, extra: int) -> None:
    plain = header() + bytes(extra)
    file = opened(packed(plain, method))
    assert (file.size, file.read(0, 1000)) == (len(plain), plain)


def test_the_header_says_packed_and_is_valid() -> None:
    stored = packed(segment(), ("zstd", None))
    assert is_packed(stored[:64])
    assert int.from_bytes(stored[8:12], "little") == checksum(stored[12:64])
    assert with_flag(stored[:64], False) == header()
    assert not is_packed(b"something else".ljust(64))


def test_zstd_makes_it_smaller_and_random_bytes_stay() -> None:
    assert len(packed(segment(1000), ("zstd", None), PACKED_BLOCK_SIZE)) < len(segment(1000)) / 3
    # Nothing repeats in the concatenated checksums of numbers.
    noise = header() + b"".join(checksum(b"%d" % i).to_bytes(4, "little") for i in range(500))
    none, zstd = packed(noise, ("none", None)), packed(noise, ("zstd", None))
    assert len(zstd) == len(none)


def test_what_is_sealed_cannot_be_seen() -> None:
    plain = segment()
    for method in METHODS:
        stored = packed(plain, method)
        assert (b"orders" in stored) is (method[1] is None)
        assert NEW.secret not in stored


def test_two_files_share_no_key() -> None:
    """Neither with other randomness nor, should that repeat, with other contents."""
    one = opened(packed(segment(), ("none", "aes"))).description
    same = opened(packed(segment(), ("none", "aes"))).description
    changed = opened(packed(segment(13), ("none", "aes"))).description
    other = opened(pack(segment(), "none", NEW, bytes(32))).description
    assert one == same
    assert len({one.salt, changed.salt, other.salt}) == 3
    assert len({one.check, changed.check, other.check}) == 3


def test_rotated_keys_open() -> None:
    stored = packed(segment(), ("zstd", "chacha"), key=OLD)
    assert opened(stored, RING).read(0, 1000) == segment()[:1000]


def test_keys_that_are_not_there() -> None:
    stored = packed(segment(), ("zstd", "aes"))
    with pytest.raises(KeyUnavailable, match="'new'") as caught:
        opened(stored, KeyRing((OLD,)))
    assert caught.value.key_id == "new"
    with pytest.raises(KeyUnavailable, match="no keys are given"):
        opened(stored, None)
    with pytest.raises(KeyUnavailable, match="not the one") as caught:
        opened(stored, KeyRing((Key("new", bytes(32)),)))
    assert "0000" not in str(caught.value)


def test_without_a_cipher_no_key_is_needed() -> None:
    assert opened(packed(segment(), ("zstd", None)), None).size == len(segment())


@pytest.mark.parametrize("method", METHODS)
def test_no_flipped_bit_costs_anything(method: Method) -> None:
    """Header, descriptions, heads and bytes of blocks, checksums, table: each bit of them."""
    plain = segment(8, 20, SALT)
    stored = packed(plain, method, 128)
    mended = 0
    for bit in range(8 * len(stored)):
        file = opened(flipped(stored, bit))
        told: list[int] = []
        file.on_repair = told.append
        assert file.read(0, file.size) == plain
        assert file.readable_ranges() == [(0, len(plain))]
        assert len(file.damage) + len(file.repairs) == 1, "no damage is silent"
        assert told == list(file.repairs)
        for pos, right in file.repairs.items():
            assert pos <= bit // 8 < pos + len(right)
            assert stored[pos : pos + len(right)] == right
            mended += 1
    assert mended > 8 * len(plain) // 3


@pytest.mark.parametrize("method", METHODS)
def test_bits_of_a_large_block(method: Method) -> None:
    plain = segment(1500, 100, SALT)
    stored = packed(plain, method, PACKED_BLOCK_SIZE)
    chance = Chance(1)
    for _ in range(100):
        file = opened(flipped(stored, chance.integer(8 * len(stored))))
        assert file.read(0, file.size) == plain


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bits", [2, 3, 4, 40])
def test_more_flipped_bits_cost_their_block_and_are_never_read_wrong(method: Method, bits: int) -> None:
    plain = segment(40, 20, SALT)
    stored = packed(plain, method, 256)
    file = opened(stored)
    first = BLOCKS_POS + 16
    past = (
        first + 256
        if method[0] == "none"
        else first + int.from_bytes(stored[first - 12 : first - 8], "little")
    )
    chance = Chance(bits)
    for _ in range(300):
        damaged = stored
        places = {8 * first + chance.integer(8 * (past - first)) for _ in range(bits)}
        for bit in places:
            damaged = flipped(damaged, bit)
        file = opened(damaged)
        lost = [number for number in range(file.description.blocks) if is_lost(file, number)]
        assert lost == ([0] if len(places) > 1 else [])
        assert file.read_lenient(0, file.size)[64 + 256 :] == plain[64 + 256 :]


def test_what_is_flipped_back_has_to_be_records() -> None:
    """A checksum that was made to blame one bit; nothing else says that it is right."""
    plain = segment(8, 20, SALT)
    stored = bytearray(packed(plain, ("none", None), 128))
    block = stored[BLOCKS_POS + 4 : BLOCKS_POS + 16 + 128]
    block[40:60] = bytes(20)
    stored[BLOCKS_POS : BLOCKS_POS + 4] = checksum(flipped(bytes(block), 500)).to_bytes(4, "little")
    stored[BLOCKS_POS + 4 : BLOCKS_POS + 16 + 128] = block
    file = opened(bytes(stored))
    assert is_lost(file, 0)
    assert file.repairs == {}


def is_lost(file: PackedFile, number: int) -> bool:
    start_pos, end_pos = file.description.range_of(number)
    try:
        file.read(start_pos + 1, 1)
    except BlockDamaged as error:
        caught = error
    else:
        return False
    assert (caught.start_pos, caught.end_pos) == (start_pos, end_pos)
    assert f"{start_pos} to {end_pos}" in str(caught)
    return True


def test_records_behind_a_lost_block_are_there() -> None:
    plain = segment(40, 40)
    data = bytearray(packed(plain, ("none", "aes")))
    data[BLOCKS_POS + 30] ^= 3
    survey = opened(bytes(data)).read_lenient(0, len(plain))
    record_size = (len(plain) - 64) // 40
    whole = [n for n in range(40) if is_valid(survey[64 + n * record_size :])]
    assert whole == list(range(-(-256 // record_size), 40))
    assert decode(survey, 64 + 39 * record_size)["seq"] == 1039


@pytest.mark.parametrize("method", METHODS)
def test_without_its_end_the_rest_is_found(method: Method) -> None:
    """Cut off in a block: table and second description are gone, the blocks in front are not."""
    plain = segment()
    stored = packed(plain, method)
    for size in range(len(stored) - 1, BLOCKS_POS, -37):
        file = opened(stored[:size])
        assert file.damage
        ranges = file.readable_ranges()
        assert len(ranges) == 1
        assert file.read(0, ranges[0][1]) == plain[: ranges[0][1]]
        assert file.read_lenient(0, len(plain)) == plain[: ranges[0][1]].ljust(len(plain), b"\0")


def test_what_was_altered_on_purpose_does_not_open() -> None:
    """Blocks with checksums that match, in places that are not theirs."""
    plain = segment(40, 40)
    for method in METHODS:
        if method[1] is None:
            continue
        file = opened(packed(plain, ("none", method[1])))
        codec = Codec(file.description, NEW)
        first = codec.encode(0, plain[64:320])
        moved = first[4:12] + (1).to_bytes(4, "little") + first[16:]
        with pytest.raises(ValueError, match="altered"):
            codec.decode(1, checksum(moved).to_bytes(4, "little") + moved)
        assert codec.decode(0, first) == plain[64:320]


@pytest.mark.parametrize("stored", [b"not zstd", b"", b"\x28\xb5\x2f\xfd"])
def test_bytes_that_do_not_decompress(stored: bytes) -> None:
    facts = Description(Compression.ZSTD, Cipher.NONE, 64 + 100, 256, bytes(32), bytes(16), "", header())
    rest = len(stored).to_bytes(4, "little") + (100).to_bytes(4, "little") + bytes(4) + stored
    with pytest.raises(ValueError, match="decompressed"):
        Codec(facts, None).decode(0, checksum(rest).to_bytes(4, "little") + rest)


def test_a_block_that_would_grow_beyond_its_size_is_refused() -> None:
    large = Description(
        Compression.ZSTD, Cipher.NONE, 64 + 1_000_000, 1_000_000, bytes(32), bytes(16), "", header()
    )
    bomb = Codec(large, None).encode(0, bytes(1_000_000))[16:]
    assert len(bomb) < 100
    small = Description(Compression.ZSTD, Cipher.NONE, 64 + 200, 256, bytes(32), bytes(16), "", header())
    rest = len(bomb).to_bytes(4, "little") + (200).to_bytes(4, "little") + bytes(4) + bomb
    with pytest.raises(ValueError, match="decompressed"):
        Codec(small, None).decode(0, checksum(rest).to_bytes(4, "little") + rest)


@pytest.mark.parametrize(
    ("pos", "value", "message"),
    [
        (12, 2, "version 2"),
        (13, 9, "compression 9"),
        (14, 9, "cipher 9"),
        (17, 99, "sizes"),
        (28, 99, "sizes"),
    ],
)
def test_what_a_later_release_may_write_is_refused(pos: int, value: int, message: str) -> None:
    described = bytearray(packed(segment(), ("none", None))[SEGMENT_HEADER_SIZE:BLOCKS_POS])
    described[pos] = value
    described[8:12] = checksum(bytes(described[12:])).to_bytes(4, "little")
    with pytest.raises(StorageError, match=message):
        decode_description(bytes(described))


@pytest.mark.parametrize("by", [0, 1])
def test_blocks_are_of_a_bounded_size(by: int) -> None:
    facts = Description(
        Compression.NONE, Cipher.NONE, 100, PACKED_BLOCK_SIZE_MOST + by, bytes(32), bytes(16), "", header()
    )
    if by:
        with pytest.raises(StorageError, match="sizes"):
            decode_description(facts.encode())
    else:
        assert decode_description(facts.encode()) == facts


@pytest.mark.parametrize("data", [b"", segment(), bytes(1000)])
def test_a_file_that_is_no_packed_segment(data: bytes) -> None:
    with pytest.raises(StorageError, match="descriptions"):
        opened(data)


def test_it_cannot_be_changed() -> None:
    file = opened(packed(segment(), ("none", None)))
    for call in (lambda: file.append([b"x"]), lambda: file.write(70, b"x"), lambda: file.truncate(64)):
        with pytest.raises(StorageError, match="packed anew"):
            call()
    file.sync()


class CountingFile(MemoryFile):
    reads = 0

    def read(self, pos: int, size: int) -> bytes:
        self.reads += 1
        return super().read(pos, size)


def test_the_last_blocks_are_kept() -> None:
    counting = CountingFile(bytearray(packed(segment(100), ("zstd", "aes"))))
    file = PackedFile(counting, RING)
    counting.reads = 0
    for _ in range(3):
        for number in range(PACKED_BLOCKS_CACHED):
            file.read(64 + 256 * number, 10)
    assert counting.reads == PACKED_BLOCKS_CACHED
    file.read(64 + 256 * PACKED_BLOCKS_CACHED, 10)
    file.read(64 + 256, 10)
    assert counting.reads == PACKED_BLOCKS_CACHED + 1, "the one that was used longest ago has gone, no other"
    file.read(64, 10)
    assert counting.reads == PACKED_BLOCKS_CACHED + 2


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, tidelog.log.packed, tidelog.log.key_ring;"
        "print([name for name in sys.modules if 'zstd' in name or name.startswith('cryptography')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.strip() == "[]"


class RefusingFile(MemoryFile):
    refusing = False

    def read(self, pos: int, size: int) -> bytes:
        if self.refusing:
            raise failure("read", "a", errno.EIO)
        return super().read(pos, size)


def test_a_disk_that_refuses_is_not_taken_for_damage() -> None:
    refusing = RefusingFile(bytearray(packed(segment(), ("zstd", "aes"))))
    file = PackedFile(refusing, RING)
    refusing.refusing = True
    with pytest.raises(DiskFailed):
        file.read_lenient(0, file.size)
    with pytest.raises(DiskFailed):
        file.readable_ranges()
    refusing.refusing = False
    assert file.read(0, file.size) == segment()


def test_sealing_asks_for_randomness() -> None:
    with pytest.raises(AssertionError, match="randomness"):
        pack(segment(), "none", NEW)
    assert len(CHANCE) == 32
