"""An account's subject mappings: where a published message goes instead.

The first source, in the order given, that means the subject decides. Of its destinations one is drawn by
weight, in percent. What the weights leave over stays on its subject, unless the source is itself among the
destinations: then it is lost, on purpose.
"""

from collections.abc import Iterable

from tidelog.subject.pattern import STAR, is_valid_subject, matches
from tidelog.subject.transform import Chance, Transform, TransformError

ALL_PERCENT = 100


class SubjectMap:
    """Compiled from (source, destination, weight) entries. Raises TransformError."""

    def __init__(self, entries: Iterable[tuple[bytes, bytes, int]], chance: Chance) -> None:
        self._chance = chance
        grouped: dict[bytes, dict[bytes, int]] = {}
        for source, destination, weight in entries:
            if not is_valid_subject(source):
                raise TransformError(f"Subject {_quote(source)} is not a valid subject")
            weights = grouped.setdefault(source, {})
            if destination in weights:
                raise TransformError(f"duplicate entry for {_quote(destination)}")
            if not 0 <= weight <= ALL_PERCENT:
                raise TransformError("individual weights need to be <= 100")
            weights[destination] = weight
        self._sources = [(source, self._compile(source, weights)) for source, weights in grouped.items()]

    def __bool__(self) -> bool:
        return bool(self._sources)

    def apply(self, subject: bytes) -> bytes | None:
        """Where a message on `subject` goes: the same object if nowhere else, None if it is lost."""
        ways = next((ways for source, ways in self._sources if matches(source, subject)), None)
        if ways is None:
            return subject
        first_end, first = ways[0]
        if first_end == ALL_PERCENT:
            return first.rewrite(subject)
        drawn = self._chance(ALL_PERCENT)
        return next((way.rewrite(subject) for end, way in ways if drawn < end), None)

    def _compile(self, source: bytes, weights: dict[bytes, int]) -> list[tuple[int, Transform]]:
        """The destinations, each with where its share of the hundred ends."""
        ways = []
        end = 0
        for destination, weight in weights.items():
            end += weight
            ways.append((end, Transform(source, destination, self._chance)))
        if end > ALL_PERCENT:
            raise TransformError("total weight needs to be <= 100")
        if end < ALL_PERCENT and source not in weights:
            ways.append((ALL_PERCENT, Transform(source, _same(source), self._chance)))
        return ways


def _same(source: bytes) -> bytes:
    """The destination that leaves a subject as it is."""
    tokens = source.split(b".")
    stars = [pos for pos, token in enumerate(tokens) if token == STAR]
    for index, pos in enumerate(stars, 1):
        tokens[pos] = b"$%d" % index
    return b".".join(tokens)


def _quote(subject: bytes) -> str:
    return f'"{subject.decode("utf-8", "replace")}"'
