"""Overwrites the bytes of deleted messages where somebody has asked for that: the secure delete.

Promises
  * ERASE-1: a message that is erased is deleted for certain before one of its bytes changes; its record keeps its place
    and size, so nothing else moves, and whatever ends amid it costs no other message.
  * ERASE-2: what was asked for is done, if not by this process then by the next one that opens the log: the delete
    record says that the message is to be erased.
  * Messages in packed segments go by rewriting the segment, at once; until then nothing else of the log is rewritten,
    as that would drop the records that ask for it.

How: the delete record is written with the next commit. When it is synced, which is asked for whatever the policy, the
worker overwrites the records through handles of its own, and syncs.

What it does not do: look amid damage for messages that are damaged themselves, scrub what a file system or a drive
keeps of bytes that were overwritten, or take the subject out of the index file of the segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.limits import ERASE_PER_JOB, KEEPER_RETRY_NS
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk, File
from tidelog.log.record import RECORD_HEADER_SIZE, checksum, find_valid
from tidelog.log.walk import ERASED, HAS_EXPIRY, MESSAGE

if TYPE_CHECKING:
    from tidelog.log.compact import Compactor
    from tidelog.log.keeper import KeeperFigures
    from tidelog.log.log import Log
    from tidelog.log.segment import Segment
    from tidelog.log.sidecar import Sidecar

EXPIRY_SIZE = 8
# Where in a record its kind and its flags stand, and behind them the sizes of subject and headers.
KIND_POS, FLAGS_POS = 24, 25


class NotErased(StorageError):
    """Messages that are deleted, and whose bytes stay."""


class NotSynced(StorageError):
    """What was written to the open segment, by whomever, may be gone."""


@dataclass(frozen=True, slots=True)
class Erasing:
    """What the worker is given: a file, and between which positions each message is."""

    disk: Disk
    path: str
    salt: int
    places: list[tuple[int, int, int]]  # sequence, start, end
    doubt: Callable[[], None] | None  # when a sync fails, where more than what is erased waits for one

    def run(self) -> int:
        """How many were there to be overwritten."""
        file = self.disk.open(self.path)
        try:
            erased = sum(self.erase(file, *place) for place in self.places)
            self.sync(file)
        finally:
            file.close()
        return erased

    def sync(self, file: File) -> None:
        try:
            file.sync()
        except DiskFailed as error:
            if self.doubt is None:
                raise
            self.doubt()
            raise NotSynced(f"the open segment could not be synced after erasing: {error}") from error

    def erase(self, file: File, seq: int, start_pos: int, end_pos: int) -> bool:
        data = file.read(start_pos, end_pos - start_pos)
        pos = find(data, seq, self.salt)
        if pos < 0:
            return False
        record = data[pos : pos + int.from_bytes(data[pos + 4 : pos + 8], "little")]
        new = blank(record, self.salt)
        # Also if it looks erased: that may be in the system's memory only, after a sync that failed.
        file.write(start_pos + pos, new)
        return new != record


def find(data: bytes, seq: int, salt: int) -> int:
    """Where in `data`, which begin with a record, a message begins; -1: nowhere.

    By the sizes, so that one is found whose erasing the power has cut short. Amid damage only what is whole is found.
    """
    pos = 0
    while pos + RECORD_HEADER_SIZE <= len(data):
        size = int.from_bytes(data[pos + 4 : pos + 8], "little")
        if not RECORD_HEADER_SIZE <= size <= len(data) - pos:
            break
        if data[pos + KIND_POS] == MESSAGE and int.from_bytes(data[pos + 8 : pos + 16], "little") == seq:
            return pos
        pos += size
    pos = find_valid(data, pos, seq, seq, salt)
    return pos if pos >= 0 and data[pos + KIND_POS] == MESSAGE else -1


def blank(record: bytes, salt: int) -> bytes:
    """The record of the same message when it is erased."""
    flags = record[FLAGS_POS] | ERASED
    front_size = RECORD_HEADER_SIZE + (EXPIRY_SIZE if flags & HAS_EXPIRY else 0)
    body = (
        record[4:FLAGS_POS]
        + bytes([flags])
        + bytes(RECORD_HEADER_SIZE - FLAGS_POS - 1)
        + record[RECORD_HEADER_SIZE:front_size]
        + bytes(len(record) - front_size)
    )
    return (checksum(body) ^ salt).to_bytes(4, "little") + body


class Eraser:
    def __init__(
        self,
        disk: Disk,
        worker: Worker,
        clock: Clock,
        figures: KeeperFigures,
        trouble: Callable[[BaseException], None],
        compactor: Compactor,
        on_idle: Callable[[Log], None],
    ) -> None:
        self.disk = disk
        self.worker = worker
        self.clock = clock
        self.figures = figures
        self.trouble = trouble
        self.compactor = compactor
        self.on_idle = on_idle  # segments are not busy any more
        self.said: list[list[int]] = []  # in the log, and not yet known to be synced
        self.due: dict[int, None] = {}
        self.under_way: list[int] = []
        # Packed ones: the index that the segment had when its rewriting was asked for.
        self.rewriting: dict[Segment, tuple[Sidecar, list[int]]] = {}
        self._retry_ns = 0

    @property
    def pending(self) -> bool:
        return bool(self.said or self.due or self.under_way or self.rewriting)

    def found(self, seqs: Iterable[int]) -> None:
        """The log was opened, and says that these are to be erased; some may be already."""
        self.due.update(dict.fromkeys(seqs))

    def after_commit(self, log: Log) -> None:
        seqs = log.store.take_unerased()
        if not seqs:
            return
        self.said.append(seqs)

        def synced() -> None:
            self.said.remove(seqs)
            self.due.update(dict.fromkeys(seqs))
            self.tick(log)

        log.committer.when_synced(synced)

    def tick(self, log: Log) -> None:
        if not self.pending or log.closed or log.failure is not None:
            return
        self._look_at_rewritten(log)
        if self.due and not self.under_way and self.clock.monotonic_ns() >= self._retry_ns:
            self._start(log)

    def next_due_ns(self, log: Log) -> int | None:
        """When `tick` has something to do, in monotonic time."""
        if not self.due or self.under_way or log.failure is not None:
            return None
        return max(self._retry_ns, self.clock.monotonic_ns())

    def finish(self, log: Log) -> bool:
        """The log is being closed, and all that it says is synced; tells whether nothing is left to erase."""
        for seqs in self.said:
            self.due.update(dict.fromkeys(seqs))
        self.said = []
        self._look_at_rewritten(log)
        # What a job has is done again, as nobody waits for it.
        self.due.update(dict.fromkeys(self.under_way))
        while self.due:
            jobs, taken = self._jobs(log)
            if not taken:
                break
            for job in jobs:
                job.run()
            for seq in taken:
                del self.due[seq]
        return not (self.due or self.rewriting)

    # ---- doing it ----

    def _start(self, log: Log) -> None:
        jobs, taken = self._jobs(log)
        if not taken:
            return
        for seq in taken:
            del self.due[seq]
        self.under_way = taken
        busy = [segment for segment in log.store.segments if segment.sealed and not segment.busy]
        busy = [segment for segment in busy if any(job.path == segment.path for job in jobs)]
        for segment in busy:
            segment.busy = True

        def run() -> int:
            return sum(job.run() for job in jobs)

        def done(erased: int | None, error: BaseException | None) -> None:
            self.under_way = []
            for segment in busy:
                segment.busy = False
            if error is None:
                self.figures.erased += erased or 0
            elif isinstance(error, DiskFailed):
                self.trouble(error)
                self._retry_ns = self.clock.monotonic_ns() + KEEPER_RETRY_NS
                self.due.update(dict.fromkeys(taken))
            elif isinstance(error, NotSynced):
                log.committer.fail(error)
            else:
                raise error
            self.on_idle(log)

        self.worker.submit(run, done)

    def _jobs(self, log: Log) -> tuple[list[Erasing], list[int]]:
        """What can be done now, and for which messages. Those in segments that are busy wait."""
        places: dict[Segment, list[tuple[int, int, int]]] = defaultdict(list)
        taken: list[int] = []
        for seq in list(self.due):
            if len(taken) == ERASE_PER_JOB:
                break
            segment = log.store.segment_at(seq)
            if seq < segment.base_seq:
                del self.due[seq]  # its file has gone
            elif segment.packed:
                self._ask_for_rewriting(segment, seq)
            elif not segment.busy:
                start_pos, end_pos = segment.place_of(seq)
                taken.append(seq)
                places[segment].append((seq, start_pos, end_pos))
        salt = log.store.log_salt
        jobs = [
            # A log that is being closed has synced everything.
            Erasing(self.disk, segment.path, salt, where, None if segment.sealed or log.closed else log.doubt)
            for segment, where in places.items()
        ]
        return jobs, taken

    # ---- packed segments ----

    def _ask_for_rewriting(self, segment: Segment, seq: int) -> None:
        if segment in self.rewriting:
            if self.compactor.under_way is segment:
                return  # not in this one; later
            self.rewriting[segment][1].append(seq)
        else:
            self.rewriting[segment] = (segment.side, [seq])
            self.compactor.demand(segment)
        del self.due[seq]

    def _look_at_rewritten(self, log: Log) -> None:
        for segment, (side, seqs) in list(self.rewriting.items()):
            if segment.side is not side or not log.store.holds(segment):
                del self.rewriting[segment]
                self.figures.erased += len(seqs)
            elif segment.stuck:
                del self.rewriting[segment]
                self.trouble(
                    NotErased(f"{segment.path} cannot be rewritten, so {len(seqs)} messages stay in it")
                )
