"""Stretches: the checksum of any of them is that of its bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.record import checksum
from tidelog.log.stretch import checksums

DATA = b"".join(checksum(number.to_bytes(4, "little")).to_bytes(4, "little") for number in range(100_000))
EDGES = st.integers(0, len(DATA)) | st.integers(0, 30).map(lambda block: 1024 * block)


@given(st.lists(st.tuples(EDGES, EDGES), max_size=8))
def test_any_stretch_has_the_checksum_of_its_bytes(edges: list[tuple[int, int]]) -> None:
    stretches = [(min(pair), max(pair)) for pair in edges]
    assert checksums(DATA, stretches) == [checksum(DATA[start:end]) for start, end in stretches]


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 3073, 4096, 65_536])
def test_edges_of_blocks(size: int) -> None:
    stretches = [(start, start + size) for start in (0, 1, 4, 1023, 1024, 1025, 2048)]
    assert checksums(DATA, stretches) == [checksum(DATA[start:end]) for start, end in stretches]


def test_other_bytes_are_not_asked_for() -> None:
    for stretch in ((-1, 5), (5, 4), (0, 4)):
        with pytest.raises(ValueError, match="no stretch"):
            checksums(b"abc", [stretch])
