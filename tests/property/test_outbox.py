"""The outbox against a byte string (NET-1)."""

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
)


@given(st.lists(STEP, max_size=40))
def test_bytes_leave_as_they_came(steps: list[tuple[str, int, int]]) -> None:
    waiting = bytearray()
    outbox = Outbox()
    written = 0
    for step, size, blocks in steps:
        if step == "write":
            data = bytes((written + i) * 31 % 251 for i in range(size))
            written += size
            outbox.write(data)
            waiting += data
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
