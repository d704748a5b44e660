"""A stream as answers describe it: configuration, state, and when it was looked at."""

import msgspec

from tidelog.base.instant import timestamp, timestamp_or_none
from tidelog.stream.failure import ApiError
from tidelog.stream.feed import Feed
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import External, StreamConfig, SubjectTransform, always


class LostData(msgspec.Struct):
    """Messages that fell to damage."""

    msgs: list[int]
    bytes: int


class StreamState(msgspec.Struct, omit_defaults=True):
    messages: int = always(int)
    bytes: int = always(int)
    first_seq: int = always(int)
    first_ts: str = always(str)
    last_seq: int = always(int)
    last_ts: str = always(str)
    num_subjects: int = 0
    subjects: dict[str, int] | None = None
    num_deleted: int = 0
    deleted: list[int] | None = None
    lost: LostData | None = None
    consumer_count: int = always(int)


class ClusterInfo(msgspec.Struct, omit_defaults=True):
    """Of a single server, which leads everything."""

    name: str = ""
    leader: str = ""


class SourceInfo(msgspec.Struct, omit_defaults=True):
    """How far a mirror, or one of the sources, has got."""

    name: str = always(str)
    external: External | None = None
    lag: int = always(int)
    seq: int = 0
    active: int = always(int)
    error: ApiError | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = []


class StreamInfo(msgspec.Struct, omit_defaults=True):
    config: StreamConfig
    created: str
    state: StreamState
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: SourceInfo | None = None
    sources: list[SourceInfo] = []
    ts: str = ""


def state_of(stream: Stream, *, deleted: bool = False) -> StreamState:
    """`deleted`: with a list of the sequences that are missing between first and last."""
    state = stream.log.state()
    empty = state.messages == 0
    shown = StreamState(
        messages=state.messages,
        bytes=state.size,
        first_seq=state.first_seq if not empty or state.last_seq else 0,
        first_ts=timestamp_or_none(0 if empty else state.first_ts_ns),
        last_seq=state.last_seq,
        last_ts=timestamp_or_none(state.last_ts_ns),
        num_subjects=state.subjects,
        num_deleted=state.deleted,
        consumer_count=len(stream.consumers),
    )
    if deleted and state.deleted:
        shown.deleted = deleted_of(stream, state.first_seq, state.last_seq)
    if state.lost:
        shown.lost = LostData([seq for start, end in state.lost for seq in range(start, end)], 0)
    return shown


def deleted_of(stream: Stream, first_seq: int, last_seq: int) -> list[int]:
    gone = stream.log.store.deleted
    found: list[int] = []
    seq = gone.next_present(first_seq)
    while first_seq <= seq <= last_seq:
        end_seq = gone.next_absent(seq)
        found.extend(range(seq, min(end_seq, last_seq + 1)))
        seq = gone.next_present(end_seq)
    return found


def source_of(feed: Feed, now_ns: int) -> SourceInfo:
    source = feed.source
    return SourceInfo(
        name=source.name,
        external=source.external,
        lag=feed.lag(),
        seq=feed.last_seq(),
        active=feed.active_ns(now_ns),
        error=feed.error,
        # Of a mirror the peer tells it when it has begun.
        filter_subject=source.filter_subject if feed.looked or not feed.feeds.mirrors else "",
        subject_transforms=source.subject_transforms,
    )


def info_of(
    stream: Stream, domain: str, now_ns: int, *, deleted: bool = False, stored: bool = False
) -> StreamInfo:
    """`stored`: the configuration as it is kept, without what is only told."""
    feeds = stream.feeds.feeds if stream.feeds is not None else []
    others = [source_of(feed, now_ns) for feed in feeds]
    mirrors = stream.config.mirror is not None
    return StreamInfo(
        config=stream.config if stored else stream.config.shown(),
        created=timestamp(stream.created_ns),
        state=state_of(stream, deleted=deleted),
        domain=domain,
        mirror=others[0] if mirrors and others else None,
        sources=[] if mirrors else others,
        ts=timestamp(now_ns),
    )
