"""A checksum that does not match names the bit that was flipped."""

import pytest

from tidelog.base.chance import Chance
from tidelog.log.flip import find_flip, flipped
from tidelog.log.record import checksum


def data_of(size: int) -> bytes:
    chance = Chance(size)
    return bytes(chance.integer(256) for _ in range(size))


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_each_bit_is_found(size: int) -> None:
    data = data_of(size)
    said = checksum(data)
    for bit in range(8 * size):
        assert find_flip(flipped(data, bit), said) == bit
    for bit in range(32):
        assert find_flip(data, said ^ 1 << bit) == -1
    assert find_flip(data, said) is None


@pytest.mark.parametrize("bit", [0, 1, 8 * 65_536 * 16 - 1])
def test_the_ends_of_a_large_block(bit: int) -> None:
    data = bytes(16) * 65_536
    assert find_flip(flipped(data, bit), checksum(data)) == bit


def test_two_are_never_taken_for_one() -> None:
    data, chance = data_of(200), Chance(1)
    said = checksum(data)
    for _ in range(3000):
        one, other = chance.integer(8 * 200 + 32), chance.integer(8 * 200 + 32)
        if one == other:
            continue
        wrong, wrong_said = data, said
        for bit in (one, other):
            if bit < 8 * 200:
                wrong = flipped(wrong, bit)
            else:
                wrong_said ^= 1 << bit - 8 * 200
        assert find_flip(wrong, wrong_said) is None


def test_nothing_has_no_bits() -> None:
    assert find_flip(b"", checksum(b"")) is None
    assert find_flip(b"", 12345) is None
