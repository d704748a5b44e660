"""The subject tree: the forms of its nodes, its edges, what it visits and when it stops, and its memory."""

import itertools

import pytest

from tidelog.subject.tree import SubjectTree

# What one block holds of a key, from `node.pxd`.
RUN_MOST = 250
KINDS = ["leaf", "node4", "node16", "node48", "node256"]
# Children that each kind has room for.
ROOM = {"node4": 4, "node16": 16, "node48": 48, "node256": 256}
# The numbers of children at which a node that loses some becomes one of the kind before.
SHRINK_AT = {3: "node4", 12: "node16", 40: "node48"}


def tree_of(*keys: bytes) -> SubjectTree:
    """Each with the number of its place."""
    tree = SubjectTree()
    for number, key in enumerate(keys):
        tree.set(key, number)
    return tree


def keys(found: list[tuple[bytes, int]]) -> list[bytes]:
    return [key for key, _ in found]


def only(tree: SubjectTree) -> dict[str, int]:
    return {kind: count for kind, count in tree.blocks().items() if count}


def test_an_empty_tree_has_nothing() -> None:
    tree = SubjectTree()
    assert (len(tree), tree.count, tree.items(), tree.match(b">"), tree.match(b"a")) == (0, 0, [], [], [])
    assert (tree.get(b""), tree.get(b"a"), b"a" in tree, tree.discard(b"a"), tree.discard(b"")) == (
        None,
        None,
        False,
        False,
        False,
    )


def test_keys_are_any_bytes_and_beginnings_of_each_other() -> None:
    some = [
        b"",
        b"\0",
        b"\0\0",
        b"\0a",
        b"a",
        b"a\xff",
        b"ab",
        b"abc.d",
        b"abd",
        b"\x7f",
        b"\xff",
        b"\xff\xff",
    ]
    for start, stride in itertools.product(range(len(some)), (1, 5, 7, 11)):
        order = [some[(start + stride * index) % len(some)] for index in range(len(some))]
        tree = SubjectTree()
        for key in order:
            tree.set(key, len(key))
        assert tree.items() == [(key, len(key)) for key in sorted(some)]
        assert [tree.get(key) for key in some] == [len(key) for key in some]
        assert [tree.get(key) for key in (b"\0\0\0", b"abc", b"abc.", b"abc.de", b"b", b"\xff\0")] == [
            None
        ] * 6


def test_a_key_that_is_set_again_keeps_one_place() -> None:
    tree = tree_of(b"a", b"ab", b"a", b"ab")
    assert (tree.items(), len(tree)) == ([(b"a", 2), (b"ab", 3)], 2)


def test_numbers_have_32_bits_and_one_of_them_means_none() -> None:
    tree = SubjectTree()
    tree.set(b"a", 0xFFFF_FFFE)
    assert tree.get(b"a") == 0xFFFF_FFFE
    with pytest.raises(ValueError, match="no value"):
        tree.set(b"b", 0xFFFF_FFFF)
    with pytest.raises(OverflowError):
        tree.set(b"b", 1 << 32)
    assert b"b" not in tree


@pytest.mark.parametrize("ascending", [True, False])
def test_a_node_grows_with_its_children_and_keeps_them_in_order(ascending: bool) -> None:
    tree = SubjectTree()
    some = [b"a" + bytes([byte]) for byte in range(256)]
    for count, key in enumerate(some if ascending else reversed(some), 1):
        tree.set(key, key[1])
        expected = next(kind for kind, room in ROOM.items() if room >= count) if count > 1 else None
        assert only(tree) == {"leaf": count} | ({expected: 1} if expected else {})
        present = some[:count] if ascending else some[-count:]
        assert tree.items() == [(key, key[1]) for key in present]
        assert [tree.get(key) for key in some] == [key[1] if key in present else None for key in some]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
def test_a_node_shrinks_with_its_children(ascending: bool, own: bool) -> None:
    some = [b"abc" + bytes([byte]) for byte in range(256)]
    tree = tree_of(*some)
    if own:
        tree.set(b"abc", 1000)
    kind = "node256"
    left = some[:]
    while left:
        assert tree.discard(left.pop(0 if ascending else -1))
        count = len(left)
        kind = SHRINK_AT.get(count, kind)
        single = count == 0 or (count == 1 and not own)
        assert only(tree) == ({} if single else {kind: 1}) | ({"leaf": count or own} if count or own else {})
        assert keys(tree.items()) == [b"abc"] * own + left
        assert tree.get(b"abc") == (1000 if own else None)
    if own:
        assert tree.discard(b"abc")
    assert only(tree) == {}


