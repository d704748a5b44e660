"""Packed segments against the plain bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.base.errors import BlockDamaged
from unit.log.packed_case import METHODS, header, opened, packed

DATA = st.binary(max_size=2000) | st.builds(
    lambda part, times: part * times, st.binary(max_size=20), st.integers(0, 200)
)
READS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=20)
METHOD = st.sampled_from(METHODS)


@given(DATA, METHOD, st.integers(1, 700), READS)
@settings(deadline=None)
def test_any_read_is_the_plain_slice(data: bytes, method: tuple, block_size: int, reads: list) -> None:  # type: ignore[type-arg]
    plain = header() + data
    file = opened(packed(plain, method, block_size))
    assert file.size == len(plain)
    for pos, size in reads:
        assert file.read(pos, size) == plain[pos : pos + size]
        assert file.read_lenient(pos, size) == plain[pos : pos + size]


@given(DATA, METHOD, st.integers(20, 700), st.data(), st.binary(min_size=1, max_size=30))
@settings(deadline=None)
def test_bytes_that_are_read_are_true(
    data: bytes,
    method: tuple,  # type: ignore[type-arg]
    block_size: int,
    draw: st.DataObject,
    damage: bytes,
) -> None:
    """Whatever was overwritten in the blocks or the table: true bytes, or BlockDamaged, or zeros where asked for."""
    plain = header() + data
    stored = bytearray(packed(plain, method, block_size))
    pos = draw.draw(st.integers(320, len(stored) - 256 - len(damage)) if len(stored) > 700 else st.just(320))
    stored[pos : pos + len(damage)] = damage[: len(stored) - pos]
    file = opened(bytes(stored))
    lenient = file.read_lenient(0, file.size)
    ranges = file.readable_ranges()
    expected = bytearray(len(plain))
    for start, end in ranges:
        expected[start:end] = plain[start:end]
        assert file.read(start, end - start) == plain[start:end]
    assert lenient == expected
    if ranges == [(0, len(plain))]:
        return
    with pytest.raises(BlockDamaged) as caught:
        file.read(0, file.size)
    assert all(not start <= caught.value.start_pos < end for start, end in ranges)
