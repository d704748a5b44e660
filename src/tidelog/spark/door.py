"""The ways by which messages come out of a server; one schema behind all of them.

A door gives the messages of a piece that match the filters, in the order of their sequences, as columns. It says in
`Watch` where something was missing, and what has been read when a connection is lost: the task decides what that
means.

    DirectDoor   batched Direct Get, of any JetStream from 2.11 on
    BlockDoor    blocks of Arrow, of Tidelog (`block_door`)

How it works: one answer is read to its end before its rows are handed on, so that a Spark that takes its time never
lets a server wait. An answer is bounded in messages and in bytes far below what servers allow to be pending.

Several filters are asked for one after the other, window by window of sequences, and put in order here.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.link import ANSWER_S, Link
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns, concatenated, from_buffers

# Of one answer. On the wire each message costs some 250 bytes beside its own.
ANSWER_COUNT = 32_768
ANSWER_SIZE = 8 * 1024 * 1024
# Asked for when all that were counted have come: some may have come since, and more than these would be of no use.
SPARE_COUNT = 64
# Sequences that several filters are asked for before the next.
WINDOW = 131_072


class Watch:
    """What a door noticed: the first sequence that should have come and did not, or that the server knows is damaged.

    `short`: fewer matches came than were counted before.
    """

    def __init__(self) -> None:
        self.missing_seq: int | None = None
        self.damaged_seq: int | None = None
        self.short = False

    def miss(self, seqs: Iterable[int]) -> None:
        self.missing_seq = (
            min(seqs, default=self.missing_seq) if self.missing_seq is None else self.missing_seq
        )

    def damage(self, seqs: Iterable[int]) -> None:
        self.damaged_seq = (
            min(seqs, default=self.damaged_seq) if self.damaged_seq is None else self.damaged_seq
        )


class Door(Protocol):
    def read(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]: ...


class DirectDoor:
    def __init__(self, link: Link, subjects: tuple[str, ...]) -> None:
        self._link = link
        self._subjects = subjects

    def read(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        if not self._subjects:
            return self._all(piece, watch)
        if len(self._subjects) == 1:
            return self._matching(piece, self._subjects[0], watch)
        return self._windows(piece, watch)

    def _all(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        next_seq = piece.start_seq
        while next_seq < piece.end_seq:
            columns = self._link.attempt(partial(self._ask, piece, next_seq, piece.end_seq - next_seq, ""))
            missing = columns.missing_from(next_seq, piece.end_seq)
            watch.miss(() if missing is None else (missing,))
            if not columns.last_seq:
                return
            next_seq = columns.last_seq + 1
            if columns.rows.count:
                yield columns.rows

    def _matching(self, piece: Piece, subject: str, watch: Watch) -> Iterator[MessageColumns]:
        left = self._count(piece, subject)
        next_seq = piece.start_seq
        while next_seq < piece.end_seq:
            # The count says how much to ask for, not where to end: of what came between its halves it knows nothing.
            columns = self._link.attempt(partial(self._ask, piece, next_seq, max(left, SPARE_COUNT), subject))
            if not columns.last_seq:
                break
            next_seq = columns.last_seq + 1
            left -= columns.rows.count
            if columns.rows.count:
                yield columns.rows
        watch.short |= left > 0

    def _windows(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        for start_seq in range(piece.start_seq, piece.end_seq, WINDOW):
            window = Piece(piece.stream, piece.created, start_seq, min(start_seq + WINDOW, piece.end_seq))
            parts = [part for subject in self._subjects for part in self._matching(window, subject, watch)]
            if parts:
                yield _in_order(concatenated(parts))

    def _count(self, piece: Piece, subject: str) -> int:
        """How many match now, at the least."""

        def ask() -> int:
            bulk = self._link.bulk()
            return bulk.pending(piece.stream, piece.start_seq, subject) - bulk.pending(
                piece.stream, piece.end_seq, subject
            )

        return self._link.attempt(ask)

    def _ask(self, piece: Piece, next_seq: int, count: int, subject: str) -> "Answer":
        bulk = self._link.bulk()
        bulk.read(
            piece.stream,
            next_seq,
            max_count=min(count, ANSWER_COUNT),
            max_size=ANSWER_SIZE,
            end_seq=piece.end_seq,
            subject=subject,
            timeout_s=ANSWER_S,
        )
        first_seq, last_seq = bulk.columns.first_seq, bulk.columns.last_seq
        return Answer(from_buffers(piece.stream, *bulk.columns.take()), first_seq, last_seq)


class Answer:
    """`first_seq` and `last_seq` are of what the server sent, rows only what belongs to the piece."""

    def __init__(self, rows: MessageColumns, first_seq: int, last_seq: int) -> None:
        self.rows = rows
        self.first_seq = first_seq
        self.last_seq = last_seq

    def missing_from(self, next_seq: int, end_seq: int) -> int | None:
        """The first sequence of `next_seq` to `end_seq` that is not here, though a later one is; None: all are."""
        if not self.last_seq or self.first_seq > next_seq:
            return next_seq
        count = self.rows.count
        if self.rows.seq[count - 1].as_py() - next_seq + 1 == count:
            # One behind the other; the rest comes with the next answer, unless there was something beyond the end.
            end = next_seq + count
            return end if self.last_seq >= end_seq and end < end_seq else None
        steps = pc.not_equal(pc.subtract(self.rows.seq, next_seq), pa.array(range(count), pa.int64()))
        return next_seq + int(pc.index(steps, True).as_py())


def _in_order(columns: MessageColumns) -> MessageColumns:
    """By sequence, each once: filters may overlap."""
    order = pc.sort_indices(columns.seq)
    seqs = columns.seq.take(order)
    if columns.count > 1:
        again = pc.equal(seqs[1:], seqs[:-1])
        if pc.any(again).as_py():
            order = order.filter(pa.concat_arrays([pa.array([True]), pc.invert(again)]))
    return columns.taken(order)
