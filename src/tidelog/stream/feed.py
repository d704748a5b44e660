"""Feeds: how a stream takes over the messages of others on the same server, as a mirror or from sources.

Another stream may be in another account (`external`), if a request to its API and what it delivers would find their way
through what the accounts export and import. They are not sent there: the log is read, as if it were here.

    feeds = Feeds(stream)
    feeds.take_config(config)      which others there are
    feeds.pull()                   by the stream, when it commits: some of what is there
    feeds.come(origin), feeds.go(origin)        a stream was made or found; one was deleted

Promises
  * FEED-1: a mirror has the messages of its origin with their sequences and times, in order, each once; of a source
    each message comes once, in order, and says in `Nats-Stream-Source` where it is from. Also across restarts.
  * No task and no queue: a feed is a reader on the log of the other, which wakes the stream when more is committed
    there. What is behind comes in pieces, so that others have their turn.

How a feed knows where it was: a mirror by its own last sequence. Sources by a document that is written when the stream
is closed and now and then, and by the headers of what came after that, read from the newest one back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.base import limits
from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns
from tidelog.base.timer import Timer
from tidelog.log.filter import Filter
from tidelog.stream import failure
from tidelog.stream.failure import ApiError, ApiFailure
from tidelog.stream.feed_state import Place, Places, identity_of, short_hash
from tidelog.stream.publish import with_line, without_prefix
from tidelog.stream.stream_config import StreamConfig, StreamSource
from tidelog.subject.transform import Transform

if TYPE_CHECKING:
    from tidelog.log.read import Message, Reader
    from tidelog.stream.stream import Stream

SOURCE_HEADER = b"Nats-Stream-Source"
NEVER_NS = -1


def source_name(source: StreamSource) -> str:
    """What tells a source from others: stream, filters and destinations, as the header says them."""
    if source.subject_transforms:
        filters = "\f".join(one.src or ">" for one in source.subject_transforms)
        destinations = "\f".join(one.dest or ">" for one in source.subject_transforms)
    else:
        filters, destinations = source.filter_subject or ">", ">"
    name = source.name
    if source.external is not None:
        name += f":{short_hash(source.external.api)}"
    if source.consumer is not None:
        name += f":C={short_hash(source.consumer.name)}"
    return f"{name} {filters} {destinations}"


class Feed:
    """One other stream."""

    def __init__(self, feeds: Feeds, source: StreamSource) -> None:
        stream = feeds.stream
        self.feeds = feeds
        self.source = source
        self.name = source_name(source)
        self.origin: Stream | None = None
        self.reader: Reader | None = None
        self.identity = ""  # of the other stream
        self.looked = False  # since the start
        self.last_ns = 0
        self.error: ApiError | None = None
        self.head, self.filters, self.destinations = self.name.split(" ", 2)
        patterns = [one.src or ">" for one in source.subject_transforms] or [source.filter_subject or ">"]
        self.filter = Filter(*(pattern.encode() for pattern in patterns))
        self.transforms = [
            Transform((one.src or ">").encode(), one.dest.encode(), stream.account.chance.integer)
            for one in source.subject_transforms
            if one.dest
        ]

    # ---- coming and going of the other ----

    def attach(self) -> None:
        """Begin to read, if the other is there."""
        origin = self.feeds.stream.account.origin_of(self.source)
        if origin is None or origin is self.feeds.stream:
            return
        self.origin = origin
        self.identity = identity_of(origin.created_ns)
        self.error = None
        self.reader = origin.log.reader(self.filter, start_seq=self.start_seq(origin))

    def start_seq(self, origin: Stream) -> int:
        known = self.feeds.next_seq(self.name, self.identity)
        if known:
            return known
        if self.source.opt_start_seq:
            return self.source.opt_start_seq
        if self.source.opt_start_time is not None:
            return origin.log.seq_at_time(instant_ns(self.source.opt_start_time))
        return max(origin.log.store.first_seq, 1)

    def detach(self) -> None:
        if self.reader is not None:
            self.reader.disarm()
        self.reader = self.origin = None

    # ---- reading ----

    def pull(self) -> bool:
        """Take over some messages; tells whether there may be more right now."""
        reader = self.reader
        if reader is None or self.origin is None:
            return False
        self.looked = True
        batch = reader.read(limits.FEED_MESSAGES, limits.FEED_SIZE)
        for message in batch:
            if not self.feeds.copy(self, message):
                # It is wanted again, when there is room for it.
                self.reader = self.origin.log.reader(self.filter, start_seq=message.seq)
                self.feeds.wait(limits.FEED_RETRY_NS)
                return False
            self.last_ns = self.feeds.stream.account.engine.clock.now_ns()
        if len(batch) >= limits.FEED_MESSAGES or batch.size >= limits.FEED_SIZE:
            return True
        if batch.awaited:
            self.origin.log.when_warm(self.feeds.stream.touch)
            return False
        reader.arm(self.feeds.stream.touch)
        return False

    def subject_for(self, subject: bytes) -> bytes:
        for transform in self.transforms:
            made = transform.apply(subject)
            if made is not None:
                return made
        return subject

    def header_for(self, message: Message) -> bytes:
        """Without what was meant for the other stream, and with where it is from."""
        header = (
            without_prefix(message.header, SOURCE_HEADER + b":", b"Nats-Expected-", b"Nats-Batch-")
            if message.header
            else b""
        )
        place = f"{self.head} {message.seq} {self.filters} {self.destinations} ".encode()
        return with_line(header, SOURCE_HEADER, place + message.subject + b" " + self.identity.encode())

    # ---- for people ----

    def lag(self) -> int:
        return self.reader.pending() if self.reader is not None and self.looked else 0

    def last_seq(self) -> int:
        """Of a source: the last message that came; 0: none did, or it is a mirror."""
        place = self.feeds.places.seen.get(self.name)
        return place.seq if place is not None else 0

    def active_ns(self, now_ns: int) -> int:
        """How long ago a message came; NEVER_NS: none did since the start."""
        return now_ns - self.last_ns if self.last_ns else NEVER_NS


class Feeds:
    """All others of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.feeds: list[Feed] = []
        self.mirrors = False
        self.places = Places(stream)
        self.timer: Timer | None = None

    def take_config(self, config: StreamConfig) -> None:
        """Those that are still wanted go on."""
        mirrors = config.mirror is not None
        wanted = [config.mirror] if config.mirror is not None else config.sources
        there = {feed.name: feed for feed in self.feeds} if mirrors == self.mirrors else {}
        feeds: list[Feed] = []
        for source in wanted:
            kept = there.pop(source_name(source), None)
            feeds.append(kept if kept is not None and kept.source == source else Feed(self, source))
        for feed in self.feeds:
            if feed not in feeds:
                feed.detach()
        if self.feeds and not feeds and not self.mirrors and not self.stream.stopped:
            # Nobody will look for it in headers that come later.
            self.places.save(self.stream.log.store.last_seq)
        self.feeds, self.mirrors = feeds, mirrors

    def start(self, *, afresh: bool) -> None:
        """Go on where it was; `afresh`: the stream was there without taking anything over."""
        if self.feeds and not self.mirrors:
            self.places.find({feed.name for feed in self.feeds}, afresh=afresh)
        for feed in self.feeds:
            if feed.reader is None:
                feed.attach()
        if self.feeds:
            self.stream.touch()

    def come(self, origin: Stream) -> None:
        """A stream is there from now on."""
        for feed in self.feeds:
            if feed.source.name == origin.name and feed.origin is None and origin is not self.stream:
                feed.attach()
                self.stream.touch()

    def find_again(self) -> None:
        """Which streams of other accounts can be reached has changed."""
        for feed in self.feeds:
            if feed.origin is not self.stream.account.origin_of(feed.source):
                feed.detach()
                feed.attach()
                self.stream.touch()

    def go(self, origin: Stream) -> None:
        """A stream is not there any more."""
        for feed in self.feeds:
            if feed.origin is origin:
                feed.detach()

    def stop(self) -> None:
        for feed in self.feeds:
            feed.detach()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # ---- reading ----

    def pull(self) -> None:
        self.places.save_if_many()
        more = [feed.pull() for feed in self.feeds]
        if any(more):
            self.wait(0)

    def wait(self, delay_ns: int) -> None:
        """Look again after a while; at once means: when others have had their turn."""
        engine = self.stream.account.engine
        due_ns = engine.clock.monotonic_ns() + delay_ns
        if self.timer is not None and self.timer.callback is not None:
            if self.timer.due_ns <= due_ns:
                return
            self.timer.cancel()
        self.timer = engine.timers.at(due_ns, self.look)

    def look(self) -> None:
        self.timer = None
        if not self.stream.stopped:
            self.stream.touch()

    def next_seq(self, name: str, identity: str) -> int:
        """Where a feed goes on; 0: where its configuration says."""
        if self.mirrors:
            last_seq = self.stream.log.store.last_seq
            return last_seq + 1 if last_seq else 0
        place = self.places.seen.get(name)
        if place is None or (place.identity and place.identity != identity):
            # None came, or what has that name now is another stream.
            return 0
        return place.seq + 1

    def copy(self, feed: Feed, message: Message) -> bool:
        """Store a message of another stream; False: it is refused for now."""
        stream = self.stream
        subject = feed.subject_for(message.subject)
        try:
            if self.mirrors:
                if message.seq > stream.log.store.last_seq:
                    stream.log.skip_to(message.seq)
                    stream.insert(subject, message.header, message.payload, ts_ns=message.ts_ns)
                return True
            stream.insert(subject, feed.header_for(message), message.payload, transforms=True)
        except ApiFailure as refused:
            feed.error = refused.error
            return False
        except StorageError as error:
            feed.error = failure.STREAM_STORE_FAILED(err=str(error)).error
            return False
        feed.error = None
        self.places.note(feed.name, Place(message.seq, feed.identity))
        return True
