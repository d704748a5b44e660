"""Rewrites complete segments in the background: sparse ones without what is deleted, plain ones packed.

Promises
  * KEEP-1: whenever the process or the power ends, a segment is the old one or the new one; no message that is not
    deleted is lost by it, and none that is comes back.
  * KEEP-2: a hole that compaction leaves is explained in the same file; so no other record is needed for it.
  * What is deleted while a segment is being rewritten stays deleted: it is dead in the new file.
  * Readers notice nothing. They look messages up by sequence; where those lie changes between two look-ups, in the
    thread that owns the log.
  * One segment of a log at a time, and what compaction reads and writes is bounded per second. Packing is not held
    back: it has to keep up with what is written.
  * A full disk, or any other refusal, is a trouble to be told, and is tried again later. But when nobody knows whether
    a new name is on the disk, nothing more is rewritten until the log is opened again.

How: the worker reads the file through a handle of its own, and writes the new segment and its index beside the old
ones, synced. It then takes away the old index, and makes that certain, as it would not fit (a log without an index is
only slower to open). The owner renames both, which is quick, and swaps what is in memory; the worker syncs the
directory.
"""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import (
    COMPACT_BYTES_PER_SECOND,
    COMPACT_OLDEST_DEAD_PERCENT,
    COMPACT_OLDEST_REST_NS,
    COMPACT_REST_NS,
    KEEPER_RETRY_NS,
)
from tidelog.base.seqset import SequenceSet
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.header import NEW, index_path, write_new
from tidelog.log.husk import strip
from tidelog.log.key_ring import KeyRing
from tidelog.log.packed import PackedFile, pack
from tidelog.log.packed_block import SALT_SIZE
from tidelog.log.plain import open_plain
from tidelog.log.rewrite import rewrite
from tidelog.log.settings import LogSettings
from tidelog.log.sidecar import Sidecar
from tidelog.log.survey import survey

if TYPE_CHECKING:
    from tidelog.log.keeper import KeeperFigures
    from tidelog.log.log import Log
    from tidelog.log.segment import Segment
    from tidelog.log.store import Store

NS = 1_000_000_000


