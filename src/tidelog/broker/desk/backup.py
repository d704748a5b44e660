"""`STREAM.SNAPSHOT` and `STREAM.RESTORE`: streams are sent to a client in pieces, and taken back from one.

Pieces go out while the client keeps up: each that is on its way has a place in a window, which its acknowledgement
gives back. Pieces that come in are put down at once and acknowledged by nothing but an empty message. Who does not go
on for some seconds has gone away; then what there is of a restored stream is removed.
"""

from __future__ import annotations

from functools import partial

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.limits import (
    RESTORE_IDLE_NS,
    SNAPSHOT_CHUNK_MOST,
    SNAPSHOT_CHUNK_SIZE,
    SNAPSHOT_IDLE_NS,
    SNAPSHOT_LEAST,
    SNAPSHOT_WAIT_NS,
    SNAPSHOT_WINDOW_MOST,
    SNAPSHOT_WINDOW_SIZE,
)
from tidelog.base.timer import Timer
from tidelog.broker.desk.audit import card_of
from tidelog.broker.desk.info import StreamState, info_of, state_of
from tidelog.broker.desk.request import LATER, TYPE_PREFIX, Entry, Head, Later, Request, joined
from tidelog.stream import failure
from tidelog.stream.advisory import new_id
from tidelog.stream.archive import Packer, members
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import stream_to_restore
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamConfig, StreamConfigRequest
from tidelog.stream.strict import Int
from tidelog.stream.unpack import Unpacker
from tidelog.subject.pattern import is_valid_literal
from tidelog.subject.route import Callback, Subscription


class SnapshotRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamSnapshotRequest"

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False


class Snapshot(msgspec.Struct):
    config: StreamConfig
    state: StreamState


class RestoreRequest(msgspec.Struct):
    PEER_NAME = "JSApiStreamRestoreRequest"

    config: StreamConfigRequest = msgspec.field(default_factory=StreamConfigRequest)
    state: object = None  # the archive itself says what counts, but one thing


class Place(msgspec.Struct):
    deliver_subject: str


# ---- out ----


def snapshot(request: Request) -> Later:
    request.streams  # noqa: B018  whether there may be any comes first
    if not request.body.strip():
        raise failure.BAD_REQUEST()
    stream = request.stream()
    asked = request.decode_required(SnapshotRequest)
    if not is_valid_literal(asked.deliver_subject.encode()):
        raise failure.SNAPSHOT_DELIVER_SUBJECT_INVALID()
    try:
        packer = Packer(members(stream, consumers=not asked.no_consumers))
    except StorageError as error:
        raise failure.STREAM_SNAPSHOT(err=str(error)) from error
    state = state_of(stream)
    request.answer(Snapshot(stream.config, state))
    request.account.events.snapshot_create(stream.name, state, card_of_client(request))
    Sending(request, stream, packer, asked).begin()
    return LATER


def card_of_client(request: Request) -> object:
    return card_of(request.session, request.desk.settings.server_name)


class Sending:
    """A snapshot on its way."""

    def __init__(self, request: Request, stream: Stream, packer: Packer, asked: SnapshotRequest) -> None:
        chunk = min(max(asked.chunk_size or SNAPSHOT_CHUNK_SIZE, SNAPSHOT_LEAST), SNAPSHOT_CHUNK_MOST)
        window = min(max(asked.window_size or SNAPSHOT_WINDOW_SIZE, SNAPSHOT_LEAST), SNAPSHOT_WINDOW_MOST)
        self.request = request
        self.account = request.account
        self.engine = request.desk.engine
        self.stream = stream
        self.packer = packer
        self.to = asked.deliver_subject.encode()
        self.chunk = chunk
        self.room = max(window, chunk) // chunk
        self.number = 0
        self.acks = f"$JS.SNAPSHOT.ACK.{stream.name}.{new_id(self.engine.chance)}"
        self.subscription = Subscription(f"{self.acks}.>".encode(), b"", b"", Callback(self.acknowledged))
        self.timer: Timer | None = None
        self.started_ns = self.engine.clock.now_ns()
        self.over = False

    def begin(self) -> None:
        interest = self.account.account.interest
        interest.insert(self.subscription)
        interest.watch(self.to, self.listened)
        # Many clients begin to listen when they have the answer, and drop what their inboxes get before that.
        self.expect(0 if self.listens() else SNAPSHOT_WAIT_NS)

    def listens(self) -> bool:
        """Whether somebody listens to just this subject."""
        plain, _ = self.account.account.interest.match(self.to)
        return any(one.subject == self.to for one in plain)

    def listened(self) -> None:
        """Somebody has come, or gone."""
        if self.number == 0 and self.listens():
            self.expect(0)
        elif self.number and not self.account.post.wanted(self.to):
            self.finish("408 No Interest", "no interest")

    def acknowledged(self, _subject: bytes, _reply: bytes | None, _payload: bytes, _origin: object) -> None:
        self.room += 1
        if not self.over:
            self.go_on()

    def go_on(self) -> None:
        """Send what there is room for."""
        while self.room and not self.over:
            try:
                data = self.packer.read(self.chunk)
            except StorageError as error:
                self.finish(f"500 {error}", str(error))
                return
            if len(data) < self.chunk:
                if data:
                    self.account.post.publish(self.to, data)
                self.finish("204" if self.number else "", "")
                return
            self.room -= 1
            self.number += 1
            self.account.post.publish(self.to, data, reply=f"{self.acks}.{len(data)}.{self.number}".encode())
        self.expect(SNAPSHOT_IDLE_NS)

    def expect(self, within_ns: int) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.engine.timers.at(self.engine.clock.monotonic_ns() + within_ns, self.missed)

    def missed(self) -> None:
        """It is time to begin, or nothing was acknowledged for too long."""
        wanted = self.account.post.wanted(self.to)
        if wanted and self.number == 0:
            self.go_on()
        elif wanted:
            self.finish("408 No Flow Response", "no flow response")
        else:
            self.finish("408 No Interest", "no interest")

    def finish(self, status: str, error: str) -> None:
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        self.packer.close()
        self.account.account.interest.unwatch(self.to, self.listened)
        self.account.account.interest.remove(self.subscription)
        header = f"NATS/1.0 {status}\r\n\r\n".encode() if status else b""
        self.account.post.publish(self.to, b"", header=header)
        self.account.events.snapshot_complete(
            self.stream.name, self.started_ns, self.engine.clock.now_ns(), card_of_client(self.request), error
        )


