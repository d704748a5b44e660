"""Lists of sequences against sorted lists of integers, across the edges of blocks."""

import itertools
from bisect import bisect_left, bisect_right, insort

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.posting import PostingTable

LAST = 2**64 - 2
GAP = st.one_of(
    st.integers(1, 3),
    st.sampled_from([127, 128, 16_383, 16_384, 1_000_000, 2**35, 2**59]),
    st.integers(1, 2**20),
)
STEP = st.one_of(
    st.tuples(st.just("push"), st.lists(GAP, min_size=1, max_size=30)),
    st.tuples(st.just("extend"), st.lists(GAP, min_size=1, max_size=60)),
    st.tuples(st.sampled_from(["front", "back"]), st.lists(st.just(0), min_size=1, max_size=30)),
    st.tuples(st.just("middle"), st.lists(st.integers(0, 1000), min_size=1, max_size=30)),
    st.tuples(st.sampled_from(["absent", "anew"]), st.just([0])),
)


def leb(value: int) -> bytes:
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def deltas_of(members: list[int]) -> bytes:
    return b"".join(leb(b - a) for a, b in itertools.pairwise(members))


def ascending(start: int, gaps: list[int]) -> list[int]:
    members = []
    for gap in gaps:
        start += gap
        if start > LAST:
            break
        members.append(start)
    return members


def take(table: PostingTable, slot: int, known: list[int], step: str, numbers: list[int]) -> int:
    """Do the same to both. Returns the slot."""
    if step in ("push", "extend"):
        fresh = ascending(known[-1] if known else 0, numbers)
        if step == "push" or not fresh:
            for seq in fresh:
                table.push(slot, seq)
        else:
            table.load(slot, fresh[0], deltas_of(fresh), len(fresh))
        known += fresh
    elif step == "anew":
        table.free(slot)
        known.clear()
        slot = table.new()
    elif step == "absent":
        for seq in {0, 1, LAST, *(seq + 1 for seq in known)} - set(known):
            assert not table.remove(slot, seq)
    else:
        for number in numbers:
            if known:
                at = {"front": 0, "back": -1}.get(step, number % len(known))
                assert table.remove(slot, known.pop(at))
    return slot


def check(table: PostingTable, slot: int, known: list[int]) -> None:
    assert table.size(slot) == len(known)
    assert (table.first(slot), table.last(slot)) == ((known[0], known[-1]) if known else (0, 0))
    assert table.members(slot, 0, LAST + 1, 10_000) == known
    assert table.members_back(slot, 0, LAST + 1, 10_000) == known[::-1]
    assert table.dump(slot) == deltas_of(known)


def check_at(table: PostingTable, slot: int, known: list[int], seq: int) -> None:
    at = bisect_left(known, seq)
    assert table.next(slot, seq) == (known[at] if at < len(known) else 0)
    assert table.rank(slot, seq) == len(known) - at
    assert table.contains(slot, seq) is (seq in known)
    at = bisect_right(known, seq)
    assert table.previous(slot, seq) == (known[at - 1] if at else 0)


@given(st.sampled_from([16, 17, 40, 256]), st.lists(STEP, max_size=20), st.integers(0, LAST))
def test_it_is_a_sorted_list(block_size: int, steps: list[tuple[str, list[int]]], seq: int) -> None:
    table = PostingTable(block_size)
    bystander, slot = table.new(), table.new()
    table.push(bystander, 5)
    known: list[int] = []
    for step, numbers in steps:
        slot = take(table, slot, known, step, numbers)
        check(table, slot, known)
        for number in numbers:
            if known:
                member = known[number % len(known)]
                for asked in (member - 1, member, member + 1):
                    check_at(table, slot, known, asked)
        check_at(table, slot, known, seq)
        for n in (0, 1, numbers[0], len(known) // 2, len(known) - 1, len(known)):
            assert table.nth(slot, max(n, 0)) == (known[max(n, 0)] if max(n, 0) < len(known) else 0)
    assert table.members(bystander, 0, LAST, 9) == [5]
    assert table.count == 2


@given(
    st.lists(GAP, min_size=1, max_size=300),
    st.sampled_from([16, 256]),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(-1, 1),
    st.integers(0, 20) | st.just(1000),
)
def test_gathering(gaps: list[int], block_size: int, low: int, high: int, off: int, room: int) -> None:
    table = PostingTable(block_size)
    slot = table.new()
    known = ascending(0, gaps)
    for seq in known:
        table.push(slot, seq)
    start, end = sorted((known[low % len(known)], known[high % len(known)] + off))
    found = [seq for seq in known if start <= seq < end]
    assert table.members(slot, start, end, room) == found[:room]
    assert table.members_back(slot, start, end, room) == found[::-1][:room]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=400))
def test_many_lists_grow_and_shrink_side_by_side(steps: list[tuple[int, int]]) -> None:
    """They share an arena; what one gives back another gets."""
    table = PostingTable(64)
    slots = [table.new() for _ in range(8)]
    known: list[list[int]] = [[] for _ in slots]
    for at, what in steps:
        slot, members = slots[at], known[at]
        if what == 0:
            table.free(slot)
            members.clear()
            slots[at] = table.new()
        elif what == 1 and members:
            table.remove(slot, members.pop(len(members) // 2))
        else:
            for _ in range(what):
                insort(members, (members[-1] if members else 0) + 1 + what * 100)
                table.push(slot, members[-1])
    for slot, members in zip(slots, known, strict=True):
        assert table.members(slot, 0, LAST, 10_000) == members


@given(st.binary(max_size=40), st.integers(0, 20), st.integers(0, LAST + 1))
def test_a_run_from_a_file_is_what_it_says_or_refused(deltas: bytes, count: int, first_seq: int) -> None:
    table = PostingTable()
    slot = table.new()
    try:
        table.load(slot, first_seq, deltas, count)
    except ValueError:
        assert table.size(slot) == 0
    else:
        members = table.members(slot, 0, LAST + 1, 100)
        assert (members[0], len(members), deltas_of(members)) == (first_seq, count, deltas)
