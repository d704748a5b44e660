"""The fast way out of a Tidelog server: a range of a stream as blocks of Arrow, filtered there.

What it promises is what every door does (`door`). Where the server is another one, or has no Arrow, `offers_blocks`
says so, and Direct Get is the door.

How it works: as with Direct Get, an answer is taken in as a whole before its rows are handed on. What the server says
of sequences that are not there any more is told to the task: what retention took as missing, what is damaged as such.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa

from tidelog.base.errors import ApiError, NoResponders, ServerError
from tidelog.client.jetstream.answer import read_document
from tidelog.client.jetstream.block import END_OF_BATCH, number, ranges
from tidelog.spark.door import ANSWER_SIZE, Watch
from tidelog.spark.link import ANSWER_S, Link, is_forbidden
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns, from_cold


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """`up_to_seq` is the last of what was asked for that is committed; `next_seq` is where to go on."""

    blocks: list[bytes]
    next_seq: int
    up_to_seq: int
    lost: list[tuple[int, int]]
    trimmed: list[tuple[int, int]]


class BlockDoor:
    def __init__(self, link: Link, subjects: tuple[str, ...], *, headers: bool = False) -> None:
        self._link = link
        self._subjects = subjects
        self._headers = headers

    def read(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        next_seq = piece.start_seq
        while next_seq < piece.end_seq:
            asked = partial(ask, self._link, piece.stream, next_seq, piece.end_seq, self._subjects)
            answer = self._link.attempt(asked)
            watch.miss(first_seq for first_seq, _ in answer.trimmed)
            watch.damage(first_seq for first_seq, _ in answer.lost)
            for block in answer.blocks:
                for batch in pa.ipc.open_stream(block):
                    yield from_cold(piece.stream, batch, headers=self._headers)
            next_seq = answer.next_seq
            if next_seq > answer.up_to_seq:
                if answer.up_to_seq + 1 < piece.end_seq:
                    # The stream has become shorter than it was when this was planned.
                    watch.miss([answer.up_to_seq + 1])
                return


def offers_blocks(link: Link, piece: Piece) -> bool:
    """Asked once for each connection, by a range of one message."""
    if link.blocks is None:
        link.blocks = link.attempt(partial(_probe, link, piece))
    return link.blocks


def _probe(link: Link, piece: Piece) -> bool:
    try:
        ask(link, piece.stream, piece.start_seq, piece.start_seq + 1, ())
    except (NoResponders, ApiError):
        return False
    except ServerError as error:
        if not is_forbidden(error):
            raise
        return False
    return True


def ask(link: Link, stream: str, start_seq: int, end_seq: int, subjects: tuple[str, ...]) -> BlockAnswer:
    """One answer, whole. Raises ApiError or NoResponders where there are no blocks, and as the connection does."""
    connection = link.connection()
    inbox = connection.subscribe(reply := connection.new_inbox())
    asked = {"start_seq": start_seq, "end_seq": end_seq, "filters": list(subjects), "max_bytes": ANSWER_SIZE}
    try:
        connection.publish(f"$TIDELOG.API.READ.{stream}", msgspec.json.encode(asked), reply=reply)
        blocks: list[bytes] = []
        while True:
            message = inbox.next(ANSWER_S)
            if message.is_no_responders:
                raise NoResponders(f"nobody answers bulk reads of {stream!r}")
            if not message.header_block:
                read_document(message.payload)
                raise ApiError(500, 0, f"{stream!r} was not read, and the server does not say why")
            if message.status == END_OF_BATCH:
                return BlockAnswer(
                    blocks,
                    number(message, "Tidelog-Next-Seq"),
                    number(message, "Nats-UpTo-Sequence"),
                    ranges(message, "Tidelog-Lost"),
                    ranges(message, "Tidelog-Trimmed"),
                )
            blocks.append(message.payload)
    finally:
        inbox.unsubscribe()
