"""One subject out of another: the destinations of mappings, streams and republishing.

A destination is a subject whose tokens may also be

    $2  {{wildcard(2)}}            what stands for the second `*` of the source
    {{partition(5,1,2)}}           0 to 4, from a hash of the named wildcards; without any, of all of it
    {{random(5)}}                  0 to 4
    {{split(1,-)}}                 cut at every `-`, or between all letters without one; no empty tokens
    {{splitFromLeft(1,3)}}         cut once behind the third byte; splitFromRight counts from the end
    {{sliceFromLeft(1,3)}}         cut into pieces of three bytes; sliceFromRight has the short one in front
    {{left(1,3)}} {{right(1,3)}}   the first, or last, three bytes

and `>` at its end stands for what the source's `>` does; both or neither have one. A wildcard that is too
short to be cut stays whole. Each word of a name may begin with a capital. Only partition and random go with
a literal source.

With `strict`, as imports need it, only wildcards may be used, and all of the source's must be. Hashes and
texts of errors are those of the peer, so that partitions agree and people find what they search for.
"""

import itertools
import re
from collections.abc import Callable

from tidelog.base.errors import TidelogError
from tidelog.subject.pattern import REST, STAR, is_valid_literal, is_valid_subject, matches

# A number from 0 up to, not including, the argument.
Chance = Callable[[int], int]
# Makes a part of the new subject of the old one's tokens.
Step = Callable[[list[bytes]], bytes]

INT32_MAX = 2**31 - 1

_CALL = re.compile(rb"\{\{\s*([A-Za-z]+)\s*\((.*)\)\s*\}\}")
_COMMA = re.compile(rb",\s*")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_WHITE = re.compile(rb"[ \t\n\r\f]")


class TransformError(TidelogError):
    """A source and destination that do not go together; `str()` says why."""


def _invalid(why: str, token: bytes = b"") -> TransformError:
    where = f" in {token.decode('utf-8', 'replace')}" if token else ""
    return TransformError(f"invalid mapping destination: {why}{where}")


def numbered(subject: bytes) -> bytes:
    """A subject as the destination of one with as many `*`, which stand for each other in their order."""
    numbers = itertools.count(1)
    return b".".join(b"$%d" % next(numbers) if token == STAR else token for token in subject.split(b"."))


class Transform:
    """A compiled pair. Raises TransformError if there is no such transform."""

    __slots__ = ("_rest_pos", "_steps", "destination", "source")

    def __init__(self, source: bytes, destination: bytes, chance: Chance, *, strict: bool = False) -> None:
        self.source = source or REST
        self.destination = destination
        if not is_valid_subject(self.source):
            raise TransformError("invalid subject")
        tokens = self.source.split(b".")
        parts = destination.split(b".")
        open_end = tokens[-1] == REST
        if STAR in parts or REST in parts[:-1] or b"" in parts or (parts[-1] == REST) != open_end:
            raise TransformError("invalid subject")
        # Where the tokens begin that are taken over as they are.
        self._rest_pos = len(tokens) - 1 if open_end else None
        if open_end:
            parts.pop()
        stars = [pos for pos, token in enumerate(tokens) if token == STAR]
        compiler = _Compiler(stars, is_literal=not (stars or open_end), strict=strict, chance=chance)
        self._steps = [compiler.compile(part) for part in parts]
        if strict and compiler.used < len(stars):
            raise _invalid("not using all of the token wildcard(s)", destination)

    def apply(self, subject: bytes) -> bytes | None:
        """The new subject for a literal one; None if the source does not mean it."""
        if not is_valid_literal(subject) or not matches(self.source, subject):
            return None
        return self.rewrite(subject)

    def rewrite(self, subject: bytes) -> bytes:
        """The new subject for one of which it is known that the source covers it."""
        tokens = subject.split(b".")
        made = [step(tokens) for step in self._steps]
        if self._rest_pos is not None:
            made += tokens[self._rest_pos :]
        return b".".join(made)


