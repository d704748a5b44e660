"""The outbox against a byte string: what it was given, and what it has borrowed (NET-1, NET-2)."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.limits import OUTBOX_BLOCK_FIRST, OUTBOX_BLOCK_LAST
from tidelog.broker.outbox import Outbox

EDGES = [edge + by for edge in (OUTBOX_BLOCK_FIRST, 4 * OUTBOX_BLOCK_FIRST) for by in (-1, 0, 1)]
SIZE = st.one_of(st.integers(0, 100), st.sampled_from(EDGES), st.just(OUTBOX_BLOCK_LAST + 1))
STEP = st.one_of(
    st.tuples(st.just("write"), SIZE, st.just(0)),
    st.tuples(st.just("some"), SIZE, st.integers(1, 8)),
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("borrow"), SIZE, SIZE),
    st.tuples(st.just("own"), st.just(0), st.just(0)),
)


@given(st.lists(STEP, max_size=40))
def test_bytes_leave_as_they_came(steps: list[tuple[str, int, int]]) -> None:
    waiting = bytearray()
    outbox = Outbox()
    lent: list[bytearray] = []
    written = 0

    def data_of(size: int) -> bytes:
        nonlocal written
        written += size
        return bytes(number * 31 % 251 for number in range(written - size, written))

    for step, size, blocks in steps:
        if step == "write":
            data = data_of(size)
            outbox.write(data)
            waiting += data
        elif step == "borrow":
            prefix, lent_data = data_of(1 + size), bytearray(data_of(1 + blocks))
            if outbox.lend(prefix, lent_data):
                lent.append(lent_data)
                waiting += prefix + lent_data
        elif step == "own":
            outbox.settle()
            for used in lent:
                used[:] = bytes(len(used))
            lent.clear()
        elif step == "some":
            part = outbox.take_some(size, blocks)
            assert part == waiting[: len(part)]
            assert bool(part) is bool(waiting and size)
            del waiting[: len(part)]
        else:
            parts = outbox.take()
            assert b"".join(parts) == waiting
            assert all(parts)
            waiting.clear()
        assert outbox.size == len(waiting)
    assert b"".join(outbox.take()) == waiting
    assert outbox.size == 0