# ---- in ----


def restore(request: Request) -> Place:
    streams = request.streams
    asked = request.decode_required(RestoreRequest)
    config = stream_to_restore(request.tokens[2], asked.config, streams)
    coming = Coming(request, config, first_seq_of(asked.state))
    request.account.events.restore_create(config.name, card_of_client(request))
    return Place(coming.subject)


def first_seq_of(state: object) -> int:
    """Where the stream began, as far as the state in a request says it."""
    # Objects of which nothing is known are decoded as pairs.
    pairs = [one for one in state if isinstance(one, tuple)] if isinstance(state, list) else []
    seq = next((value for name, value in pairs if name == "first_seq"), 0)
    return seq if isinstance(seq, int) and 0 < seq < 2**62 else 0


class Coming:
    """A stream that is being restored."""

    def __init__(self, request: Request, config: StreamConfig, first_seq: int) -> None:
        self.request = request
        self.account = request.account
        self.streams = request.streams
        self.engine = request.desk.engine
        self.config = config
        self.subject = f"$JS.SNAPSHOT.RESTORE.{config.name}.{new_id(self.engine.chance)}"
        self.started_ns = self.engine.clock.now_ns()
        self.disk, self.path = self.streams.begin_restore(config)
        open_log = partial(self.streams.restored_log, config, self.disk, self.path)
        self.unpacker = Unpacker(self.disk, self.path, open_log, first_seq)
        self.subscription = Subscription(self.subject.encode(), b"", b"", Callback(self.take))
        self.timer: Timer | None = None
        self.account.account.interest.insert(self.subscription)
        self.expect()

    def take(self, _subject: bytes, reply: bytes | None, payload: bytes, _origin: object) -> None:
        if reply is None:
            self.give_up()
            return
        try:
            if payload:
                self.unpacker.feed(payload)
                self.expect()
                self.account.post.publish(reply, b"")
                return
            stream = self.streams.restore(self.config, self.unpacker.close(), self.disk, self.path)
        except StorageError as error:
            self.give_up()
            self.answer(reply, failure.STREAM_RESTORE(err=str(error)))
        except ApiFailure as refused:
            self.give_up()
            self.answer(reply, refused)
        else:
            self.end()
            self.answer(reply, stream)

    def answer(self, reply: bytes, outcome: Stream | ApiFailure) -> None:
        kind = TYPE_PREFIX + "stream_create_response"
        if isinstance(outcome, ApiFailure):
            document = joined(Head(kind, outcome.error))
        else:
            settings = self.request.desk.settings
            document = joined(Head(kind), info_of(outcome, settings.domain, self.engine.clock.now_ns()))
        self.account.post.publish(reply, document)
        self.account.events.restore_complete(
            self.config.name,
            self.started_ns,
            self.engine.clock.now_ns(),
            self.unpacker.size,
            card_of_client(self.request),
        )

    def expect(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        due_ns = self.engine.clock.monotonic_ns() + RESTORE_IDLE_NS
        self.timer = self.engine.timers.at(due_ns, self.give_up)

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.account.account.interest.remove(self.subscription)

    def give_up(self) -> None:
        self.end()
        self.unpacker.abandon()
        self.streams.forget_restore(self.disk, self.path)


ENTRIES = (
    Entry("STREAM.SNAPSHOT.*", "stream_snapshot_response", snapshot),
    Entry("STREAM.RESTORE.*", "stream_restore_response", restore, (Place(""),)),
)
