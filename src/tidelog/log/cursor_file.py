"""The bytes of the file `cursors`. docs/formats/cursors.md has the layout.

Promises
  * `read_cursors` takes any bytes. What is whole counts; what is not is skipped and reported, or cut if it is the tail.
  * A cursor that was last seen in front of damage comes out `doubtful`: its newest value may be among what is lost.
  * What the power took before it was synced is no damage: every record says how far the file was synced when it was
    written, and what is missing beyond the highest of these was promised to nobody.

Records are numbered without gaps, so that what is lost is counted even where nothing is left of it. A name has no
control characters, and the kind of every record is one: no name can pass for a record when what is around it is
damaged.

What it does not do: files, and deciding when to write one.
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tidelog.base.errors import StorageError
from tidelog.log.record import checksum

MAGIC = b"TIDECUR1"
VERSION = 1

_FRONT = struct.Struct("<8sI")
_FACTS = struct.Struct("<HHQq")
FILE_HEADER_SIZE = _FRONT.size + _FACTS.size

_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<BBHQQQQq")
RECORD_HEADER_SIZE = _CRC.size + _RECORD.size

_DOUBTFUL = 1

# Where a record may begin, by its kind and flags: what a search tries, so that it costs little over long damage.
_MAY_BEGIN = re.compile(rb"(?=.{4}[\x01-\x03].[\x00\x01]\x00)", re.DOTALL)


class Kind(IntEnum):
    SET = 1
    DELETE = 2
    # Everything in front of it is on the medium. Written when the file is closed, and has no name.
    CLOSED = 3


class Cursor(NamedTuple):
    """A named position. `doubtful`: damage may have taken a newer value; the next set ends the doubt."""

    name: str
    seq: int
    revision: int
    ts_ns: int
    doubtful: bool = False


@dataclass(slots=True)
class Contents:
    """What a file says, and what of it could not be read."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    # The highest number and the highest revision that were given out, and the highest number known to be synced.
    number: int = 0
    revision: int = 0
    synced: int = 0
    # Records lost that had been synced.
    damaged: int = 0
    # Bytes between records that are none (position, size); no bytes at all where records are missing.
    strange: list[tuple[int, int]] = field(default_factory=list)
    # Where the last valid record ends, and how many bytes of unfinished writes there are.
    end_pos: int = FILE_HEADER_SIZE
    cut_size: int = 0
    # Whether all there is was on the medium when the file was closed: nothing is missing, nothing follows.
    closed: bool = False
    header_valid: bool = True


class _Found(NamedTuple):
    kind: int
    flags: int
    number: int
    synced: int
    revision: int
    seq: int
    ts_ns: int
    name: str
    pos: int
    end_pos: int


class _Gap(NamedTuple):
    """The first number that is missing, the first one behind that is there, and the bytes between."""

    first: int
    past: int
    size: int


def record_size(name: str) -> int:
    return RECORD_HEADER_SIZE + len(name.encode())


def encode_record(kind: Kind, number: int, synced: int, cursor: Cursor) -> bytes:
    """`synced`: the number up to which the file is on the medium."""
    name = cursor.name.encode()
    flags = _DOUBTFUL if cursor.doubtful else 0
    facts = (kind, len(name), flags, number, synced, cursor.revision, cursor.seq, cursor.ts_ns)
    rest = _RECORD.pack(*facts) + name
    return _CRC.pack(checksum(rest)) + rest


def encode_file(cursors: Sequence[Cursor], revision: int, ts_ns: int) -> bytes:
    """A whole file of the cursors there are, numbered from 1. It is synced before anybody sees it."""
    facts = _FACTS.pack(VERSION, 0, revision, ts_ns)
    count = len(cursors)
    records = (encode_record(Kind.SET, number, count, cursor) for number, cursor in enumerate(cursors, 1))
    return b"".join([_FRONT.pack(MAGIC, checksum(facts)), facts, *records])


