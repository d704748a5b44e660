"""Ranges into pieces: nothing left out, nothing twice, and the same again."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.option import read_options
from tidelog.spark.plan import WORTH_A_TASK, Piece, cut, task_count

RANGES = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(0, 1000)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=4,
)


@given(RANGES, st.integers(1, 9), st.integers(0, 50))
def test_pieces_are_the_ranges(ranges: list[tuple[int, int]], tasks: int, most: int) -> None:
    wanted = [Piece(f"S{at}", "c", start, end) for at, (start, end) in enumerate(ranges)]
    pieces = cut(wanted, tasks, most)
    assert pieces == cut(wanted, tasks, most)
    for piece in wanted:
        own = [
            seq
            for each in pieces
            if each.stream == piece.stream
            for seq in range(each.start_seq, each.end_seq)
        ]
        assert own == list(range(piece.start_seq, piece.end_seq))
    assert all(piece.start_seq < piece.end_seq for piece in pieces)
    if most:
        assert all(piece.end_seq - piece.start_seq <= most for piece in pieces)
    else:
        assert len(pieces) <= tasks + len(ranges)


def test_a_task_must_be_worth_it_unless_asked_for() -> None:
    plain = read_options({"stream": "S"}, streaming=False)
    assert task_count(plain, WORTH_A_TASK - 1) == 1
    asked = read_options({"stream": "S", "minPartitions": "7"}, streaming=False)
    assert task_count(asked, 10) == 7
