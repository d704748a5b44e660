"""Edges and memory of the set of sequences; that it is a set is shown in tests/property."""

import pytest

from tidelog.base.seqset import SequenceSet

LAST = 2**64 - 2


def test_an_empty_set_answers_and_owns_nothing() -> None:
    sequences = SequenceSet()
    assert (sequences.count, sequences.memory_size()) == (0, 0)
    assert (sequences.next_absent(7), sequences.previous_absent(7), sequences.next_present(7)) == (7, 7, 0)
    assert sequences.ranges() == []
    assert not sequences.remove(7)
    assert sequences.remove_below(7) == 0
    assert sequences.count_range(0, 2**64 - 1) == 0


@pytest.mark.parametrize("seq", [0, 2**64 - 1])
def test_what_is_not_a_sequence_is_refused(seq: int) -> None:
    sequences = SequenceSet()
    with pytest.raises(ValueError, match="is not between 1"):
        sequences.add(seq)
    assert seq not in sequences
    assert not sequences.remove(seq)


def test_a_range_that_begins_with_zero_is_refused() -> None:
    sequences = SequenceSet()
    with pytest.raises(ValueError, match="is not between 1"):
        sequences.add_range(0, 5)
    sequences.add_range(5, 5)
    sequences.add_range(5, 4)
    assert sequences.count == 0


def test_the_far_ends() -> None:
    sequences = SequenceSet()
    assert sequences.add(LAST)
    assert sequences.next_absent(LAST) == LAST + 1
    assert sequences.next_present(2) == LAST
    assert sequences.add(1)
    assert sequences.previous_absent(1) == 0
    sequences.add_range(1, LAST + 1)
    assert sequences.ranges() == [(1, LAST + 1)]
    assert (sequences.count, sequences.previous_absent(LAST)) == (LAST, 0)
    assert sequences.remove_below(2**64 - 1) == LAST


def test_a_long_range_is_one_run_and_its_edges() -> None:
    sequences = SequenceSet()
    sequences.add_range(1000, 2**60 + 1000)
    assert sequences.memory_size() < 1000
    assert sequences.count == 2**60
    assert sequences.count_range(2000, 2**59) == 2**59 - 2000
    assert sequences.remove(2**50)
    assert sequences.ranges() == [(1000, 2**50), (2**50 + 1, 2**60 + 1000)]
    assert sequences.add(2**50)
    assert sequences.ranges() == [(1000, 2**60 + 1000)]


def test_full_bitmaps_are_given_back_and_joined() -> None:
    sequences = SequenceSet()
    for seq in range(1, 100 * 2048):
        assert sequences.add(seq)
    one_bitmap_and_few_entries = 500
    assert sequences.memory_size() < one_bitmap_and_few_entries
    # The other way round, and from both sides.
    sequences.clear()
    for seq in range(100 * 2048 - 1, 50 * 2048, -1):
        sequences.add(seq)
    for seq in range(1, 50 * 2048 + 1):
        sequences.add(seq)
    assert sequences.ranges() == [(1, 100 * 2048)]
    assert sequences.memory_size() < one_bitmap_and_few_entries


def test_bitmaps_without_members_are_given_back() -> None:
    sequences = SequenceSet()
    for seq in range(1, 1000 * 2048, 2048):
        sequences.add(seq)
    full = sequences.memory_size()
    assert full >= 1000 * 256
    for seq in range(1, 900 * 2048, 2048):
        assert sequences.remove(seq)
    assert sequences.memory_size() < full / 4
    assert sequences.remove_below(1000 * 2048) == 100
    assert sequences.memory_size() < 2000


def test_counting_while_the_front_is_dropped() -> None:
    sequences = SequenceSet()
    for seq in range(1, 300 * 2048, 3):
        sequences.add(seq)
    known = list(range(1, 300 * 2048, 3))
    for floor in range(0, 300 * 2048, 5000):
        assert sequences.count_range(floor, 250 * 2048) == sum(floor <= seq < 250 * 2048 for seq in known)
        sequences.remove_below(floor)
        assert sequences.count_range(1, 250 * 2048) == sum(floor <= seq < 250 * 2048 for seq in known)


def test_it_can_be_used_after_it_was_cleared() -> None:
    sequences = SequenceSet()
    sequences.add_range(1, 10_000)
    sequences.clear()
    assert (sequences.count, sequences.memory_size()) == (0, 0)
    assert sequences.add(5)
    assert 5 in sequences
