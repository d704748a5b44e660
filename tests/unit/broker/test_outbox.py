"""The outbox: blocks and memory; that bytes leave as they came is shown in tests/property (NET-1)."""

import pytest

from tidelog.base.limits import BORROW_BEHIND_SIZE, OUTBOX_BLOCK_FIRST, OUTBOX_BLOCK_LAST
from tidelog.broker.outbox import Outbox


def sizes(outbox: Outbox) -> list[int]:
    return [len(part) for part in outbox.take()]


def test_blocks_grow_by_four_up_to_the_last_size() -> None:
    outbox = Outbox()
    outbox.write(b"x" * (3 * OUTBOX_BLOCK_LAST))
    first, last = OUTBOX_BLOCK_FIRST, OUTBOX_BLOCK_LAST
    taken = sizes(outbox)
    assert taken[:4] == [first, 4 * first, 16 * first, last]
    assert taken[4:] == [last, 3 * last - 2 * last - 21 * first]


def test_a_burst_of_the_same_size_again_needs_fewer_blocks() -> None:
    outbox = Outbox()
    for _ in range(2):
        outbox.write(b"x" * 4 * OUTBOX_BLOCK_FIRST)
        parts = sizes(outbox)
    assert parts == [4 * OUTBOX_BLOCK_FIRST]
    outbox.write(b"x")
    outbox.take()
    outbox.write(b"x" * 2 * OUTBOX_BLOCK_FIRST)
    assert sizes(outbox) == [OUTBOX_BLOCK_FIRST, OUTBOX_BLOCK_FIRST]


def test_nothing_is_taken_from_an_empty_one() -> None:
    outbox = Outbox()
    assert (outbox.take(), outbox.size) == ([], 0)
    outbox.write(b"")
    assert (outbox.take(), outbox.size) == ([], 0)


def test_a_part_of_a_block_may_be_written_and_more_added() -> None:
    outbox = Outbox()
    outbox.write(b"abc")
    assert outbox.take_some(2, 1) == b"ab"
    outbox.write(b"def")
    assert outbox.size == 4
    assert outbox.take() == [b"cdef"]


@pytest.mark.parametrize(
    ("waiting", "borrows"), [(BORROW_BEHIND_SIZE, True), (BORROW_BEHIND_SIZE + 1, False)]
)
def test_nothing_is_borrowed_behind_what_a_slow_socket_has_left(waiting: int, borrows: bool) -> None:
    outbox = Outbox()
    outbox.write(b"x" * waiting)
    assert outbox.lend(b"prefix ", bytearray(b"data")) is borrows
    assert (outbox.size, outbox.borrowing) == (waiting + 11 * borrows, borrows)


def test_a_prefix_that_fits_into_no_first_block_is_not_borrowed_with() -> None:
    outbox = Outbox()
    assert outbox.lend(b"x" * OUTBOX_BLOCK_FIRST, bytearray(b"data"))
    assert not outbox.lend(b"x" * (OUTBOX_BLOCK_FIRST + 1), bytearray(b"data"))
    assert sizes(outbox) == [OUTBOX_BLOCK_FIRST, 4]


def test_what_was_borrowed_is_written_from_where_it_is_and_otherwise_copied() -> None:
    """NET-2."""
    outbox = Outbox()
    lent = bytearray(b"first")
    assert outbox.lend(b"a ", lent)
    lent[0:1] = b"F"
    assert outbox.take_some(4, 2) == b"a Fi"
    outbox.settle()
    lent[:] = b"-----"
    assert (outbox.take(), outbox.borrowing) == ([b"rst"], False)