def test_a_key_that_is_taken_from_a_node_joins_what_is_left() -> None:
    tree = tree_of(b"ab", b"abcde", b"abcdf")
    # The key of the upper node, then one of the two below.
    assert tree.discard(b"ab")
    assert only(tree) == {"node4": 1, "leaf": 2}
    assert tree.discard(b"abcde")
    assert only(tree) == {"leaf": 1}
    assert tree.items() == [(b"abcdf", 2)]


def test_what_is_not_there_is_not_removed() -> None:
    some = [b"ab", b"abcde", b"abcdf"]
    tree = tree_of(*some)
    for key in (b"", b"a", b"abc", b"abcd", b"abcdg", b"abcdee", b"abx", b"abcx", b"b"):
        assert not tree.discard(key)
    assert keys(tree.items()) == some


@pytest.mark.parametrize(
    "size", [RUN_MOST - 1, RUN_MOST, RUN_MOST + 1, RUN_MOST + 2, 2 * RUN_MOST + 1, 2 * RUN_MOST + 2]
)
def test_long_keys_are_chained(size: int) -> None:
    """One block holds 250 bytes, and one more is the step to the next."""
    key = bytes(index % 251 for index in range(size))
    tree = tree_of(key)
    chained = size // (RUN_MOST + 1)
    assert only(tree) == {"leaf": 1} | ({"node4": chained} if chained else {})
    cuts = [0, 1, RUN_MOST - 1, RUN_MOST, RUN_MOST + 1, size - 1]
    for cut in sorted({cut for cut in cuts if cut < size}):
        for other in (key[:cut], key[:cut] + b"\xff", key[:cut] + b"\xff" * 600, key + b"\xff" * cut + b"a"):
            assert tree.get(other) is None
            tree.set(other, 7)
            assert tree.items() == [(other, 7), (key, 0)] if other < key else [(key, 0), (other, 7)]
            assert tree.discard(other)
            assert tree.items() == [(key, 0)]
    assert tree.discard(key)
    assert only(tree) == {}


def test_the_deepest_subject_needs_no_deep_stack() -> None:
    tokens = 30_000
    deep = b".".join([b"a"] * tokens) + b"." + b"x" * (65_536 - 2 * tokens)
    tree = tree_of(deep)
    # Every tenth token of the subject ends in a node of its own.
    sizes = range(1, 2 * tokens, 20)
    for size in sizes:
        tree.set(deep[:size], size)
    assert tree.blocks()["node4"] >= len(sizes)
    assert [number for _, number in tree.match(b">")] == [*sizes, 0]
    assert tree.match(b".".join([b"*"] * (tokens + 1))) == [(deep, 0)]
    assert tree.match(b".".join([b"*"] * tokens) + b".>") == [(deep, 0)]
    assert tree.match(b".".join([b"*"] * tokens)) == []
    assert tree.match(b".".join([b"*"] * (tokens - 9))) == [(deep[: sizes[-1]], sizes[-1])]
    for size in sizes:
        assert tree.discard(deep[:size])
    assert tree.items() == [(deep, 0)]


SUBJECTS = [
    b"orders",
    b"orders.eu",
    b"orders.eu.1",
    b"orders.eu.10",
    b"orders.eu.10.x",
    b"orders.us.1",
    b"orders.us.2",
    b"ordersx.eu.1",
    b"returns.eu.1",
]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (b">", SUBJECTS),
        (b"*", SUBJECTS[:1]),
        (b"*.*", SUBJECTS[1:2]),
        (b"orders.>", SUBJECTS[1:7]),
        (b"orders.*", SUBJECTS[1:2]),
        (b"orders.*.1", [SUBJECTS[2], SUBJECTS[5]]),
        (b"*.eu.1", [SUBJECTS[2], SUBJECTS[7], SUBJECTS[8]]),
        (b"*.eu.*", [*SUBJECTS[2:4], *SUBJECTS[7:]]),
        (b"*.*.>", SUBJECTS[2:]),
        (b"orders.eu.10.>", SUBJECTS[4:5]),
        (b"orders.eu.10.*", SUBJECTS[4:5]),
        (b"orders.eu.10.x.>", []),
        (b"orders.eu.10", SUBJECTS[3:4]),
        (b"orders.eu.*0", []),
        (b"order.>", []),
        (b"orders.e>", []),
        (b"", []),
    ],
)
def test_filters_go_by_tokens(filter: bytes, expected: list[bytes]) -> None:
    assert keys(tree_of(*SUBJECTS).match(filter)) == expected


