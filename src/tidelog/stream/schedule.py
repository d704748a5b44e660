"""Schedules: messages that are not for readers but say when another message is to be published.

A message with `Nats-Schedule` in a stream with `allow_msg_schedules` is published to its target when it is due: once
(`@at <time>`), or again and again (`@every <duration>`, `@hourly` and the like, or six fields of cron, in a time zone).
It stands for its subject (a rollup), and what is published says which schedule it comes from and when the next comes,
or that the schedule is over, which removes it.

Promises
  * STREAM-5: a schedule that is stored is published when it is due, also after a restart, in which what is overdue is
    published once.

How it is found again: which schedules there are is written down when the stream is closed, and now and then; what came
later is read from the log.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tidelog.base.duration import parse_duration_ns
from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns, read_instant, timestamp
from tidelog.base.limits import SCHEDULE_LOOK_NS, SCHEDULES_UNREAD, SCHEDULES_UNSAID
from tidelog.base.timer import Timer
from tidelog.stream import failure
from tidelog.stream.catalog import read_document, write_document
from tidelog.stream.cron import parse_cron
from tidelog.stream.publish import InvalidTtl, header_value, read_ttl, with_line, without_prefix
from tidelog.subject.pattern import is_valid_literal, overlaps

if TYPE_CHECKING:
    from tidelog.log.read import Message
    from tidelog.stream.stream import Stream

SECOND_NS = 1_000_000_000
PURGE = b"purge"
DOCUMENT = "schedules.json"
NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


# ---- what a schedule says ----


def next_due(pattern: str, zone_name: str | None, from_ns: int, now_ns: int) -> tuple[int, bool]:
    """When a schedule that was published at `from_ns` is due next, and whether it repeats. Raises ApiFailure.

    What should have come more than once before `now_ns` comes once.
    """
    zone = None
    if zone_name is not None:
        try:
            zone = ZoneInfo(zone_name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise failure.MESSAGE_SCHEDULES_TIME_ZONE_INVALID() from None
    try:
        if pattern.startswith("@at "):
            if zone is not None:
                raise ValueError("a point in time has its own zone")
            return instant_ns(read_instant(pattern[4:])), False
        if pattern.startswith("@every "):
            interval_ns = parse_duration_ns(pattern[7:])
            if zone is not None or interval_ns < SECOND_NS:
                raise ValueError("an interval is a second or more, everywhere")
            due_ns = to_second(from_ns) + interval_ns
            return (due_ns if due_ns >= now_ns else to_second(now_ns) + interval_ns), True
        cron = parse_cron(NAMED.get(pattern, pattern))
        place = zone if zone is not None else ZoneInfo("UTC")
        due_s = cron.next(from_ns // SECOND_NS, place)
        if due_s is not None and due_s * SECOND_NS < now_ns:
            due_s = cron.next(to_second(now_ns) // SECOND_NS, place)
        if due_s is None:
            raise ValueError("this is never due")
        return due_s * SECOND_NS, True
    except ValueError:
        raise failure.MESSAGE_SCHEDULES_PATTERN_INVALID() from None


def to_second(ns: int) -> int:
    return (ns + SECOND_NS // 2) // SECOND_NS * SECOND_NS


def due_of(fields: dict[bytes, bytes], from_ns: int, now_ns: int) -> tuple[int, bool]:
    """The same, of the headers of a message. Raises ApiFailure."""
    zone = fields.get(b"Nats-Schedule-Time-Zone")
    return next_due(
        fields[b"Nats-Schedule"].decode("utf-8", "replace"),
        zone.decode("utf-8", "replace") if zone is not None else None,
        from_ns,
        now_ns,
    )


# ---- what may be published ----


def vet(stream: Stream, subject: bytes, fields: dict[bytes, bytes], header: bytes, now_ns: int) -> bytes:
    """Check what a message says of schedules. Returns its header as it is stored; raises ApiFailure."""
    if fields.get(b"Nats-Schedule"):
        header = vet_schedule(stream, subject, fields, header, now_ns)
    told = fields.get(b"Nats-Schedule-Next")
    scheduler = fields.get(b"Nats-Scheduler", b"")
    if not told:
        if scheduler:
            raise failure.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
        return header
    if told != PURGE or scheduler == subject or not is_valid_literal(scheduler):
        raise failure.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
    if not stream.config.allow_msg_schedules:
        raise failure.MESSAGE_SCHEDULES_DISABLED()
    if not stream.is_schedule(scheduler):
        raise failure.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
    return header


def vet_schedule(
    stream: Stream, subject: bytes, fields: dict[bytes, bytes], header: bytes, now_ns: int
) -> bytes:
    if not stream.config.allow_msg_schedules:
        raise failure.MESSAGE_SCHEDULES_DISABLED()
    due_of(fields, now_ns, now_ns)
    ttl = fields.get(b"Nats-Schedule-TTL")
    if ttl:
        try:
            read_ttl(ttl)
        except InvalidTtl:
            raise failure.MESSAGE_SCHEDULES_TTL_INVALID() from None
    if fields.get(b"Nats-Schedule-Rollup", b"") not in (b"", b"sub"):
        raise failure.MESSAGE_SCHEDULES_ROLLUP_INVALID()
    if ttl and not stream.config.allow_msg_ttl:
        raise failure.MESSAGE_TTL_DISABLED()
    target = fields.get(b"Nats-Schedule-Target", b"")
    if target == subject or not is_valid_literal(target):
        raise failure.MESSAGE_SCHEDULES_TARGET_INVALID()
    source = fields.get(b"Nats-Schedule-Source", b"")
    if source and (source in (target, subject) or not is_valid_literal(source)):
        raise failure.MESSAGE_SCHEDULES_SOURCE_INVALID()
    if not takes(stream, target):
        raise failure.MESSAGE_SCHEDULES_TARGET_INVALID()
    if source and not takes(stream, source):
        raise failure.MESSAGE_SCHEDULES_SOURCE_INVALID()
    rollup = fields.get(b"Nats-Rollup", b"")
    if not rollup:
        return with_line(header, b"Nats-Rollup", b"sub")
    if rollup.lower() != b"sub":
        raise failure.MESSAGE_SCHEDULES_ROLLUP_INVALID()
    return header


def takes(stream: Stream, subject: bytes) -> bool:
    return any(overlaps(own.encode(), subject) for own in stream.config.subjects)


# ---- those of a stream ----


class Entry(msgspec.Struct, array_like=True):
    seq: int
    due_ns: int


class Document(msgspec.Struct):
    version: int
    next_seq: int  # what came before it is in `entries`
    entries: list[Entry]


class Schedules:
    """Which are due when. `find` reads them from what the stream has stored."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.dues: dict[bytes, tuple[int, int]] = {}  # subject -> when, sequence
        self.heap: list[tuple[int, int, bytes]] = []
        self.timer: Timer | None = None
        self.unsaid = 0
        self.said_seq = 0

    def stored(self, subject: bytes, header: bytes, seq: int, ts_ns: int) -> None:
        """A message was stored that has to do with schedules."""
        fields = headers_of(header)
        if fields.get(b"Nats-Schedule"):
            due_ns, _ = due_of(fields, ts_ns, self.now_ns())
            self.set(subject, due_ns, seq)
        told, scheduler = fields.get(b"Nats-Schedule-Next"), fields.get(b"Nats-Scheduler")
        if told and scheduler:
            if told == PURGE:
                self.dues.pop(scheduler, None)
                self.stream.purge_subject(scheduler)
            elif scheduler in self.dues:
                try:
                    due_ns = instant_ns(read_instant(told.decode("ascii")))
                except ValueError:
                    return  # from another stream, which takes what it likes
                self.set(scheduler, due_ns, self.dues[scheduler][1])

    def set(self, subject: bytes, due_ns: int, seq: int) -> None:
        self.dues[subject] = (due_ns, seq)
        heapq.heappush(self.heap, (due_ns, seq, subject))
        if self.heap[0][1] == seq:
            self.arm()
        self.unsaid += 1
        if self.unsaid > SCHEDULES_UNSAID:
            self.save()

    def now_ns(self) -> int:
        return self.stream.account.engine.clock.now_ns()

    # ---- when they are due ----

    def arm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        while self.heap and self.dues.get(self.heap[0][2]) != self.heap[0][:2]:
            heapq.heappop(self.heap)
        if self.heap:
            engine = self.stream.account.engine
            # Clocks of the wall are set.
            wait_ns = min(max(0, self.heap[0][0] - engine.clock.now_ns()), SCHEDULE_LOOK_NS)
            self.timer = engine.timers.at(engine.clock.monotonic_ns() + wait_ns, self.run)

    def run(self) -> None:
        """Publish what is due."""
        self.timer = None
        now_ns = self.now_ns()
        if self.stream.log.committer.synced_seq > self.said_seq + SCHEDULES_UNREAD:
            self.save()
        due: list[tuple[int, bytes, int]] = []
        while self.heap and self.heap[0][0] <= now_ns:
            due_ns, seq, subject = heapq.heappop(self.heap)
            if self.dues.get(subject) == (due_ns, seq):
                due.append((seq, subject, due_ns))
        for seq, subject, due_ns in sorted(due):
            if not self.stream.stopped:
                self.fire(seq, subject, due_ns, now_ns)
        self.arm()

    def fire(self, seq: int, subject: bytes, due_ns: int, now_ns: int) -> None:
        message = self.stream.log.peek(seq)
        if message is None:
            self.dues.pop(subject, None)
            return
        made = produce(self.stream, message, due_ns, now_ns)
        if made is None:
            self.dues.pop(subject, None)
            return
        target, header, payload = made
        try:
            self.stream.insert(target, header, payload, transforms=True)
        except (failure.ApiFailure, StorageError):
            # A full disk, or a limit. It is tried again.
            self.dues[subject] = (now_ns + SECOND_NS, seq)
            heapq.heappush(self.heap, (now_ns + SECOND_NS, seq, subject))

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # ---- after a restart ----

    def path(self) -> str:
        path = self.stream.account.paths.get(self.stream.name)
        return f"{path}/{DOCUMENT}" if path else ""

    def save(self) -> None:
        """Write down which there are."""
        self.unsaid = 0
        path = self.path()
        if not path:
            return
        entries = [Entry(seq, due_ns) for due_ns, seq in self.dues.values()]
        self.said_seq = self.stream.log.committer.synced_seq
        next_seq = self.said_seq + 1
        document = Document(1, next_seq, [entry for entry in entries if entry.seq < next_seq])
        try:
            write_document(self.stream.account.engine.disk, path, msgspec.json.encode(document))
        except StorageError as error:
            # Then more of the log is read at the next start.
            self.stream.account.engine.log.warn(f"Schedules of {self.stream.name} were not written: {error}")

    def find(self) -> None:
        """Read which there are."""
        path = self.path()
        start_seq = 1
        data = read_document(self.stream.account.engine.disk, path) if path else None
        if data is not None:
            try:
                document = msgspec.json.decode(data, type=Document)
            except msgspec.MsgspecError:
                document = Document(0, 1, [])
            if document.version == 1 and document.next_seq <= self.stream.log.horizon.committed_seq + 1:
                start_seq = document.next_seq
                for entry in document.entries:
                    message = self.stream.log.peek(entry.seq)
                    if message is not None:
                        self.set(message.subject, entry.due_ns, entry.seq)
        for message in self.stream.with_header(b"\r\nNats-Schedule", start_seq):
            self.stored(message.subject, message.header, message.seq, message.ts_ns)
        self.arm()


