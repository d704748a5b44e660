"""The subject tree against a dict, and its filters against the relation of patterns."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.subject.pattern import matches
from tidelog.subject.tree import SubjectTree

# Few and alike, so that keys come again, are beginnings of each other and part at every place of a run. The long
# ones go through chains of blocks.
SHORT = st.text("ab.", max_size=6).map(str.encode)
ANY = st.binary(max_size=4)
LONG = st.tuples(st.integers(240, 520), st.sampled_from([b"", b"a", b"b", b"b" * 260])).map(
    lambda made: b"a" * made[0] + made[1]
)
KEY = st.one_of(SHORT, SHORT, ANY, LONG)
STEP = st.tuples(
    st.sampled_from(["set", "set", "remove", "remove known", "compact", "drop"]), KEY, st.integers(0, 1 << 31)
)


@given(st.lists(STEP, max_size=80))
def test_it_is_a_sorted_dict(steps: list[tuple[str, bytes, int]]) -> None:
    known: dict[bytes, int] = {}
    tree = SubjectTree()
    for step, key, number in steps:
        if step == "set":
            tree.set(key, number)
            known[key] = number
        elif step == "drop" and number % 8 == 0:
            tree.drop_all()
            known.clear()
        elif step == "compact":
            assert tree.give_back()
            assert tree.free_size == 0
        else:
            if step == "remove known" and known:
                key = sorted(known)[number % len(known)]
            assert tree.discard(key) is (known.pop(key, None) is not None)
        assert tree.get(key) == known.get(key)
        assert len(tree) == len(known)
        assert tree.blocks()["leaf"] <= len(known)
        assert tree.items() == sorted(known.items())
    for key in known:
        assert tree.discard(key)
    assert set(tree.blocks().values()) == {0}


# One byte each, so that a set of them is a set of children of one node.
@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 255))), max_size=8), st.binary(max_size=3))
def test_nodes_of_every_size_keep_their_children(changes: list[tuple[bool, set[int]]], prefix: bytes) -> None:
    tree = SubjectTree()
    known: set[int] = set()
    for put, some in changes:
        for byte in some:
            key = prefix + bytes([byte]) + b"tail"
            if put:
                tree.set(key, byte)
            else:
                assert tree.discard(key) is (byte in known)
        known = known | some if put else known - some
        assert tree.items() == [(prefix + bytes([byte]) + b"tail", byte) for byte in sorted(known)]
        for byte in range(256):
            assert tree.get(prefix + bytes([byte]) + b"tail") == (byte if byte in known else None)


TOKEN = st.sampled_from([b"a", b"b", b"ab", b"abc", b"a*", b">b", b"b" * 260])
LITERAL = st.lists(TOKEN, min_size=1, max_size=5).map(b".".join)
WILD = st.one_of(TOKEN, st.just(b"*"))
FILTER = st.one_of(
    st.lists(WILD, min_size=1, max_size=5).map(b".".join),
    st.lists(WILD, max_size=4).map(lambda tokens: b".".join([*tokens, b">"])),
)
CHANGE = st.one_of(
    st.tuples(st.just("set"), LITERAL),
    st.tuples(st.just("remove"), LITERAL),
    st.tuples(st.just("match"), FILTER),
)


@given(st.sets(LITERAL, max_size=30), st.lists(CHANGE, max_size=30), st.integers(0, 10))
def test_filters_mean_what_patterns_mean(
    stored: set[bytes], changes: list[tuple[str, bytes]], most: int
) -> None:
    tree = SubjectTree()
    known = {subject: number for number, subject in enumerate(stored)}
    for subject, number in known.items():
        tree.set(subject, number)
    for change, subject in changes:
        if change == "set":
            number = len(known)
            tree.set(subject, number)
            known[subject] = number
        elif change == "remove":
            assert tree.discard(subject) is (known.pop(subject, None) is not None)
        else:
            meant = [(key, known[key]) for key in sorted(known) if matches(subject, key)]
            assert tree.match(subject) == meant
            assert tree.match_first(subject, most) == (meant[:most], most >= len(meant))
    assert tree.match(b">") == tree.items() == sorted(known.items())


@given(st.sets(SHORT, max_size=20), st.text("ab.*>", max_size=8).map(str.encode))
def test_no_filter_is_too_strange(stored: set[bytes], filter: bytes) -> None:
    """Not valid, so what it means is open; but that it is something stored, in order and once, is not."""
    tree = SubjectTree()
    for key in stored:
        tree.set(key, 1)
    found = [key for key, _ in tree.match(filter)]
    assert found == sorted(set(found))
    assert set(found) <= stored
