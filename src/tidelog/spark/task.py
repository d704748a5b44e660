"""One piece, read by one task: what comes is what the stream has there, or it is told.

What it promises (READ-1): when reading ends without an error, every message that matched was handed on once, in
order. Where that cannot be said, because the stream is another one by now or its beginning passed what was still to
be read, and data loss is not allowed, the task fails, and so does the batch: it is not committed.

How it works: the stream is asked for its state before and after. A hole in what came is a deleted message, unless the
stream begins behind it afterwards. Streams that forget on purpose lose nothing by it.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.base.errors import ApiError
from tidelog.client.jetstream.columns import Columns
from tidelog.spark.block_door import BlockDoor, offers_blocks
from tidelog.spark.door import DirectDoor, Door, Watch
from tidelog.spark.link import Link, headed_columns, lease
from tidelog.spark.option import ReadOptions
from tidelog.spark.plan import Piece
from tidelog.spark.row import RowFormat
from tidelog.spark.state import STREAM_NOT_FOUND, StreamState, ask_state
from tidelog.spark.survey import DataLoss


def read_piece(options: ReadOptions, piece: Piece) -> Iterator[Any]:
    """Record batches."""
    form = RowFormat(kafka=options.kafka_rows, headers=options.include_headers)
    with lease(options.connect, headed_columns if options.include_headers else Columns) as link:
        before = _state(link, piece, options)
        if before is None:
            return
        door = _door(link, piece, options)
        watch = Watch()
        for columns in door.read(piece, watch):
            yield form.batch(columns)
        after = _state(link, piece, options)
        if options.fail_on_data_loss and after is not None:
            _check(piece, before, after, watch)


def _door(link: Link, piece: Piece, options: ReadOptions) -> Door:
    """The fastest that there is for these rows."""
    if options.blocks and not options.include_headers and offers_blocks(link, piece):
        return BlockDoor(link, options.subjects)
    return DirectDoor(link, options.subjects)


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
    if before.first_seq > piece.start_seq:
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
