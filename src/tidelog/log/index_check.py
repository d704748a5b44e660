"""Whether the index file of a segment says what the segment says.

An index stays right when a message is erased after it was made: it still names the subject that the record had. So what
it has more than a new one must be erased messages, and nothing else may differ.
"""

from typing import NamedTuple

from tidelog.log.sidecar import Sidecar, refusal
from tidelog.log.survey import Survey
from tidelog.log.walk import ERASED, walk

_SIZE = slice(32, 40)
_FIGURES = (
    "last_seq", "size", "messages", "message_bytes", "first_ts_ns", "last_ts_ns", "samples", "controls", "holes",
)  # fmt: skip


class Verdict(NamedTuple):
    """`text` is `right`, `missing`, `none`, or what is wrong. `cut_from`: the size that the segment once had."""

    text: str
    wrong: bool = False
    cut_from: int = 0


def judge_index(index: bytes | None, found: Survey, data: bytes, salt: int, last: bool) -> Verdict:
    """`data` is the plain segment, `found` its survey; the `last` one needs no index and may have outgrown its own."""
    if index is None:
        return Verdict("none") if last else Verdict("missing", wrong=True)
    size = len(data)
    why = refusal(index, found.base_seq, size)
    if not why:
        return _compare(index, found, data, salt)
    # Whether it would be one, if it were for its size.
    said_size = int.from_bytes(index[_SIZE], "little")
    if not refusal(index, found.base_seq, said_size):
        if said_size > size:
            return Verdict(f"stale: {why}", wrong=True, cut_from=said_size)
        if last:
            return Verdict("none")
        why = f"stale: {why}"
    return Verdict(why, wrong=True)


def _compare(index: bytes, found: Survey, data: bytes, salt: int) -> Verdict:
    if index == found.index_bytes():
        return Verdict("right")
    if found.damages:
        return Verdict("made before its segment was damaged", wrong=True)
    side = Sidecar.parse(index, found.base_seq, len(data))
    assert side is not None
    if any(getattr(side, name) != getattr(found, "end" if name == "size" else name) for name in _FIGURES):
        return Verdict("wrong: other figures than its segment", wrong=True)
    rows = side.take_rows()
    assert rows is not None
    told = {seq: subject for subject, seqs in rows for seq in seqs}
    if rows.broken:
        return Verdict("wrong: rows that are none", wrong=True)
    erased = set()
    for place in walk(data, found, salt):
        if place.record is None or place.record["kind"] != 1:
            continue
        if place.record["flags"] & ERASED:
            erased.add(place.record["seq"])
        elif told.pop(place.record["seq"], None) != place.record["subject"]:
            return Verdict("wrong: other subjects than its segment", wrong=True)
    expiries = {seq for seq, _ in side.expiries}
    if told.keys() - erased or expiries - {seq for seq, _ in found.expiries} - erased:
        return Verdict("wrong: messages that its segment does not have", wrong=True)
    return Verdict("right")