def test_bytes_of_wildcards_inside_a_token_are_ordinary() -> None:
    tree = tree_of(b"a*", b"ab", b"a>", b"x.>y", b"x.y")
    assert [keys(tree.match(filter)) for filter in (b"a*", b"a>", b"x.>y")] == [[b"a*"], [b"a>"], [b"x.>y"]]
    assert keys(tree.match(b"x.*")) == [b"x.>y", b"x.y"]


@pytest.mark.parametrize("filter", [b">", b"orders.>", b"*.eu.1", b"orders.us.1", b"*.*.*"])
def test_a_visitor_that_has_enough_is_not_asked_again(filter: bytes) -> None:
    tree = tree_of(*SUBJECTS)
    everything = tree.match(filter)
    for most in range(len(everything) + 2):
        assert tree.match_first(filter, most) == (everything[:most], most >= len(everything))


def test_what_subjects_leave_behind_is_used_again() -> None:
    # The numbers have one length, so that the next generation asks for blocks of the same sizes.
    generations = [
        [b"orders.eu.device.%06d" % (start + number) for number in range(2000)] for start in (0, 500_000)
    ]
    tree = tree_of(*generations[0], b"zz")
    size = tree.memory_size
    for round in range(6):
        old, new = generations[round % 2], generations[(round + 1) % 2]
        for key in old:
            assert tree.discard(key)
        assert tree.free_size > tree.memory_size / 2
        for key in new:
            tree.set(key, round)
    assert tree.memory_size <= 1.3 * size
    assert keys(tree.items()) == [*generations[0], b"zz"]


@pytest.mark.parametrize("at_once", [True, False])
def test_the_last_subject_gives_the_memory_back(at_once: bool) -> None:
    tree = SubjectTree()
    small = tree.memory_size
    for _ in range(2):
        for number in range(5000):
            tree.set(b"%d" % number, number)
        assert tree.memory_size > 20 * small
        if at_once:
            tree.drop_all()
        else:
            for number in range(5000):
                assert tree.discard(b"%d" % number)
        assert (tree.memory_size, tree.free_size, len(tree), tree.items(), only(tree)) == (
            small,
            0,
            0,
            [],
            {},
        )


def test_compaction_moves_what_is_stored_together() -> None:
    # Nodes of every kind, own keys and chains.
    some = [bytes([first, second]) for first in (1, 2, 3, 4) for second in range([0, 4, 16, 48, 256][first])]
    some += [b"", b"\1", b"\4", b"b" * 700, *(b"%d" % number for number in range(3000))]
    tree = tree_of(*some)
    for key in some[1::2]:
        tree.discard(key)
    kept = dict(zip(some[::2], range(0, len(some), 2), strict=True))
    blocks, used = tree.blocks(), tree.memory_size - tree.free_size
    assert tree.give_back()
    assert (tree.items(), tree.blocks(), tree.free_size) == (sorted(kept.items()), blocks, 0)
    assert tree.memory_size <= used
    for key in some:
        tree.set(key, 1)
    assert tree.items() == [(key, 1) for key in sorted(some)]
    tree.drop_all()
    small = tree.memory_size
    assert tree.give_back()
    assert (tree.items(), tree.memory_size) == ([], small)


def test_a_dense_subject_takes_few_bytes() -> None:
    """The goal is 45 for a million; a tenth of them is as dense."""
    count = 100_000
    tree = SubjectTree()
    for number in range(count):
        tree.set(b"orders.eu.device.%06d" % number, number)
    assert tree.memory_size / count < 30
