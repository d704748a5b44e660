"""The interest tree and its cached routes against a walk over a list (ROUTE-1, ROUTE-2)."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.subject.interest import Interest, tokens_of
from tidelog.subject.pattern import matches
from tidelog.subject.route import Subscriber, Subscription

TOKEN = st.sampled_from([b"a", b"b", b"ab", b"*", b"a*", b">b"])
PATTERN = st.one_of(
    st.lists(TOKEN, min_size=1, max_size=4).map(b".".join),
    st.lists(TOKEN, max_size=3).map(lambda tokens: b".".join([*tokens, b">"])),
)
LITERAL = st.lists(st.sampled_from([b"a", b"b", b"ab", b"c", b"a*", b">b"]), min_size=1, max_size=4).map(
    b".".join
)
STEP = st.one_of(
    st.tuples(st.just("insert"), PATTERN, st.sampled_from([b"", b"", b"q", b"r"])),
    st.tuples(st.just("remove"), st.integers(0, 50), st.none()),
    st.tuples(st.just("ask"), LITERAL, st.none()),
    st.tuples(st.just("invalidate"), st.none(), st.none()),
)
NOBODY = Subscriber()


def expected(
    kept: list[Subscription], subject: bytes
) -> tuple[set[Subscription], dict[bytes, set[Subscription]]]:
    found = [one for one in kept if matches(one.subject, subject)]
    groups: dict[bytes, set[Subscription]] = {}
    for one in found:
        if one.queue:
            groups.setdefault(one.queue, set()).add(one)
    return {one for one in found if not one.queue}, groups


def check(interest: Interest, kept: list[Subscription], subject: bytes) -> None:
    plain, groups = expected(kept, subject)
    found, found_groups = interest.match(subject)
    assert len(found) == len(plain)
    assert set(found) == plain
    assert {queue: set(members) for queue, members in found_groups.items()} == groups
    # The compiled route, twice: once it may be new, then it is the cached one.
    for _ in range(2):
        targets, target_groups = interest.targets(subject)
        assert len(targets) == len(plain)
        assert set(targets) == plain
        assert sorted(len(members) for members in target_groups) == sorted(map(len, groups.values()))
        assert {members[0].queue: set(members) for members in target_groups} == groups


@given(
    st.lists(STEP, max_size=60),
    st.lists(LITERAL, max_size=4),
    st.sampled_from([0, 1, 64]),
    st.sampled_from([b"", b"a.", b"a.b."]),
)
def test_routes_stay_right_while_subscriptions_come_and_go(
    steps: list[tuple[str, bytes | int | None, bytes | None]],
    always: list[bytes],
    family_after: int,
    shared_below: bytes,
) -> None:
    """ROUTE-1, ROUTE-2, ROUTE-8."""
    interest = Interest(family_after)
    if shared_below:
        interest.share_below(shared_below)
    kept: list[Subscription] = []
    for number, (step, what, queue) in enumerate(steps):
        if step == "insert":
            assert isinstance(what, bytes)
            one = Subscription(what, queue or b"", b"%d" % number, NOBODY)
            assert interest.insert(one)
            kept.append(one)
        elif step == "remove" and kept:
            assert isinstance(what, int)
            one = kept.pop(what % len(kept))
            assert interest.remove(one)
            assert one.closed
            assert not interest.remove(one)
        elif step == "ask":
            assert isinstance(what, bytes)
            check(interest, kept, what)
        elif step == "invalidate":
            interest.invalidate()
        for subject in always:
            check(interest, kept, subject)
        assert interest.count == len(kept) == interest.inserts - interest.removes
    assert set(interest.subscriptions()) == set(kept)
    for one in kept:
        assert interest.remove(one)
    assert interest.subscriptions() == []
    for subject in always:
        assert interest.targets(subject) == ([], [])


@given(st.lists(st.sampled_from([b"", b"a", b"*", b">"]), min_size=1, max_size=4).map(b".".join))
def test_only_valid_subjects_are_inserted(subject: bytes) -> None:
    tokens = subject.split(b".")
    valid = b"" not in tokens and b">" not in tokens[:-1]
    interest = Interest()
    one = Subscription(subject, b"", b"1", NOBODY)
    assert (tokens_of(subject) is not None) is valid
    assert interest.insert(one) is valid
    assert interest.count == int(valid)
    assert interest.remove(one) is valid