class _Compiler:
    """Reads the tokens of one destination."""

    def __init__(self, stars: list[int], *, is_literal: bool, strict: bool, chance: Chance) -> None:
        self._stars = stars
        self._is_literal = is_literal
        self._strict = strict
        self._chance = chance
        # Mentions of wildcards.
        self.used = 0

    def compile(self, token: bytes) -> Step:
        if token[:1] == b"$" and _INTEGER.fullmatch(token[1:]):
            return self._wildcard(token, [token[1:]])
        # `{{}}` itself is too short to be taken for a call.
        if not (len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")):
            if _WHITE.search(token):
                raise _invalid("invalid transform")
            return lambda _: token
        call = _CALL.fullmatch(token)
        read = call and _FUNCTIONS.get(call[1].decode())
        if not call or not read:
            raise _invalid("unknown function", token)
        if self._strict and read is not _Compiler._wildcard:
            raise _invalid("the only mapping function allowed for import transforms is {{Wildcard()}}", token)
        return read(self, token, _COMMA.split(call[2]))

    def _wildcard(self, token: bytes, args: list[bytes]) -> Step:
        if args == [b""]:
            raise _invalid("not enough arguments passed to the function", token)
        pos = self._position(token, _take(token, args, 1)[0])
        return lambda tokens: tokens[pos]

    def _partition(self, token: bytes, args: list[bytes]) -> Step:
        count = _integer(token, args[0])
        # A literal source has no wildcards to choose from, so that all of it counts, whatever is named.
        named = [] if self._is_literal else [self._position(token, arg) for arg in args[1:]]
        if not named:
            return lambda tokens: partition(b".".join(tokens), count)
        return lambda tokens: partition(b"".join([tokens[pos] for pos in named]), count)

    def _random(self, token: bytes, args: list[bytes]) -> Step:
        if len(args) != 1:
            raise _invalid("not enough arguments passed to the function", token)
        count = abs(_integer(token, args[0]))
        chance = self._chance
        return lambda _: b"%d" % chance(count) if count else b"0"

    def _split(self, token: bytes, args: list[bytes]) -> Step:
        index, delimiter = _take(token, args, 2)
        pos = self._position(token, index)
        if b" " in delimiter:
            raise _invalid("function argument is invalid or in the wrong format", token)
        if not delimiter:
            return lambda tokens: ".".join(tokens[pos].decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        return lambda tokens: b".".join(filter(None, tokens[pos].split(delimiter)))

    def _cut(self, token: bytes, args: list[bytes], cut: Callable[[bytes, int], bytes]) -> Step:
        index, number = _take(token, args, 2)
        pos, size = self._position(token, index), _integer(token, number)
        return lambda tokens: cut(tokens[pos], size) if 0 < size < len(tokens[pos]) else tokens[pos]

    def _position(self, token: bytes, arg: bytes) -> int:
        """The place in the subject of the wildcard that `arg` names."""
        index = _integer(token, arg)
        if self._is_literal:
            raise _invalid("wildcard index out of range", token)
        if index > len(self._stars):
            raise _invalid("wildcard index out of range", b"%b: [%d]" % (token, index))
        self.used += 1
        # Below one it is the first token of all at the peer.
        return self._stars[index - 1] if index > 0 else 0


def partition(key: bytes, count: int) -> bytes:
    """The partition of `key`: FNV-1a of 32 bits, modulo `count`."""
    if count == 0:
        return b"0"
    digest = 0x811C9DC5
    for byte in key:
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return b"%d" % (digest % (count & 0xFFFFFFFF))


def _integer(token: bytes, arg: bytes) -> int:
    text = arg.strip(b" ")
    # The length keeps clear of numbers that are slow to convert.
    if not _INTEGER.fullmatch(text) or len(text) > 20 or abs(int(text)) > INT32_MAX:
        raise _invalid("function argument is invalid or in the wrong format", token)
    return int(text)


def _take(token: bytes, args: list[bytes], count: int) -> list[bytes]:
    if len(args) != count:
        much = "not enough" if len(args) < count else "too many"
        raise _invalid(f"{much} arguments passed to the function", token)
    return args


def _pieces(text: bytes, first_size: int, size: int) -> bytes:
    starts = range(first_size, len(text), size)
    pieces = [text[:first_size], *(text[start : start + size] for start in starts)]
    return b".".join(filter(None, pieces))


def _cutter(cut: Callable[[bytes, int], bytes]) -> Callable[[_Compiler, bytes, list[bytes]], Step]:
    return lambda compiler, token, args: compiler._cut(token, args, cut)


_NAMED: dict[str, Callable[[_Compiler, bytes, list[bytes]], Step]] = {
    "wildcard": _Compiler._wildcard,
    "partition": _Compiler._partition,
    "random": _Compiler._random,
    "split": _Compiler._split,
    "split from left": _cutter(lambda text, size: text[:size] + b"." + text[size:]),
    "split from right": _cutter(lambda text, size: text[:-size] + b"." + text[-size:]),
    "slice from left": _cutter(lambda text, size: _pieces(text, 0, size)),
    "slice from right": _cutter(lambda text, size: _pieces(text, len(text) % size, size)),
    "left": _cutter(lambda text, size: text[:size]),
    "right": _cutter(lambda text, size: text[-size:]),
}

# Every word of a name with and without its capital.
_FUNCTIONS = {
    "".join(spelling): read
    for name, read in _NAMED.items()
    for spelling in itertools.product(*((word, word.capitalize()) for word in name.split()))
}
