"""Relations of patterns against their definition: the sets of literal subjects that they mean."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidelog.subject.pattern import has_wildcard, is_subset, is_valid_subject, matches, overlaps

# Enough to tell all patterns of up to three tokens over `a` and `b` apart: `c` stands for a token that no
# pattern names, the fourth level for longer than any pattern says.
UNIVERSE = [
    b".".join(tokens) for size in range(1, 5) for tokens in itertools.product((b"a", b"b", b"c"), repeat=size)
]

TOKEN = st.sampled_from([b"a", b"b", b"*"])
PATTERN = st.builds(
    lambda tokens, end: b".".join([*tokens, *end]),
    st.lists(TOKEN, min_size=1, max_size=2),
    st.sampled_from([[], [b"a"], [b"*"], [b">"]]),
) | st.just(b">")


def means(pattern: list[bytes], subject: list[bytes]) -> bool:
    """The definition, by recursion."""
    if not pattern or not subject:
        return not pattern and not subject
    if pattern == [b">"]:
        return True
    return pattern[0] in (b"*", subject[0]) and means(pattern[1:], subject[1:])


def meaning(pattern: bytes) -> set[bytes]:
    return {subject for subject in UNIVERSE if means(pattern.split(b"."), subject.split(b"."))}


@given(PATTERN, st.sampled_from(UNIVERSE))
def test_matches_is_the_definition(pattern: bytes, subject: bytes) -> None:
    assert matches(pattern, subject) is (subject in meaning(pattern))


@given(PATTERN, PATTERN)
def test_subset_and_overlap_are_those_of_the_sets(a: bytes, b: bytes) -> None:
    assert is_subset(a, b) is (meaning(a) <= meaning(b))
    assert overlaps(a, b) is bool(meaning(a) & meaning(b))


@given(st.text(alphabet="ab.*> \t", max_size=8))
def test_validity_token_by_token(text: str) -> None:
    subject = text.encode()
    tokens = text.split(".")
    valid = all(token and not set(token) & set(" \t") for token in tokens) and ">" not in tokens[:-1]
    assert is_valid_subject(subject) is valid
    if valid:
        assert has_wildcard(subject) is any(token in ("*", ">") for token in tokens)
