"""Ranges of streams cut into pieces, one for each task.

What it promises: the pieces are the ranges, in order, without gap or overlap; the same ranges and number of tasks
give the same pieces. Pieces are about equally long, across streams.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidelog.cold.history import History
from tidelog.spark.option import ReadOptions

# Below this a task costs more than it reads.
WORTH_A_TASK = 10_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of one stream from `start_seq` to before `end_seq`."""

    stream: str
    created: str
    start_seq: int
    end_seq: int
    # What of it is in files.
    cold: History | None = None


def task_count(options: ReadOptions, total: int) -> int:
    """As asked for; else one for each core of this machine, if there is enough to do."""
    return options.min_partitions or max(1, min(os.cpu_count() or 1, total // WORTH_A_TASK))


def cut(ranges: Iterable[Piece], tasks: int, max_records: int = 0) -> list[Piece]:
    ranges = [piece for piece in ranges if piece.start_seq < piece.end_seq]
    total = sum(piece.end_seq - piece.start_seq for piece in ranges)
    if not total:
        return []
    length = -(-total // max(1, tasks))
    if max_records:
        length = min(length, max_records)
    pieces = []
    for piece in ranges:
        # Evenly: 10 in pieces of at most 4 are 4, 3 and 3.
        count = -(-(piece.end_seq - piece.start_seq) // length)
        size, more = divmod(piece.end_seq - piece.start_seq, count)
        at = piece.start_seq
        for number in range(count):
            end = at + size + (number < more)
            pieces.append(replace(piece, start_seq=at, end_seq=end))
            at = end
    return pieces
