"""The members of an archive that a nats-server before 2.15 made, a tar of files of its store.

    meta.inf, meta.sum           the configuration and when the stream was made
    msgs/<number>.blk            messages and what was deleted, in order; msgs/index.db says nothing more
    obs/<name>/meta.inf, .sum    the configuration of a consumer
    obs/<name>/o.dat             where it stands
    errors.txt                   why the archive is not complete

A record of a block, numbers with the lowest byte first:

    u32 size of the record; bit 31: it has headers      u64 sequence; bit 63: erased, bit 62: it says what was deleted
    i64 time in ns      u16 size of the subject      subject      [u32 size of the headers, headers]      payload
    8 bytes checksum

Promises are those of `peer_archive`. What it does not do: verify the checksums of the peer's store (the frames around
have their own).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns
from tidelog.base.limits import ARCHIVE_RECORD_SIZE
from tidelog.disk.disk import Disk
from tidelog.log.log import Log
from tidelog.stream.archive import VERSION, Description
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.peer_archive import SECOND_NS, Arrivals, Delivered, Pair, Standing, decoded, signed

PEER_DESCRIPTION = "meta.inf"
ERRORS = "errors.txt"
NAME = re.compile(
    r"meta\.(inf|sum)|msgs/(\d+\.blk|index\.db)|obs/([^/\0]+)/(meta\.inf|meta\.sum|o\.dat)|errors\.txt"
)

_HEAD = struct.Struct("<IQqH")
CHECKSUM_SIZE = 8
HAS_HEADERS = 1 << 31
ERASED, TOMBSTONE = 1 << 63, 1 << 62
STATE_MAGIC = b"\x16\x02"


class Made(msgspec.Struct, rename={"created": "Created", "own_name": "Name"}):
    """Of a stream, which has its name in its configuration, or a consumer."""

    created: str
    own_name: str = ""
    name: str = ""


class PeerFiles:
    def __init__(self, disk: Disk, directory: str, open_log: Callable[[], Log], first_seq: int) -> None:
        """`first_seq`: where the stream begins, which only the request says; blocks have what went before it."""
        self.arrivals = Arrivals(disk, directory, open_log)
        self.first_seq = first_seq
        self.made: Made | None = None
        self.deleted: list[int] = []
        self.consumers: dict[str, dict[str, bytes]] = {}
        self._name = ""
        self._data = bytearray()

    def begin(self, name: str) -> None:
        if NAME.fullmatch(name) is None:
            raise StorageError(f"the archive was not made by nats-server: it has {name!r} in it")
        self._name = name

    def put(self, part: bytes) -> None:
        self._data += part
        if self._name.endswith(".blk"):
            self._take_records()
        elif len(self._data) > ARCHIVE_RECORD_SIZE:
            raise StorageError(f"the archive is damaged: {self._name} is too large")

    def finish(self) -> None:
        name, data = self._name, bytes(self._data)
        self._data.clear()
        if name == PEER_DESCRIPTION:
            self.made = decoded(data, Made)
        elif name == ERRORS:
            raise StorageError(f"the archive is not complete: {data.decode('utf-8', 'replace')}")
        elif name.endswith(".blk") and data:
            raise StorageError(f"the archive is damaged: {name} ends within a record")
        elif name.startswith("obs/"):
            _, consumer, file = name.split("/")
            self.consumers.setdefault(consumer, {})[file] = data

    def close(self) -> Description:
        if self.made is None:
            raise StorageError("the archive is not complete")
        self.arrivals.log.purge(before_seq=self.first_seq)
        for seq in self.deleted:
            self.arrivals.log.remove(seq)
        for files in self.consumers.values():
            if "meta.inf" in files:
                made, config = decoded(files["meta.inf"], Made), decoded(files["meta.inf"], ConsumerConfig)
                state = read_state(files.get("o.dat", b""))
                self.arrivals.keep_consumer(made.own_name, instant_ns(made.created), config, state)
        self.arrivals.close()
        return Description(VERSION, self.made.name, instant_ns(self.made.created), msgspec.Raw(b"{}"))

    def abandon(self) -> None:
        self.arrivals.abandon()

    def _take_records(self) -> None:
        """What is whole of them."""
        data, at = self._data, 0
        while len(data) - at >= _HEAD.size:
            size, seq, ts_ns, subject_size = _HEAD.unpack_from(data, at)
            start = _HEAD.size + subject_size
            body = start + 4 if size & HAS_HEADERS else start
            size &= ~HAS_HEADERS
            if not body + CHECKSUM_SIZE <= size <= ARCHIVE_RECORD_SIZE:
                raise StorageError(f"the archive is damaged: a record in {self._name} cannot be read")
            if len(data) - at < size:
                break
            record = bytes(data[at : at + size - CHECKSUM_SIZE])
            header_size = int.from_bytes(record[start:body], "little")
            if body + header_size > len(record):
                raise StorageError(f"the archive is damaged: headers of message {seq} cannot be read")
            header, payload = record[body : body + header_size], record[body + header_size :]
            self._take(seq, ts_ns, record[_HEAD.size : start], header, payload)
            at += size
        del data[:at]
        self.arrivals.log.commit()

    def _take(self, seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes) -> None:
        last_seq = self.arrivals.log.store.last_seq
        if seq & TOMBSTONE:
            self.deleted.append(seq & ~(TOMBSTONE | ERASED))
        elif seq & ERASED or seq <= last_seq:
            # It was there, and is gone.
            self.arrivals.go_to((seq & ~ERASED) + 1)
        else:
            self.arrivals.take(seq, ts_ns, subject, header, payload)


def numbers(data: bytes) -> Iterator[int]:
    """Varints, one after the other."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def read_state(data: bytes) -> Standing | None:
    """Where a consumer stands; None: that is written in a way that is not known, and all is delivered anew."""
    if not data.startswith(STATE_MAGIC):
        return None
    found = numbers(data[len(STATE_MAGIC) :])
    try:
        floor = Pair(next(found), next(found))
        delivered = Pair(next(found), next(found))
        pending_count = next(found)
        base_s = signed(next(found)) if pending_count else 0
        pending = {}
        for _ in range(pending_count):
            seq, dseq, ago_s = next(found), next(found), next(found)
            at_ns = (base_s - signed(ago_s)) * SECOND_NS
            pending[floor.stream_seq + seq] = Delivered(floor.consumer_seq + dseq, at_ns)
        redelivered = {}
        for _ in range(next(found)):
            seq, count = next(found), next(found)
            redelivered[floor.stream_seq + seq] = count
    except StopIteration:
        raise StorageError("the archive is damaged: the state of a consumer cannot be read") from None
    return Standing(delivered, floor, pending, redelivered)
