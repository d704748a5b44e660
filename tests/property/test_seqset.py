"""The set of sequences against a set of integers."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.seqset import SequenceSet

KEY = 2048
# A few containers, and mostly their edges, so that runs and bitmaps are opened, filled and joined.
SEQ = st.builds(
    lambda key, offset: max(1, key * KEY + offset),
    st.integers(0, 6),
    st.integers(-2, 2) | st.integers(0, KEY - 1),
)
STEP = st.one_of(
    st.tuples(st.sampled_from(["add", "remove"]), SEQ, SEQ),
    st.tuples(st.sampled_from(["range", "range", "remove below"]), SEQ, SEQ),
)


def ranges_of(members: set[int]) -> list[tuple[int, int]]:
    starts = sorted(seq for seq in members if seq - 1 not in members)
    ends = sorted(seq + 1 for seq in members if seq + 1 not in members)
    return list(zip(starts, ends, strict=True))


def take(step: tuple[str, int, int], sequences: SequenceSet, known: set[int]) -> None:
    what, seq, other = step
    if what == "add":
        assert sequences.add(seq) is (seq not in known)
        known.add(seq)
    elif what == "remove":
        assert sequences.remove(seq) is (seq in known)
        known.discard(seq)
    elif what == "range":
        start, end = min(seq, other), max(seq, other)
        sequences.add_range(start, end)
        known.update(range(start, end))
    else:
        gone = {member for member in known if member < seq}
        assert sequences.remove_below(seq) == len(gone)
        known -= gone


@given(st.lists(STEP, max_size=40), st.lists(SEQ, min_size=2, max_size=6))
def test_it_is_a_set(steps: list[tuple[str, int, int]], questions: list[int]) -> None:
    sequences, known = SequenceSet(), set[int]()
    for step in steps:
        take(step, sequences, known)
        assert sequences.count == len(known)
        asked = {*questions, step[1], step[1] + 1, step[1] - 1, step[2]}
        for seq in asked:
            assert sequences.contains(seq) is (seq in known)
        start, end = min(questions), max(questions)
        assert sequences.count_range(start, end) == sum(start <= member < end for member in known)
    assert sequences.ranges() == ranges_of(known)


@given(st.lists(STEP, max_size=12), st.lists(SEQ, max_size=6))
def test_neighbours(steps: list[tuple[str, int, int]], questions: list[int]) -> None:
    sequences, known = SequenceSet(), set[int]()
    for step in steps:
        take(step, sequences, known)
    for seq in questions:
        absent = seq
        while absent in known:
            absent += 1
        assert sequences.next_absent(seq) == absent
        absent = seq
        while absent in known:
            absent -= 1
        assert sequences.previous_absent(seq) == absent
        assert sequences.next_present(seq) == min((member for member in known if member >= seq), default=0)


@given(st.lists(st.integers(1, 2**64 - 2), max_size=20), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_far_apart(members: list[int], first: int, second: int) -> None:
    sequences, known = SequenceSet(), set(members)
    for seq in members:
        sequences.add(seq)
    start, end = min(first, second), max(first, second)
    assert sequences.count_range(start, end) == sum(start <= member < end for member in known)
    assert sequences.ranges() == ranges_of(known)
    sequences.add_range(max(start, 1), end)
    assert sequences.count == len(known) + max(0, end - max(start, 1)) - sum(
        start <= member < end for member in known
    )
    sequences.remove_below(end)
    assert sequences.ranges() == ranges_of({member for member in known if member >= end})
