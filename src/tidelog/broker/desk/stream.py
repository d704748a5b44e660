"""`STREAM.`: streams are made, changed, described, listed, emptied and deleted."""

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.limits import LISTED_NAMES, LISTED_STREAMS, LISTED_SUBJECTS
from tidelog.broker.desk.info import ClusterInfo, StreamInfo, info_of
from tidelog.broker.desk.request import DONE, LATER, Entry, Later, Request
from tidelog.log.filter import Filter
from tidelog.stream import failure
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import stream_to_create, stream_to_update
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamConfigRequest
from tidelog.stream.strict import Int, Uint64
from tidelog.subject.pattern import is_valid_subject


class Page(msgspec.Struct):
    total: int = 0
    offset: int = 0
    limit: int = 0


class Created(msgspec.Struct, omit_defaults=True):
    did_create: bool = False


class Names(msgspec.Struct):
    streams: list[str] | None = None


class Infos(msgspec.Struct):
    streams: list[StreamInfo] = []


class Purged(msgspec.Struct):
    purged: int = 0


class NamesRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamNamesRequest"

    offset: Int = 0
    subject: str = ""


class ListRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamListRequest"

    offset: Int = 0
    subject: str = ""


class InfoRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamInfoRequest"

    offset: Int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


class PurgeRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamPurgeRequest"

    seq: Uint64 = 0
    filter: str = ""
    keep: Uint64 = 0


def described(request: Request, stream: Stream, *, deleted: bool = False) -> StreamInfo:
    desk = request.desk
    return info_of(stream, desk.settings.domain, desk.clock.now_ns(), deleted=deleted)


def create(request: Request) -> Later:
    """It is answered when the stream is there for good; meanwhile others have their turn."""
    streams = request.streams
    asked = request.decode(StreamConfigRequest)
    config = stream_to_create(request.tokens[2], asked, streams)

    def done(outcome: Stream | ApiFailure) -> None:
        if isinstance(outcome, ApiFailure):
            request.refuse(outcome)
            return
        info = described(request, outcome)
        # The peer leaves it out here, and only here.
        info.domain = ""
        request.answer((info, Created(did_create=True)))

    streams.create(config, done, judged=True)
    return LATER


def update(request: Request) -> Later:
    streams = request.streams
    asked = request.decode(StreamConfigRequest)
    config = stream_to_update(request.tokens[2], asked, streams, streams.consumer_configs)

    def done(outcome: Stream | ApiFailure) -> None:
        if isinstance(outcome, ApiFailure):
            request.refuse(outcome)
        else:
            request.answer(described(request, outcome))

    streams.update(config, done)
    return LATER


def info(request: Request) -> tuple[msgspec.Struct, ...]:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_if_any(InfoRequest)
    stream = request.stream()
    described_as = described(request, stream, deleted=asked.deleted_details)
    described_as.cluster = ClusterInfo(leader=request.desk.settings.server_name)
    page = Page()
    if asked.subjects_filter:
        counts = subject_counts(stream, asked.subjects_filter)
        if counts:
            page = Page(len(counts), max(asked.offset, 0), LISTED_SUBJECTS)
            shown = sorted(counts)[page.offset : page.offset + LISTED_SUBJECTS]
            described_as.state.subjects = {subject: counts[subject] for subject in shown} or None
    return page, described_as


def subject_counts(stream: Stream, pattern: str) -> dict[str, int]:
    """How many messages each subject has."""
    if not is_valid_subject(pattern.encode()):
        return {}
    found = stream.log.subjects(Filter(pattern.encode()))
    return {subject.decode("utf-8", "replace"): count for subject, count, _first, _last in found}


def names(request: Request) -> tuple[msgspec.Struct, ...]:
    streams = request.streams
    asked = request.decode_if_any(NamesRequest)
    found = streams.names(asked.subject)
    offset = min(max(asked.offset, 0), len(found))
    shown = found[offset : offset + LISTED_NAMES]
    return Page(len(found), offset, LISTED_NAMES), Names(shown or None)


def listing(request: Request) -> tuple[msgspec.Struct, ...]:
    streams = request.streams
    asked = request.decode_if_any(ListRequest)
    found = streams.names(asked.subject)
    offset = min(max(asked.offset, 0), len(found))
    desk = request.desk
    now_ns = desk.clock.now_ns()
    shown = [
        info_of(streams.find(name), desk.settings.domain, now_ns, stored=True)
        for name in found[offset : offset + LISTED_STREAMS]
    ]
    return Page(len(found), offset, LISTED_STREAMS), Infos(shown)


def delete(request: Request) -> Later:
    streams = request.streams
    request.expect_empty()

    def done(outcome: Stream | ApiFailure) -> None:
        if isinstance(outcome, ApiFailure):
            request.refuse(outcome)
        else:
            request.answer(DONE)

    streams.delete(request.tokens[2], done)
    return LATER


def purge(request: Request) -> Later | tuple[msgspec.Struct, ...]:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_if_any(PurgeRequest)
    if asked.seq and asked.keep:
        raise failure.BAD_REQUEST()
    stream = request.stream()
    if asked.filter and not is_valid_subject(asked.filter.encode()):
        return DONE, Purged()  # nothing has such a subject
    wanted = Filter(asked.filter.encode()) if asked.filter else None
    purged = stream.purge(wanted, before_seq=asked.seq or None, keep=asked.keep)

    def told(error: StorageError | None) -> None:
        if error is None:
            request.answer((DONE, Purged(purged)))
        else:
            request.refuse(failure.STREAM_PURGE_FAILED(err=str(error)))

    stream.log.wait_deleted(told)
    return LATER


ENTRIES = (
    Entry("STREAM.CREATE.*", "stream_create_response", create),
    Entry("STREAM.UPDATE.*", "stream_update_response", update),
    Entry("STREAM.INFO.*", "stream_info_response", info, (Page(),)),
    Entry("STREAM.NAMES", "stream_names_response", names, (Page(), Names())),
    Entry("STREAM.LIST", "stream_list_response", listing, (Page(), Infos())),
    Entry("STREAM.DELETE.*", "stream_delete_response", delete),
    Entry("STREAM.PURGE.*", "stream_purge_response", purge, (Purged(),)),
)