def headers_of(header: bytes) -> dict[bytes, bytes]:
    """Of those that schedules know, the values."""
    names = (b"Nats-Schedule", b"Nats-Schedule-Time-Zone", b"Nats-Schedule-Next", b"Nats-Scheduler")
    return {name: header_value(header, name) for name in names if b"\r\n" + name + b":" in header}


def produce(stream: Stream, message: Message, due_ns: int, now_ns: int) -> tuple[bytes, bytes, bytes] | None:
    """What a schedule publishes: subject, header, payload. None: it is none any more."""
    fields = headers_of(message.header)
    target = header_value(message.header, b"Nats-Schedule-Target")
    try:
        if not fields.get(b"Nats-Schedule") or not target:
            return None
        next_ns, repeats = due_of(fields, due_ns, now_ns)
    except failure.ApiFailure:
        return None
    source = header_value(message.header, b"Nats-Schedule-Source")
    newest = stream.newest(source) if source else 0
    content = (stream.log.peek(newest) if newest else None) or message
    header = without_prefix(content.header, b"Nats-Schedule", b"Nats-Expected-")
    for name in (b"Nats-Msg-Id:", b"Nats-TTL:", b"Nats-Rollup:"):
        header = without_prefix(header, name)
    header = with_line(header, b"Nats-Scheduler", message.subject)
    header = with_line(header, b"Nats-Schedule-Next", timestamp(next_ns).encode() if repeats else PURGE)
    for name, line in ((b"Nats-Schedule-TTL", b"Nats-TTL"), (b"Nats-Schedule-Rollup", b"Nats-Rollup")):
        value = header_value(message.header, name)
        if value:
            header = with_line(header, line, value)
    return target, header, content.payload
