"""The tree of entries against a walk over the list of them."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.right import EntrySet, Rights
from tidelog.broker.settings import Permissions, SubjectRights
from tidelog.subject.pattern import has_wildcard, is_subset, is_valid_literal, matches, overlaps

TOKENS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3)
SUBJECT = st.builds(
    lambda tokens, end: ".".join(tokens + end), TOKENS, st.sampled_from([[], [">"]])
) | st.just(">")
LITERAL = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)
QUEUE = st.none() | st.sampled_from(["q", "w.x"])
GROUP = st.none() | st.sampled_from(["q", "w.x", "w.*", ">"])
ENTRIES = st.lists(st.tuples(SUBJECT, GROUP), max_size=6)


def holds(group: str | None, queue: str | None) -> bool:
    if group is None:
        return True
    return queue is not None and (queue == group or is_subset(queue.encode(), group.encode()))


def entry_set(entries: list[tuple[str, str | None]]) -> EntrySet:
    return EntrySet((subject.encode(), group.encode() if group else None) for subject, group in entries)


@given(ENTRIES, LITERAL)
def test_covering_a_literal(entries: list[tuple[str, str | None]], subject: str) -> None:
    plain, groups = entry_set(entries).covering(subject.encode())
    covering = [group for pattern, group in entries if matches(pattern.encode(), subject.encode())]
    assert plain is (None in covering)
    assert {group.decode() for group in groups} == {group for group in covering if group}


@given(ENTRIES, SUBJECT)
def test_covering_a_pattern_exactly(entries: list[tuple[str, str | None]], subject: str) -> None:
    plain, groups = entry_set(entries).covering(subject.encode(), exactly=True)
    covering = [group for pattern, group in entries if is_subset(subject.encode(), pattern.encode())]
    assert plain is (None in covering)
    assert {group.decode() for group in groups} == {group for group in covering if group}


@given(ENTRIES, SUBJECT | LITERAL, QUEUE)
def test_overlaps(entries: list[tuple[str, str | None]], subject: str, queue: str | None) -> None:
    expected = any(
        holds(group, queue) and overlaps(pattern.encode(), subject.encode()) for pattern, group in entries
    )
    assert entry_set(entries).overlaps(subject.encode(), queue.encode() if queue else None) is expected


@given(ENTRIES, ENTRIES, SUBJECT | LITERAL, LITERAL, QUEUE)
def test_nobody_receives_what_is_denied(
    allow: list[tuple[str, str | None]],
    deny: list[tuple[str, str | None]],
    subscription: str,
    subject: str,
    queue: str | None,
) -> None:
    def texts(entries: list[tuple[str, str | None]]) -> tuple[str, ...]:
        return tuple(f"{pattern} {group}" if group else pattern for pattern, group in entries)

    rights = Rights(Permissions(subscribe=SubjectRights(texts(allow), texts(deny))))
    pattern, name, group = subscription.encode(), subject.encode(), queue.encode() if queue else None
    if not matches(pattern, name) or not rights.may_subscribe(pattern, group):
        return
    assert is_valid_literal(name)
    assert any(holds(entry, queue) and matches(text.encode(), name) for text, entry in allow)
    denied = any(holds(entry, queue) and matches(text.encode(), name) for text, entry in deny)
    reaches = not rights.filters_delivery(pattern, group) or rights.may_receive(name, group)
    assert reaches is not denied
    if denied:
        assert has_wildcard(pattern)
