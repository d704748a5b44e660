"""Archives that nats-server makes, from 2.15 on, put into a log of ours, with consumers and where they stand.

Behind `NATSARC1` come entries, one after the other, numbers as varints:

    size of the name, time in ns (signed), sequence, size of the headers, size of the payload, name, headers, payload

The first one is `state.json`, then come `consumers/<name>`, then the messages, whose name is their subject, and at the
end an entry that is empty. Archives of older servers are a tar (tidelog.stream.peer_files).

Promises
  * Messages keep sequence, time, subject, headers and payload; what is not there is deleted, and nothing that was given
    out is given out again.
  * What was acknowledged is not delivered again, and what was delivered and not acknowledged is, with its count.

What it does not do: keep what a consumer of the last message of each subject had left.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.limits import ARCHIVE_RECORD_SIZE
from tidelog.disk.disk import Disk
from tidelog.log.expiry import FOREVER
from tidelog.log.log import Log
from tidelog.stream.archive import VERSION, Description
from tidelog.stream.catalog import CONSUMERS, META, directory_name, write_document
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.consumer_state import State, encode_state
from tidelog.stream.consumer_store import VERSION as CONSUMER_VERSION
from tidelog.stream.consumer_store import ConsumerMeta
from tidelog.stream.publish import header_value, read_ttl
from tidelog.subject.pattern import is_valid_literal

MAGIC = b"NATSARC1"
STATE = "state.json"
CONSUMER = "consumers/"
SECOND_NS = 1_000_000_000
ACK_WAIT_NS = 30 * SECOND_NS
VARINT_SIZE = 10
LARGEST = 2**62
PENDING = 1  # of an item of a state
_ITEM = struct.Struct("<QQqII")

Decoded = TypeVar("Decoded", bound=msgspec.Struct)


class PeerState(msgspec.Struct):
    """Of the stream."""

    first_seq: int = 0
    last_seq: int = 0


class Pair(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class Delivered(msgspec.Struct, rename="pascal"):
    sequence: int
    timestamp: int


class Standing(msgspec.Struct):
    """Where a consumer stands; numbers of messages are keys."""

    delivered: Pair = msgspec.field(default_factory=Pair)
    ack_floor: Pair = msgspec.field(default_factory=Pair)
    pending: dict[int, Delivered] | None = None
    redelivered: dict[int, int] | None = None


class PeerConsumer(msgspec.Struct):
    config: ConsumerConfig
    state: Standing


class Arrivals:
    """What comes in from another server, on its way to the disk."""

    def __init__(self, disk: Disk, directory: str, open_log: Callable[[], Log]) -> None:
        self.disk = disk
        self.directory = directory
        self.log = open_log()

    def take(self, seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes) -> None:
        if not is_valid_literal(subject) or abs(ts_ns) >= LARGEST:
            raise StorageError(f"the archive is damaged: message {seq} cannot be")
        self.go_to(seq)
        self.log.append(subject, payload, header, ts_ns, expiry_ns(header, ts_ns) if header else 0)

    def go_to(self, seq: int) -> None:
        """The next message has this sequence; those before that have not come were deleted."""
        if seq >= LARGEST:
            raise StorageError(f"the archive is damaged: no message has the sequence {seq}")
        if seq > self.log.store.last_seq + 1:
            self.log.skip_to(seq)

    def keep_consumer(
        self, name: str, created_ns: int, config: ConsumerConfig, state: Standing | None
    ) -> None:
        path = f"{self.directory}/{CONSUMERS}/{directory_name(name)}"
        self.disk.make_directory(path)
        config.name = config.name or name
        meta = ConsumerMeta(CONSUMER_VERSION, name, created_ns, config)
        write_document(self.disk, f"{path}/{META}", msgspec.json.encode(meta))
        if state is not None and (state.delivered.consumer_seq or state.delivered.stream_seq):
            write_document(self.disk, f"{path}/state.1", encode_state(kept_state(state, config)))

    def close(self) -> None:
        """That was all."""
        self.log.commit()
        if self.log.failure is not None:
            raise StorageError(str(self.log.failure))
        self.log.close()

    def abandon(self) -> None:
        if not self.log.closed:
            self.log.close()


class PeerArchive:
    def __init__(self, disk: Disk, directory: str, open_log: Callable[[], Log]) -> None:
        self.arrivals = Arrivals(disk, directory, open_log)
        self.state: PeerState | None = None
        self.made_ns = 0  # the archive; it does not say when the stream was
        self.ended = False
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """More of what stands behind the magic bytes."""
        self._data += data
        at = 0
        while not self.ended and (end := self._take_entry(at)):
            at = end
        del self._data[:at]
        self.arrivals.log.commit()

    def close(self) -> Description:
        if not self.ended or self.state is None:
            raise StorageError("the archive is not complete")
        # Those at the end that were deleted.
        self.arrivals.go_to(self.state.last_seq + 1)
        self.arrivals.close()
        return Description(VERSION, "", self.made_ns, msgspec.Raw(b"{}"))

    def abandon(self) -> None:
        self.arrivals.abandon()

    def _take_entry(self, at: int) -> int:
        """The entry at `at`; where the next one begins, 0: it is not whole yet."""
        numbers = []
        for _ in range(5):
            value = shift = 0
            while True:
                if at == len(self._data):
                    return 0
                byte = self._data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
                if shift > 7 * VARINT_SIZE:
                    raise StorageError("the archive is damaged: a number in it is too long")
            numbers.append(value)
        name_size, time, seq, header_size, payload_size = numbers
        if max(name_size, header_size, payload_size) > ARCHIVE_RECORD_SIZE:
            raise StorageError("the archive is damaged: an entry is too large")
        end = at + name_size + header_size + payload_size
        if len(self._data) < end:
            return 0
        name, body = bytes(self._data[at : at + name_size]), at + name_size
        header = bytes(self._data[body : body + header_size])
        self._put(name, signed(time), seq, header, bytes(self._data[body + header_size : end]))
        return end

    def _put(self, name: bytes, ts_ns: int, seq: int, header: bytes, payload: bytes) -> None:
        text = name.decode("utf-8", "surrogateescape")
        if self.state is None:
            if text != STATE:
                raise StorageError("the archive does not begin with what it is")
            self.state = decoded(payload, PeerState)
            self.made_ns = ts_ns
            self.arrivals.go_to(self.state.first_seq)
        elif seq:
            if seq <= self.arrivals.log.store.last_seq or not name:
                raise StorageError(f"the archive is damaged: message {seq} is not where it belongs")
            self.arrivals.take(seq, ts_ns, name, header, payload)
        elif text.startswith(CONSUMER):
            found = decoded(payload, PeerConsumer)
            self.arrivals.keep_consumer(text.removeprefix(CONSUMER), ts_ns, found.config, found.state)
        elif name or payload:
            raise StorageError(f"the archive has {text!r} in it, which this program does not know")
        else:
            self.ended = True


def decoded(data: bytes, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise StorageError(f"the archive cannot be read: {error}") from None


def signed(value: int) -> int:
    """How varints of either sign are written."""
    return value >> 1 ^ -(value & 1)


def expiry_ns(header: bytes, ts_ns: int) -> int:
    """When a message with these headers goes, as it was stored where that is allowed; 0: it does not."""
    text = header_value(header, b"Nats-TTL")
    try:
        ttl_s = read_ttl(text) if text else 0
    except ValueError:
        ttl_s = 0
    return FOREVER if ttl_s < 0 else ts_ns + ttl_s * SECOND_NS if ttl_s else 0


def kept_state(found: Standing, config: ConsumerConfig) -> State:
    """The same as we keep it."""
    wait_ns = config.ack_wait or ACK_WAIT_NS
    pending, redelivered = found.pending or {}, found.redelivered or {}
    latest_ns = max((one.timestamp for one in pending.values()), default=0)
    items = [
        _ITEM.pack(
            seq,
            one.sequence,
            max(one.timestamp - latest_ns + wait_ns, 1),
            redelivered.get(seq, 0),
            PENDING,
        )
        for seq, one in pending.items()
    ]
    # They were delivered as often as they may be.
    items += [_ITEM.pack(seq, 0, 0, count, 0) for seq, count in redelivered.items() if seq not in pending]
    return State(
        number=1,
        next_seq=found.delivered.stream_seq + 1,
        dseq=found.delivered.consumer_seq,
        delivered_seq=found.delivered.stream_seq,
        floor_dseq=found.ack_floor.consumer_seq,
        floor_seq=found.ack_floor.stream_seq,
        delivered_ns=0,
        acked_ns=0,
        written_ns=latest_ns,
        items=b"".join(items),
    )