class NotRewritten(StorageError):
    """A segment that stays as it is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What the worker has left beside the old files."""

    side: Sidecar
    packed: bool
    read_size: int
    written_size: int
    dropped: bool  # of the dead messages there is none in it
    husk: bool


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Everything that the worker needs; nobody changes it."""

    disk: Disk
    directory: str
    path: str
    stretch: tuple[int, int]
    salt: int
    dead: SequenceSet
    floor_seq: int
    earlier: list[Sidecar]
    settings: LogSettings
    demanded: bool
    husk: bool  # leave nothing but a husk

    def run(self) -> Rewritten:
        base_seq, end_seq = self.stretch
        old, read_size, packed_before, turned = self.read()
        new = old
        if self.dead.count:
            rewritten = rewrite(old, base_seq, end_seq, self.salt, self.dead, self.floor_seq, self.earlier)
            if rewritten is None:
                raise NotRewritten(f"{self.path} is damaged, and left as it is")
            # An index is told from that of the other by the size: two of the same size must be the same.
            if len(rewritten) < len(old) or self.demanded or self.husk:
                new = rewritten
        whole = new
        if self.husk:
            stripped = strip(new, self.salt)
            if stripped is None:
                raise NotRewritten(f"{self.path} is damaged, and left as it is")
            new = stripped
        if new is old and not turned and (packed_before or not self.settings.packs):
            raise NotRewritten(f"{self.path} does not become smaller, and is left as it is")
        found = survey(new, base_seq, self.salt, expected_end=len(new))
        if found.damages:
            raise NotRewritten(f"{self.path} is damaged, and left as it is")
        stored = self.packed(new)
        index = index_path(self.directory, base_seq)
        write_new(self.disk, self.path, stored, sync=True)
        try:
            write_new(self.disk, index, found.index_bytes(), sync=True)
        except DiskFailed:
            self.disk.remove(f"{self.path}{NEW}")
            raise
        if self.disk.exists(index) and new is not old:
            self.disk.remove(index)
            self.disk.sync_directory(self.directory)
        side = Sidecar.of(found)
        side.take_rows()
        return Rewritten(side, stored is not new, read_size, len(stored), whole is not old, self.husk)

    def read(self) -> tuple[bytes, int, bool, bool]:
        """The plain bytes, the size of the file, whether it is packed, and whether a bit of it has turned."""
        file = open_plain(self.disk, self.path, self.settings.keys)
        try:
            data = file.read(0, file.size)
            if isinstance(file, PackedFile):
                return data, file.file.size, True, bool(file.repairs)
            return data, file.size, False, False
        finally:
            file.close()

    def packed(self, data: bytes) -> bytes:
        """As the settings say, and with the newest key."""
        settings = self.settings
        if self.husk:
            return pack(data, "zstd", None)
        if not settings.packs:
            return data
        if not settings.encrypt:
            return pack(data, settings.compression, None)
        assert settings.keys is not None
        return pack(data, settings.compression, settings.keys.first, os.urandom(SALT_SIZE))


def check_keys(store: "Store", keys: KeyRing | None) -> None:
    """Raises KeyUnavailable if these keys do not open everything that is there."""
    for segment in store.segments:
        if segment.packed:
            open_plain(store.disk, segment.path, keys).close()


class Compactor:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        worker: Worker,
        clock: Clock,
        figures: "KeeperFigures",
        trouble: Callable[[BaseException], None],
        on_idle: Callable[["Log"], None],
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.worker = worker
        self.clock = clock
        self.figures = figures
        self.trouble = trouble
        self.on_idle = on_idle  # a segment is not busy any more
        self.under_way: Segment | None = None
        self._mending = False  # the one under way, for no other reason
        self.halted = False
        self.held = False  # nothing is rewritten but what is demanded
        self.cooling: deque[Segment] = deque()  # to be left as husks
        self.demanded: list[Segment] = []  # to be rewritten without its dead, sparse or not
        self.sparse: dict[Segment, int] = {}  # and since when
        self.plain: deque[Segment] = deque()  # to be packed
        self.turned: deque[Segment] = deque()  # packed ones to be written anew, as bits of them have turned
        self._retry_ns = 0
        self._budget_ns = 0  # from then on there is some again
        self._starting = False

    # ---- what there is to do ----

    def look_over(self, log: "Log") -> None:
        """All segments: the log was opened, or has other settings."""
        self.plain.clear()
        for segment in log.store.segments:
            log.store.look_at(segment)
            self.sealed(log, segment)

    def sealed(self, log: "Log", segment: "Segment") -> None:
        """This one is complete now."""
        log.store.look_at(segment)
        if segment.sealed and log.settings.packs and not segment.packed:
            self.plain.append(segment)

    def demand(self, segment: "Segment") -> None:
        """Rewrite it soon: something in it has to go."""
        self.demanded.append(segment)

    def mend(self, segment: "Segment") -> None:
        """It can be read, and should be written anew."""
        if segment not in self.turned:
            self.turned.append(segment)

    def cool(self, segment: "Segment") -> None:
        """Leave a husk of it: the rest is elsewhere."""
        if segment not in self.cooling:
            self.cooling.append(segment)

    def tick(self, log: "Log") -> None:
        now_ns = self.clock.monotonic_ns()
        for segment in log.store.take_sparse():
            self.sparse[segment] = now_ns
        if self._starting:
            return
        # With a worker that does things at once, the end of one is the time for the next.
        self._starting = True
        try:
            while (found := self._next(log)) is not None:
                self._start(log, found)
        finally:
            self._starting = False

    def next_due_ns(self, log: "Log") -> int | None:
        if self.halted or self.under_way is not None or log.failure is not None:
            return None
        dues = [self._retry_ns] if self.plain or self.turned or self.demanded or self.cooling else []
        dues += [
            max(since_ns + rest_ns, self._retry_ns, self._budget_ns)
            for segment, since_ns in self.sparse.items()
            if (rest_ns := self._rest_ns(log, segment)) is not None
        ]
        return min(dues, default=None)

    def _next(self, log: "Log") -> "Segment | None":
        now_ns = self.clock.monotonic_ns()
        if self.halted or self.under_way is not None or log.failure is not None or log.closed:
            return None
        # A delete record is about messages that are all in a file, or all not.
        if now_ns < self._retry_ns or log.store.unsaid():
            return None
        for segment in self.demanded:
            if not log.store.holds(segment):
                self.demanded.remove(segment)
                break
            if not segment.busy:
                return segment
        if self.held:
            return None
        while self.turned:
            segment = self.turned.popleft()
            if self._possible(log, segment) and segment.packed:
                self._mending = True
                return segment
        while self.cooling:
            segment = self.cooling[0]
            if self._possible(log, segment) and not segment.husk:
                return segment
            self.cooling.popleft()
        while self.plain:
            segment = self.plain.popleft()
            if self._possible(log, segment) and log.settings.packs and not segment.packed:
                return segment
        if now_ns < self._budget_ns:
            return None
        for segment, since_ns in list(self.sparse.items()):
            if not (self._possible(log, segment) and segment.is_sparse()):
                del self.sparse[segment]
                continue
            rest_ns = self._rest_ns(log, segment)
            if rest_ns is not None and now_ns >= since_ns + rest_ns:
                del self.sparse[segment]
                return segment
        return None

    def _rest_ns(self, log: "Log", segment: "Segment") -> int | None:
        """For how long a segment has to be sparse; None: until more of it is dead."""
        if log.store.worth_rewriting(segment):
            return COMPACT_REST_NS
        if not segment.is_sparse(COMPACT_OLDEST_DEAD_PERCENT):
            return None
        # What retention has left may still be wanted for the history.
        return COMPACT_OLDEST_REST_NS if log.store.stretch_of(segment)[1] <= log.store.kept_seq else None

    def _possible(self, log: "Log", segment: "Segment") -> bool:
        return segment.sealed and not segment.busy and not segment.stuck and log.store.holds(segment)

    # ---- doing it ----

    def _start(self, log: "Log", segment: "Segment") -> None:
        store = log.store
        dead = store.dead_in(segment)
        gone = (segment.dead_count, segment.dead_size)
        job = Rewriting(
            self.disk,
            self.directory,
            segment.path,
            store.stretch_of(segment),
            store.log_salt,
            dead,
            # What is not synced may be lost, and its sequences given out again: those are not trimmed.
            min(store.first_seq, log.committer.synced_seq + 1),
            store.sides_before(segment),
            log.settings,
            segment in self.demanded,
            segment.husk or (segment in self.cooling and segment not in self.demanded),
        )
        segment.busy = True
        self.under_way = segment
        started_ns = self.clock.monotonic_ns()

        def done(answer: Rewritten | None, error: BaseException | None) -> None:
            if log.closed:
                return
            try:
                if error is not None:
                    raise error
                assert answer is not None
                self._spend(started_ns, answer)
                self._take(segment, answer, gone)
                if answer.husk:
                    segment.husk = True
                    store.count_cold()
            except (StorageError, MemoryError) as refusal:
                self._refused(segment, refusal)
                self._end(log)
            else:
                self._settle(log)

        self.worker.submit(job.run, done)

    def _spend(self, started_ns: int, answer: Rewritten) -> None:
        self.figures.rewritten_size += answer.written_size
        if answer.dropped and not answer.husk:
            size = answer.read_size + answer.written_size
            self._budget_ns = started_ns + size * NS // COMPACT_BYTES_PER_SECOND

    def _take(self, segment: "Segment", answer: Rewritten, gone: tuple[int, int]) -> None:
        """From here on the new files are the segment."""
        path = index_path(self.directory, segment.base_seq)
        self.disk.rename(f"{segment.path}{NEW}", segment.path)
        if answer.husk:
            if segment in self.cooling:
                self.cooling.remove(segment)
        elif answer.dropped:
            self.figures.compactions += 1
        if answer.packed and not answer.husk:
            self.figures.packed += 1
        self.figures.reclaimed_size += answer.read_size - answer.written_size
        if segment in self.demanded:
            self.demanded.remove(segment)
        segment.replace(answer.side, *(gone if answer.dropped else (0, 0)), answer.packed)
        try:
            self.disk.rename(f"{path}{NEW}", path)
        except DiskFailed as error:
            self.trouble(error)

    def _settle(self, log: "Log") -> None:
        """Make the names certain."""

        def done(_: object, error: BaseException | None) -> None:
            if error is not None:
                self.halted = True
                self.trouble(error)
            self._end(log)

        self.worker.submit(lambda: self.disk.sync_directory(self.directory), done)

    def _refused(self, segment: "Segment", error: StorageError | MemoryError) -> None:
        self.trouble(error)
        if isinstance(error, DiskFailed | MemoryError):
            self._retry_ns = self.clock.monotonic_ns() + KEEPER_RETRY_NS
            self.sparse[segment] = 0
            (self.turned if self._mending else self.plain).append(segment)
        elif not self._mending:
            # Damaged, or its key is not here.
            segment.stuck = True
            if segment in self.cooling:
                self.cooling.remove(segment)
            if segment in self.demanded:
                self.demanded.remove(segment)

    def _end(self, log: "Log") -> None:
        assert self.under_way is not None
        self.under_way.busy = False
        self.under_way = None
        self._mending = False
        self.on_idle(log)
