"""Requests beyond the peer's, on `$TIDELOG.API.`: cursors of a stream, and what its log knows of itself.

    CURSOR.SET.<stream>.<cursor>      {"seq": 12, "expected_revision": 3, "rewind": false}
    CURSOR.GET.<stream>.<cursor>
    CURSOR.LIST.<stream>              {"offset": 0}
    CURSOR.DELETE.<stream>.<cursor>   {"expected_revision": 3}
    STREAM.INFO.<stream>

A cursor is answered when it is on the medium.
"""

from collections.abc import Callable

import msgspec

from tidelog.base.errors import CursorBehind, CursorConflict, CursorError, StorageError
from tidelog.base.instant import timestamp
from tidelog.base.limits import LISTED_NAMES
from tidelog.broker.desk.request import DONE, LATER, Entry, Later, Parts, Request
from tidelog.log.cursor import Cursor
from tidelog.stream import failure
from tidelog.stream.cursor_keeper import CursorKeeper
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import always
from tidelog.stream.strict import Int, Uint64

TYPE_PREFIX = "io.tidelog.api.v1."


class SetRequest(msgspec.Struct):
    seq: Uint64 = 0
    expected_revision: Uint64 | None = None
    rewind: bool = False


class DeleteRequest(msgspec.Struct):
    expected_revision: Uint64 | None = None


class ListRequest(msgspec.Struct):
    offset: Int = 0


class CursorInfo(msgspec.Struct, omit_defaults=True):
    stream: str = always(str)
    name: str = always(str)
    seq: int = always(int)
    revision: int = always(int)
    ts: str = always(str)
    # Damage may have taken a newer value.
    doubtful: bool = False


class Found(msgspec.Struct, omit_defaults=True):
    cursor: CursorInfo | None = None


class Listing(msgspec.Struct):
    total: int = 0
    offset: int = 0
    limit: int = 0
    cursors: list[CursorInfo] = []


class Range(msgspec.Struct):
    """From `start_seq` to `end_seq`, which is not included."""

    start_seq: int
    end_seq: int


class ColdInfo(msgspec.Struct):
    """Where complete segments go, and how much of the log is there only."""

    url: str
    archived_seq: int  # everything in front of it is there; 0: nothing, or nobody knows yet
    messages: int
    bytes: int
    lag_segments: int
    lag_bytes: int
    failing: str


class LogInfo(msgspec.Struct, omit_defaults=True):
    """What a log knows of itself: how far it is written, acknowledged and synced, and what it does not have."""

    stream: str
    account: str
    log_id: str
    first_seq: int
    last_seq: int
    committed_seq: int
    synced_seq: int
    acknowledged: str
    segments: int
    deleted: int
    trimmed: list[Range]
    lost: list[Range]
    refusal: str = ""
    cold: ColdInfo | None = None


def cursors_of(request: Request) -> CursorKeeper:
    return request.streams.cursors_of(request.tokens[2])


def name_of(request: Request) -> str:
    return ".".join(request.tokens[3:])


def described(request: Request, cursor: Cursor) -> CursorInfo:
    return CursorInfo(
        request.tokens[2],
        cursor.name,
        cursor.seq,
        cursor.revision,
        timestamp(cursor.ts_ns),
        cursor.doubtful,
    )


def carry_out(act: Callable[[], None]) -> Later:
    try:
        act()
    except CursorConflict as error:
        raise failure.CURSOR_CONFLICT(err=str(error)) from None
    except CursorBehind as error:
        raise failure.CURSOR_BEHIND(err=str(error)) from None
    except CursorError as error:
        raise failure.CURSOR_REFUSED(err=str(error)) from None
    return LATER


def answer_with(request: Request, found: Cursor | None, error: StorageError | None) -> None:
    if error is not None:
        request.refuse(failure.CURSOR_NOT_STORED(err=str(error)))
    elif found is None:
        request.refuse(failure.CURSOR_NOT_FOUND())
    else:
        request.answer(Found(described(request, found)))


def set_cursor(request: Request) -> Later:
    keeper = cursors_of(request)
    asked = request.decode_required(SetRequest)
    return carry_out(
        lambda: keeper.set(
            name_of(request),
            asked.seq,
            lambda found, error: answer_with(request, found, error),
            expected_revision=asked.expected_revision,
            rewind=asked.rewind,
        ),
    )


def get_cursor(request: Request) -> Later:
    keeper = cursors_of(request)
    request.expect_empty()
    return carry_out(
        lambda: keeper.get(name_of(request), lambda found, error: answer_with(request, found, error)),
    )


def delete_cursor(request: Request) -> Later:
    keeper = cursors_of(request)
    asked = request.decode_if_any(DeleteRequest)

    def told(found: Cursor | None, error: StorageError | None) -> None:
        if found is not None and error is None:
            request.answer(DONE)
        else:
            answer_with(request, None, error)

    return carry_out(
        lambda: keeper.delete(name_of(request), told, expected_revision=asked.expected_revision),
    )


def list_cursors(request: Request) -> Parts:
    keeper = cursors_of(request)
    asked = request.decode_if_any(ListRequest)
    found = keeper.list()
    offset = min(max(asked.offset, 0), len(found))
    shown = [described(request, cursor) for cursor in found[offset : offset + LISTED_NAMES]]
    return Listing(len(found), offset, LISTED_NAMES, shown)


def log_info(request: Request) -> Parts:
    stream = request.stream()
    request.expect_empty()
    state = stream.log.state()
    begin_seq = max(stream.config.first_seq, 1)
    return LogInfo(
        stream=stream.name,
        account=request.account.account.name,
        log_id=stream.log.store.log_id.hex(),
        first_seq=state.first_seq,
        last_seq=state.last_seq,
        committed_seq=state.committed_seq,
        synced_seq=state.synced_seq,
        acknowledged=stream.log.settings.policy.ack.value,
        segments=state.segments,
        deleted=state.deleted,
        trimmed=[Range(begin_seq, state.first_seq)] if state.first_seq > begin_seq else [],
        lost=[Range(start_seq, end_seq) for start_seq, end_seq in state.lost],
        refusal=state.refusal,
        cold=cold_info(stream),
    )


def cold_info(stream: Stream) -> ColdInfo | None:
    tiering, ferry = stream.log.settings.tiering, stream.log.keeper.ferry
    if tiering is None:
        return None
    lag = ferry.lag()
    return ColdInfo(
        url=tiering.depot.url,
        archived_seq=ferry.archived_seq or 0,
        messages=ferry.cold_messages(),
        bytes=stream.log.store.cold_size,
        lag_segments=lag.segments,
        lag_bytes=lag.size,
        failing=ferry.trouble_now(),
    )


ENTRIES = (
    Entry("CURSOR.SET.*.>", "cursor_set_response", set_cursor, prefix=TYPE_PREFIX),
    Entry("CURSOR.GET.*.>", "cursor_get_response", get_cursor, prefix=TYPE_PREFIX),
    Entry("CURSOR.LIST.*", "cursor_list_response", list_cursors, prefix=TYPE_PREFIX),
    Entry("CURSOR.DELETE.*.>", "cursor_delete_response", delete_cursor, prefix=TYPE_PREFIX),
    Entry("STREAM.INFO.*", "stream_info_response", log_info, prefix=TYPE_PREFIX),
)
