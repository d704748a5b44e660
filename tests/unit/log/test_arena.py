"""Pieces do not overlap, stand where they can be taken back, and become others once they are free."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.arena import Arena

UNIT = 16
UNITS = st.sampled_from(range(1, 17))
SLAB = 65_536


@given(st.lists(st.tuples(st.sampled_from(["take", "take", "give", "trim"]), UNITS, UNITS), max_size=200))
def test_pieces_do_not_overlap(steps: list[tuple[str, int, int]]) -> None:
    arena = Arena()
    pieces: list[tuple[int, int]] = []
    for step, units, other in steps:
        if step == "take":
            pieces.append((arena.take_piece(units), units))
        elif pieces:
            address, units = pieces.pop(other % len(pieces))
            if step == "give":
                arena.give_piece(address, units)
            else:
                kept = min(units, other)
                arena.trim_piece(address, units, kept)
                pieces.append((address, kept))
        taken = sorted(pieces)
        for (address, units), (following, _) in itertools.pairwise(taken):
            assert address + units * UNIT <= following
    for address, units in pieces:
        arena.give_piece(address, units)
    # Everything has joined: a whole page is found where the first piece was.
    size = arena.memory_size()
    if size:
        arena.take_piece(16)
    assert arena.memory_size() == size


def test_free_pieces_of_one_size_become_pieces_of_another() -> None:
    arena = Arena()
    small = [arena.take_piece(1) for _ in range(16 * 100)]
    size = arena.memory_size()
    for address in small:
        arena.give_piece(address, 1)
    for _ in range(100):
        arena.take_piece(16)
    assert arena.memory_size() == size


def test_lists_that_grow_side_by_side_leave_no_holes() -> None:
    arena = Arena()
    pieces = [arena.take_piece(1) for _ in range(5000)]
    for old, new in ((1, 2), (2, 3), (3, 4), (4, 8), (8, 16)):
        for at, address in enumerate(pieces):
            pieces[at] = arena.take_piece(new)
            arena.give_piece(address, old)
    assert arena.memory_size() <= 5000 * 256 * 1.1


def test_empty_slabs_are_given_back() -> None:
    arena = Arena()
    pieces = [arena.take_piece(16) for _ in range(1000)]
    assert arena.memory_size() > 3 * SLAB
    for address in pieces:
        arena.give_piece(address, 16)
    assert arena.memory_size() <= SLAB
    arena.clear()
    assert arena.memory_size() == 0
    arena.take_piece(5)


def test_a_small_arena_touches_little() -> None:
    arena = Arena()
    arena.take_piece(1)
    assert arena.memory_size() <= 1024
