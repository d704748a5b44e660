"""Blocks of S2, as the format says them, and bytes that are none."""

import random

import pytest

from tidelog.base.s2 import decode


def literal(data: bytes) -> bytes:
    if len(data) <= 60:
        return bytes([len(data) - 1 << 2]) + data
    size = len(data) - 1
    width = max(1, (size.bit_length() + 7) // 8)
    return bytes([59 + width << 2]) + size.to_bytes(width, "little") + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("size", [1, 59, 60, 61, 256, 257, 65_536, 65_537, 200_000])
def test_literals_of_every_width(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert decode(varint(size) + literal(data), size) == data


@pytest.mark.parametrize(
    ("parts", "made"),
    [
        # A short copy: length 4 to 11, offset of eleven bits.
        (literal(b"abcd") + b"\x11\x04", b"abcd" + b"abcdabcd"),
        # Of one byte, over what the copy itself makes.
        (literal(b"x") + b"\x1d\x01", b"x" * 12),
        # Offsets of two and of four bytes, length 1 to 64.
        (literal(b"abcd") + b"\x0a\x03\x00", b"abcdbcd"),
        (literal(b"abcd") + b"\xff\x02\x00\x00\x00", b"abcd" + b"cd" * 32),
        # The last offset once more: 4 to 8, then with one, two and three bytes of length.
        (literal(b"ab") + b"\x0a\x02\x00" + b"\x01\x00", b"ab" + b"aba" + b"baba"),
        (literal(b"ab") + b"\x0a\x02\x00" + b"\x15\x00\x02", b"ab" + b"aba" + b"babababab" + b"a"),
        (literal(b"a") + b"\x02\x01\x00" + b"\x19\x00\x01\x01", b"a" * (2 + 257 + 256 + 4)),
        (literal(b"a") + b"\x02\x01\x00" + b"\x1d\x00\x01\x00\x00", b"a" * (2 + 1 + 65_536 + 4)),
    ],
)
def test_copies(parts: bytes, made: bytes) -> None:
    assert decode(varint(len(made)) + parts, 1 << 20) == made


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"", "size"),
        (b"\x80", "size"),
        (b"\xff" * 6, "size"),
        (varint(101) + literal(b"x" * 101), "too large"),
        (varint(5) + literal(b"abcd"), "cut short"),
        (varint(3) + literal(b"abcd"), "damaged"),
        (varint(5) + b"\x10abc", "cut short"),
        (varint(5) + b"\xf0", "damaged"),
        (varint(8) + literal(b"abcd") + b"\x01\x05", "damaged"),
        (varint(8) + literal(b"abcd") + b"\x01\x00", "damaged"),
        (varint(8) + literal(b"abcd") + b"\x0e\x00\x00", "damaged"),
        (varint(8) + literal(b"abcd") + b"\x0e\x01", "damaged"),
    ],
)
def test_what_is_no_block_is_refused(block: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(block, 100)


def test_whatever_the_bytes_are() -> None:
    chance = random.Random(1)
    for _ in range(20_000):
        block = varint(chance.randrange(200)) + chance.randbytes(chance.randrange(60))
        try:
            assert len(decode(block, 200)) <= 200
        except ValueError:
            continue
