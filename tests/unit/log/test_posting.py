"""Edges and memory of posting lists; that they are sorted lists is shown in tests/property."""

import pytest

from tidelog.log.posting import PostingTable

LAST = 2**64 - 2
SLOT_SIZE = 32


def test_an_empty_list_answers() -> None:
    table = PostingTable()
    slot = table.new()
    assert (table.size(slot), table.first(slot), table.last(slot)) == (0, 0, 0)
    for seq in (0, 1, LAST):
        assert (table.next(slot, seq), table.previous(slot, seq), table.rank(slot, seq)) == (0, 0, 0)
        assert not table.contains(slot, seq)
        assert not table.remove(slot, seq)
    assert table.nth(slot, 0) == 0
    assert (table.members(slot, 0, LAST, 9), table.members_back(slot, 0, LAST, 9)) == ([], [])
    assert table.dump(slot) == b""


@pytest.mark.parametrize("seq", [0, 4, 5, LAST + 1])
def test_what_does_not_ascend_is_refused(seq: int) -> None:
    table = PostingTable()
    slot = table.new()
    table.push(slot, 5)
    with pytest.raises(ValueError, match="do not ascend"):
        table.push(slot, seq)
    assert table.members(slot, 0, LAST, 9) == [5]


def test_the_far_ends() -> None:
    table = PostingTable()
    slot = table.new()
    table.push(slot, 1)
    table.push(slot, LAST)
    assert (table.next(slot, 2), table.previous(slot, LAST - 1), table.rank(slot, 2)) == (LAST, 1, 1)
    assert table.members(slot, 1, LAST + 1, 9) == [1, LAST]


@pytest.mark.parametrize(
    ("first_seq", "deltas", "count"),
    [
        (1, b"", 0),
        (0, b"", 1),
        (1, b"", 2),
        (1, b"\x01", 1),
        (1, b"\x00", 2),
        (1, b"\x81", 2),
        (1, b"\x81\x00", 2),
        (LAST, b"\x01", 2),
        (1, b"\xff" * 9 + b"\x02", 2),
        (1, b"\xff" * 10 + b"\x01", 2),
    ],
)
def test_what_is_not_a_run_is_refused(first_seq: int, deltas: bytes, count: int) -> None:
    table = PostingTable()
    slot = table.new()
    with pytest.raises(ValueError, match="sequences"):
        table.load(slot, first_seq, deltas, count)
    assert table.size(slot) == 0


def test_a_run_must_be_behind_the_last_member() -> None:
    table = PostingTable()
    slot = table.new()
    table.load(slot, 10, b"\x05", 2)
    with pytest.raises(ValueError, match="do not ascend"):
        table.load(slot, 15, b"\x05", 2)
    assert table.members(slot, 0, LAST, 9) == [10, 15]


def test_slots_are_used_again() -> None:
    table = PostingTable()
    slots = [table.new() for _ in range(100)]
    for slot in slots:
        for seq in range(1, 1000, 7):
            table.push(slot, seq)
    for slot in slots:
        table.free(slot)
    size = table.memory_size()
    assert table.count == 0
    again = [table.new() for _ in range(100)]
    assert set(again) == set(slots)
    for slot in again:
        assert table.size(slot) == 0
        for seq in range(1, 1000, 7):
            table.push(slot, seq)
    assert table.memory_size() <= size * 1.2


def test_lists_of_one_and_of_short_distances_are_their_slots() -> None:
    table = PostingTable()
    for seq in range(1, 1001):
        slot = table.new()
        table.push(slot, seq)
        for distance in range(1, 9):
            table.push(slot, seq + distance * 100)
    assert table.memory_size() == 1000 * SLOT_SIZE


def test_ten_members_far_apart_take_four_bytes_each_beside_the_slot() -> None:
    table = PostingTable()
    slots = [table.new() for _ in range(2000)]
    for round_ in range(10):
        for slot in slots:
            table.push(slot, (round_ + 1) * 1_000_000 + slot)
    assert table.memory_size() - 2000 * SLOT_SIZE <= 4 * 10 * 2000


def test_a_dense_list_takes_little_more_than_a_byte_per_member() -> None:
    table = PostingTable()
    slot = table.new()
    table.load(slot, 1, b"\x01" * 999_999, 1_000_000)
    assert table.memory_size() <= 1.3 * 1_000_000
    assert (table.nth(slot, 123_456), table.rank(slot, 123_457)) == (123_457, 876_544)


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_removed_gives_its_memory_back(order: int) -> None:
    table = PostingTable()
    slot = table.new()
    table.load(slot, 1, b"\x01" * 299_999, 300_000)
    full = table.memory_size()
    for seq in range(1, 300_001)[::order]:
        assert table.remove(slot, seq)
    assert table.memory_size() < full / 3
    assert (table.size(slot), table.first(slot), table.last(slot)) == (0, 0, 0)


def test_thinned_out_blocks_are_merged() -> None:
    table = PostingTable()
    slot = table.new()
    table.load(slot, 1, b"\x01" * 99_999, 100_000)
    for seq in range(1, 100_001):
        if seq % 50:
            assert table.remove(slot, seq)
    assert table.members(slot, 0, LAST, 9999) == list(range(50, 100_001, 50))
    members, bytes_at_most, slab = 2000, 4, 66_000
    assert table.memory_size() < members * bytes_at_most + 2 * slab


def test_counting_after_removals_near_the_front_and_far_from_it() -> None:
    table = PostingTable(16)
    slot = table.new()
    known = list(range(1, 2001))
    for seq in known:
        table.push(slot, seq)
    for at in (3, 200, 5, 1500, 900, 901, 40, 0, 0, 1700, 17 * 17):
        table.remove(slot, known.pop(at))
        for n in (0, 17, 300, 1000, 1900):
            assert table.nth(slot, n) == known[n]
            assert table.rank(slot, known[n]) == len(known) - n


@pytest.mark.parametrize("size", [15, 257])
def test_block_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(ValueError, match="no block size"):
        PostingTable(size)


def test_a_cleared_table_can_be_used_again() -> None:
    table = PostingTable()
    slot = table.new()
    table.load(slot, 1, b"\x01" * 9999, 10_000)
    table.clear()
    assert (table.memory_size(), table.count) == (0, 0)
    slot = table.new()
    table.push(slot, 7)
    assert table.members(slot, 0, LAST, 9) == [7]