def read_cursors(data: bytes) -> Contents:
    """Raises only where nothing can be made of them: a version of tomorrow, or a file that is something else."""
    contents = Contents()
    _read_header(data, contents)
    last_numbers: dict[str, int] = {}
    gaps: list[_Gap] = []
    while contents.end_pos < len(data):
        expected = contents.number + 1
        found = _record_at(data, contents.end_pos, expected) or _next_record(
            data, contents.end_pos + 1, expected
        )
        if found is None:
            break
        if found.number > expected or found.pos > contents.end_pos:
            gaps.append(_Gap(expected, found.number, found.pos - contents.end_pos))
            contents.strange.append((contents.end_pos, found.pos - contents.end_pos))
        _take(contents, found, last_numbers)
    contents.cut_size = len(data) - contents.end_pos
    doubt_number = _judge(gaps, contents)
    if contents.cut_size:
        # As many revisions as can have been in there are not given out again.
        contents.revision += contents.cut_size // RECORD_HEADER_SIZE + 1
    if not contents.header_valid:
        if not contents.number:
            raise StorageError(
                "cursors: neither its header nor any record is valid; move it away to go on without"
            )
        contents.damaged += 1
    if contents.cut_size or contents.damaged:
        contents.closed = False
    for name, number in last_numbers.items():
        if number < doubt_number and name in contents.cursors:
            contents.cursors[name] = contents.cursors[name]._replace(doubtful=True)
    return contents


def _judge(gaps: Sequence[_Gap], contents: Contents) -> int:
    """Damage or torn; the number of the record behind the last damage that took any."""
    doubt_number = 0
    for gap in gaps:
        if gap.first > contents.synced:
            contents.cut_size += max(1, gap.size)
            continue
        # Strange bytes between two neighbours have taken nothing, but nobody has written them.
        contents.damaged += max(1, min(gap.past, contents.synced + 1) - gap.first)
        if gap.past > gap.first:
            doubt_number = gap.past
    return doubt_number


def _read_header(data: bytes, contents: Contents) -> None:
    facts = data[_FRONT.size : FILE_HEADER_SIZE]
    if len(facts) < _FACTS.size or data[: _FRONT.size] != _FRONT.pack(MAGIC, checksum(facts)):
        contents.header_valid = False
        return
    version, _, contents.revision, _ = _FACTS.unpack(facts)
    if version != VERSION:
        raise StorageError(f"cursors: version {version} is not known to this release, which reads {VERSION}")


def _take(contents: Contents, found: _Found, last_numbers: dict[str, int]) -> None:
    contents.number = found.number
    contents.end_pos = found.end_pos
    contents.synced = max(contents.synced, found.synced)
    contents.closed = found.kind == Kind.CLOSED
    contents.revision = max(contents.revision, found.revision)
    if found.kind == Kind.SET:
        doubtful = bool(found.flags & _DOUBTFUL)
        contents.cursors[found.name] = Cursor(found.name, found.seq, found.revision, found.ts_ns, doubtful)
        last_numbers[found.name] = found.number
    elif found.kind == Kind.DELETE:
        contents.cursors.pop(found.name, None)


def _record_at(data: bytes, pos: int, number_least: int) -> _Found | None:
    """The valid record that begins there."""
    front = data[pos : pos + RECORD_HEADER_SIZE]
    if len(front) < RECORD_HEADER_SIZE:
        return None
    kind, name_size, flags, number, synced, revision, seq, ts_ns = _RECORD.unpack_from(front, _CRC.size)
    if kind not in (Kind.SET, Kind.DELETE, Kind.CLOSED) or number < number_least or flags & ~_DOUBTFUL:
        return None
    end_pos = pos + RECORD_HEADER_SIZE + name_size
    rest = data[pos + _CRC.size : end_pos]
    if end_pos > len(data) or checksum(rest) != _CRC.unpack_from(front)[0]:
        return None
    name = rest[_RECORD.size :].decode(errors="replace")
    return _Found(kind, flags, number, synced, revision, seq, ts_ns, name, pos, end_pos)


def _next_record(data: bytes, start: int, number_least: int) -> _Found | None:
    """The first valid record from `start` on."""
    for place in _MAY_BEGIN.finditer(data, start):
        found = _record_at(data, place.start(), number_least)
        if found is not None:
            return found
    return None
