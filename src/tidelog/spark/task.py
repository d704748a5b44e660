"""One piece, read by one task: what comes is what the stream has there, or it is told.

What it promises (READ-1): when reading ends without an error, every message that matched was handed on once, in
order. Where that cannot be said, because the stream is another one by now or its beginning passed what was still to
be read, and data loss is not allowed, the task fails, and so does the batch: it is not committed.

How it works: the stream is asked for its state before and after. A hole in what came is a deleted message, unless the
stream begins behind it afterwards. Streams that forget on purpose lose nothing by it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tidelog.base.errors import ApiError
from tidelog.client.jetstream.columns import Columns
from tidelog.spark.block_door import BlockDoor, offers_blocks
from tidelog.spark.cold_door import ColdDoor, Server
from tidelog.spark.door import DirectDoor, Door, Watch
from tidelog.spark.link import Link, headed_columns, lease
from tidelog.spark.option import ReadFrom, ReadOptions
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns, RowFormat
from tidelog.spark.state import STREAM_NOT_FOUND, StreamState, ask_state
from tidelog.spark.survey import DataLoss


def read_piece(options: ReadOptions, piece: Piece) -> Iterator[Any]:
    """Record batches."""
    form = RowFormat(kafka=options.kafka_rows, headers=options.include_headers)
    if options.read_from is ReadFrom.COLD:
        yield from map(form.batch, _archived(options, piece))
        return
    with lease(options.connect, headed_columns if options.include_headers else Columns) as link:
        before = _state(link, piece, options)
        if before is None:
            return
        door, watch, rest = ServerDoor(link, options), Watch(), piece
        if piece.cold is not None:
            earlier = bool(options.cold_url)
            server = Server(link, door, piece.stream, before.held_seq, earlier=earlier)
            cold = ColdDoor(piece.cold, options.subjects, headers=options.include_headers, server=server)
            yield from map(form.batch, cold.read(piece, watch))
            rest = replace(piece, start_seq=cold.reached, cold=None)
        if rest.start_seq < rest.end_seq:
            yield from map(form.batch, door.read(rest, watch))
        after = _state(link, piece, options)
        if options.fail_on_data_loss and after is not None:
            _check(rest, before, after, watch)


def _archived(options: ReadOptions, piece: Piece) -> Iterator[MessageColumns]:
    """What there is without a server."""
    reached = piece.start_seq
    if piece.cold is not None:
        door = ColdDoor(piece.cold, options.subjects, headers=options.include_headers, server=None)
        yield from door.read(piece, Watch())
        reached = door.reached
    if reached < piece.end_seq and options.fail_on_data_loss:
        raise DataLoss(f"the history of {piece.stream!r} has {reached} no longer, which was still to be read")


class ServerDoor:
    """The fastest that the server has for these rows; asked for when it is used."""

    def __init__(self, link: Link, options: ReadOptions) -> None:
        self._link = link
        self._options = options

    def read(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        options = self._options
        door: Door = DirectDoor(self._link, options.subjects)
        if options.read_from is not ReadFrom.DIRECT and offers_blocks(self._link, piece):
            door = BlockDoor(self._link, options.subjects, headers=options.include_headers)
        return door.read(piece, watch)


def _state(link: Link, piece: Piece, options: ReadOptions) -> StreamState | None:
    """None: it is gone, and that is allowed."""
    try:
        state = ask_state(link, piece.stream)
    except ApiError as error:
        if error.err_code != STREAM_NOT_FOUND:
            raise
        if options.fail_on_data_loss:
            raise DataLoss(f"stream {piece.stream!r} was deleted while it was read") from None
        return None
    if state.created == piece.created:
        return state
    if options.fail_on_data_loss:
        raise DataLoss(f"stream {piece.stream!r} was deleted and made again while it was read")
    return None


def _check(piece: Piece, before: StreamState, after: StreamState, watch: Watch) -> None:
    if watch.damaged_seq is not None:
        raise DataLoss(
            f"stream {piece.stream!r} lost {watch.damaged_seq} and maybe more to damage on its disk"
        )
    if after.forgets:
        return
    if before.first_seq > piece.start_seq and piece.start_seq < piece.end_seq:
        lost = piece.start_seq
    elif watch.missing_seq is not None and watch.missing_seq < after.first_seq:
        lost = watch.missing_seq
    elif watch.short and after.first_seq > piece.start_seq:
        lost = piece.start_seq
    else:
        return
    raise DataLoss(
        f"stream {piece.stream!r} begins at {after.first_seq}, and {lost} was still to be read: its limits removed it"
    )
