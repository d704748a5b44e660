"""The byte map against a dict (ROUTE-5)."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.bytemap import ByteMap

# Few and alike, so that keys come again and prefixes, sizes and word boundaries of the hash are met.
KEY = st.integers(0, 17).flatmap(lambda size: st.sampled_from([b"a" * size, b"b" * size, b"\0" * size]))
STEP = st.one_of(
    st.tuples(st.just("set"), KEY, st.integers()),
    st.tuples(st.just("remove"), KEY, st.none()),
    st.tuples(st.just("get"), KEY, st.none()),
    st.tuples(st.just("drop"), st.just(b""), st.none()),
)


@given(st.lists(STEP, max_size=120))
def test_it_is_a_dict(steps: list[tuple[str, bytes, int | None]]) -> None:
    known: dict[bytes, int | None] = {}
    table = ByteMap()
    for step, key, value in steps:
        if step == "set":
            table.set(key, value)
            known[key] = value
        elif step == "remove":
            assert table.remove(key) is (known.pop(key, "absent") != "absent")
        elif step == "drop":
            table.drop_all()
            known.clear()
        assert table.get(key, "absent") == known.get(key, "absent")
        assert len(table) == len(known)
    assert {key: table.get(key) for key in known} == known


@given(st.sets(st.integers(0, 500)), st.sets(st.integers(0, 500)))
def test_nothing_is_lost_when_runs_are_closed(put: set[int], taken: set[int]) -> None:
    """Removal moves entries back over the hole; whoever stands behind it must still be found."""
    table = ByteMap()
    for number in put:
        table.set(b"%d" % number, number)
    for number in taken:
        assert table.remove(b"%d" % number) is (number in put)
    for number in range(501):
        assert table.get(b"%d" % number) == (number if number in put - taken else None)
    assert len(table) == len(put - taken)


@given(st.integers(0, 200), st.integers(1, 50))
def test_shedding_releases_everything_in_bounded_steps(count: int, places: int) -> None:
    value = object()
    before = sys.getrefcount(value)
    table = ByteMap()
    for number in range(count):
        table.set(b"%d" % number, value)
    assert sys.getrefcount(value) == before + count
    steps = 1
    left = len(table)
    while table.drop_some(places):
        assert left - places <= len(table) <= left
        left = len(table)
        steps += 1
    # A table is at least 3/8 full, but for the smallest.
    assert steps <= max(16, count * 8 // 3 + 3) // places + 1
    assert len(table) == 0
    assert sys.getrefcount(value) == before
