"""What a subject is, and which subjects a pattern means.

A subject is tokens joined by dots. A token is not empty and holds no blank, tab, line feed, carriage return
or form feed; every other byte is allowed. A token `*` stands for one token, a last token `>` for one or
more; inside a longer token both are ordinary bytes. A subject without wildcards is literal.

The functions for relations (`matches`, `is_subset`, `overlaps`) are exact over the unbounded alphabet of
tokens and expect valid arguments, except that a subject with an empty token is in no relation to anything.
They are for checks on single pairs; routing has its own tree in `subject.interest`.
"""

import re

STAR = b"*"
REST = b">"

_WHITE = re.compile(rb"[ \t\n\r\f]")


def is_valid_subject(subject: bytes) -> bool:
    """Whether `subject` may be subscribed to: literal or with wildcards."""
    if not subject or _WHITE.search(subject):
        return False
    tokens = subject.split(b".")
    return b"" not in tokens and REST not in tokens[:-1]


def is_valid_literal(subject: bytes) -> bool:
    """Whether `subject` is valid and has no wildcards."""
    return is_valid_subject(subject) and not has_wildcard(subject)


def has_wildcard(subject: bytes) -> bool:
    """Whether a token of `subject` is a wildcard."""
    # Most subjects hold neither byte, and the search for one is much cheaper than to split.
    if STAR not in subject and REST not in subject:
        return False
    tokens = subject.split(b".")
    return STAR in tokens or tokens[-1] == REST


def matches(pattern: bytes, subject: bytes) -> bool:
    """Whether the literal `subject` is one of those that `pattern` means."""
    wanted = pattern.split(b".")
    tokens = subject.split(b".")
    if b"" in tokens:
        return False
    if wanted[-1] == REST:
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
    elif len(tokens) != len(wanted):
        return False
    return all(want in (STAR, token) for want, token in zip(wanted, tokens, strict=False))


def is_subset(subject: bytes, pattern: bytes) -> bool:
    """Whether `pattern` means every subject that `subject`, which may have wildcards, means."""
    wanted = pattern.split(b".")
    tokens = subject.split(b".")
    if b"" in tokens:
        return False
    open_end = tokens[-1] == REST
    if wanted[-1] == REST:
        wanted.pop()
        # `a.>` holds at least two tokens; its last one stands for any number, but not for none.
        if len(tokens) <= len(wanted):
            return False
    elif open_end or len(tokens) != len(wanted):
        return False
    return all(want in (STAR, token) for want, token in zip(wanted, tokens, strict=False))


def overlaps(a: bytes, b: bytes) -> bool:
    """Whether a literal subject exists that both mean."""
    left = a.split(b".")
    right = b.split(b".")
    if b"" in left or b"" in right:
        return False
    if left[-1] != REST and right[-1] != REST and len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=False):
        if one == REST or other == REST:
            return True
        if one != other and one != STAR and other != STAR:
            return False
    return len(left) == len(right)
