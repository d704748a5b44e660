"""Group commit: when written bytes are synced, and who is told.

The log calls `wrote` when a tick's records went to their file, and `tick` when time has passed. A sync covers
everything written when it starts; what arrives meanwhile is covered by the next one, so that one sync at a time is
under way and it never matters how many ask.

Promises
  * COMMIT-1: `committed_seq` never falls, and never passes what the policy's ack level covers.
  * COMMIT-2: those who wait are called in order of their sequences, when `committed_seq` reaches them, and each once.
  * COMMIT-3: a failed sync is final: nothing is acknowledged after it, nothing is tried again, all who wait are told.
  * COMMIT-4: an idle tail is synced as its policy says; nobody has to write something more.
  * COMMIT-5: who waits for something that has no sequence, as deletes have none, is called when all that was written
    until then is at the policy's ack level; or told of the failure.
  * New files are acknowledged only after their directory was synced too.
  * A file is in use for as long as a sync that has it is under way; `synced_elsewhere` says when it is not any more.

What it does not do: write, read a clock, or know what a record is.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.work import Worker
from tidelog.disk.disk import File
from tidelog.log.policy import AckLevel, SyncPolicy

Wait = Callable[[StorageError | None], None]

# Upper ends of the buckets of sync latencies, in seconds: from a fast drive to one that is in trouble.
LATENCY_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


@dataclass
class SyncFigures:
    """For metrics. Buckets count what was at most as slow; the last one has the rest."""

    syncs: int = 0
    seconds: float = 0.0
    messages: int = 0
    size: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS_S) + 1))

    def add(self, seconds: float, messages: int, size: int) -> None:
        self.syncs += 1
        self.seconds += seconds
        self.messages += messages
        self.size += size
        slot = next(
            (i for i, most in enumerate(LATENCY_BUCKETS_S) if seconds <= most), len(LATENCY_BUCKETS_S)
        )
        self.buckets[slot] += 1


class Committer:
    def __init__(
        self,
        policy: SyncPolicy,
        clock: Clock,
        worker: Worker,
        on_commit: Callable[[], None],
        on_failure: Callable[[StorageError], None],
        on_doubt: Callable[[], None],
        seq: int,
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.worker = worker
        self.on_commit = on_commit
        self.on_failure = on_failure
        self.on_doubt = on_doubt  # a sync has failed; in the thread in which it has
        self.written_seq = seq
        self.synced_seq = seq
        self.committed_seq = seq
        self.failure: StorageError | None = None
        self.figures = SyncFigures()
        self.unsynced_size = 0
        self.unsynced_since_ns = 0  # monotonic time of the oldest unsynced byte; 0: there is none
        self.under_way = False
        self._fresh_since_ns = 0  # of the oldest byte that the sync under way does not cover
        self._dirty: dict[File, None] = {}
        self._syncing: tuple[File, ...] = ()
        self._releases: list[Callable[[], None]] = []
        self._sync_names: Callable[[], None] | None = None
        self._syncing_names: Callable[[], None] | None = None  # of the sync under way
        self.writes = 0
        self._synced_writes = 0
        self._after: list[tuple[int, Callable[[], None]]] = []  # until all up to that write is synced
        self._covering: deque[tuple[int, Wait]] = deque()  # the same, or until less is promised
        self._waiting: deque[tuple[int, Wait]] = deque()

    # ---- what the log reports ----

    def wrote(self, seq: int, size: int, files: Sequence[File]) -> None:
        """Everything up to `seq` is written; `size` bytes more, to these files."""
        self.written_seq = seq
        self.writes += 1
        self._dirty.update(dict.fromkeys(files))
        now_ns = self.clock.monotonic_ns()
        self.unsynced_since_ns = self.unsynced_since_ns or now_ns
        self._fresh_since_ns = self._fresh_since_ns or now_ns
        self.unsynced_size += size
        if self.policy.ack is AckLevel.WRITTEN:
            self._advance(seq)
        self._sync_if_due()

    def renamed(self, sync_names: Callable[[], None]) -> None:
        """A file was made or renamed: the next sync has to cover its name, by calling `sync_names`."""
        self._sync_names = sync_names

    def wait(self, seq: int, callback: Wait) -> None:
        """Call back when `seq` is committed. Sequences come in ascending order."""
        if self.failure is not None:
            callback(self.failure)
        elif seq <= self.committed_seq:
            callback(None)
        else:
            self._waiting.append((seq, callback))

    def when_covered(self, callback: Wait) -> None:
        """Call back when all that is written now is at the ack level."""
        if self.failure is not None:
            callback(self.failure)
        elif self.policy.ack is AckLevel.WRITTEN or self._synced_writes == self.writes:
            callback(None)
        else:
            self._covering.append((self.writes, callback))

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when all that is written now is synced, which is seen to. Not after a failure."""
        self._after.append((self.writes, callback))
        self.sync()

    def tick(self) -> None:
        self._sync_if_due()

    def set_policy(self, policy: SyncPolicy) -> None:
        """A weaker policy acknowledges at once what it may."""
        self.policy = policy
        if self.failure is None:
            if policy.ack is AckLevel.WRITTEN:
                self._advance(self.written_seq)
                self._cover(self.writes)
            self._sync_if_due()

    def next_due_ns(self) -> int | None:
        """When `tick` has something to do, in monotonic time; None: nothing to wait for."""
        if (
            not self.unsynced_since_ns
            or self.under_way
            or self.failure is not None
            or not self.policy.interval_ns
        ):
            return None
        return self.unsynced_since_ns + self.policy.interval_ns

    def unsynced_age_ns(self) -> int:
        return self.clock.monotonic_ns() - self.unsynced_since_ns if self.unsynced_since_ns else 0

    # ---- syncing ----

    def _sync_if_due(self) -> None:
        if self.under_way or self.failure is not None or not (self._dirty or self._sync_names):
            return
        policy = self.policy
        if (
            policy.on_commit
            or (policy.messages and self.written_seq - self.synced_seq >= policy.messages)
            or (
                policy.interval_ns
                and self.clock.monotonic_ns() - self.unsynced_since_ns >= policy.interval_ns
            )
        ):
            self.sync()

    def sync(self) -> None:
        """Start a sync of everything that is written, unless one is under way."""
        if self.under_way or self.failure is not None:
            return
        self.under_way = True
        writes = self.writes
        target_seq, size, started_ns = self.written_seq, self.unsynced_size, self.clock.monotonic_ns()
        files, self._dirty = tuple(self._dirty), {}
        self._syncing = files
        sync_names, self._sync_names = self._sync_names, None
        self._syncing_names = sync_names
        self._fresh_since_ns = 0

        def job() -> None:
            try:
                for file in files:
                    file.sync()
                if sync_names is not None:
                    sync_names()
            except DiskFailed:
                self.on_doubt()
                raise

        def done(_: object, error: BaseException | None) -> None:
            self._release()
            if not self.under_way:
                return  # `finish` did it
            self.under_way = False
            if error is not None:
                self.fail(
                    StorageError(
                        f"what was written could not be synced, so nothing more is acknowledged: {error}"
                    )
                )
                return
            now_ns = self.clock.monotonic_ns()
            self.figures.add((now_ns - started_ns) / 1e9, target_seq - self.synced_seq, size)
            self._synced(target_seq, size, writes)
            self._sync_if_due()
            if self._after:
                self.sync()

        self.worker.submit(job, done)

    def finish(self) -> bool:
        """Sync everything now, in this thread; tells whether that went well. Nothing is written afterwards."""
        if self.failure is not None:
            return False
        self.under_way = False
        try:
            for file in dict.fromkeys((*self._syncing, *self._dirty)):
                file.sync()
            # A sync that is under way may not have come to the names yet, and nobody waits for it.
            sync_names = self._sync_names or self._syncing_names
            if sync_names is not None:
                sync_names()
        except DiskFailed as error:
            self.fail(StorageError(f"what was written could not be synced: {error}"))
            return False
        # What a job was given it still has.
        self._dirty, self._sync_names = {}, None
        self._fresh_since_ns = 0
        self._synced(self.written_seq, self.unsynced_size, self.writes)
        return True

    def synced_elsewhere(self, file: File, released: Callable[[], None]) -> None:
        """Nothing more is written to this file, and it was synced. `released` is called when no sync has it."""
        self._dirty.pop(file, None)
        if file in self._syncing:
            self._releases.append(released)
        else:
            released()

    def _release(self) -> None:
        self._syncing = ()
        self._syncing_names = None
        releases, self._releases = self._releases, []
        for released in releases:
            released()

    def _synced(self, seq: int, size: int, writes: int) -> None:
        self.synced_seq = seq
        self.unsynced_size -= size
        self.unsynced_since_ns = self._fresh_since_ns
        self._synced_writes = writes
        if self.policy.ack is AckLevel.SYNCED:
            self._advance(seq)
        self._cover(writes)
        while self._after and self._after[0][0] <= writes:
            self._after.pop(0)[1]()

    def fail(self, failure: StorageError) -> None:
        """Nothing is acknowledged any more."""
        if self.failure is not None:
            return
        self.failure = failure
        # Who is told may ask the log, so it knows first; likewise below.
        self.on_failure(failure)
        waiting, self._waiting = (*self._waiting, *self._covering), deque()
        self._covering.clear()
        for _, callback in waiting:
            callback(failure)

    def _cover(self, writes: int) -> None:
        while self._covering and self._covering[0][0] <= writes and self.failure is None:
            self._covering.popleft()[1](None)

    def _advance(self, seq: int) -> None:
        if seq <= self.committed_seq or self.failure is not None:
            return
        self.committed_seq = seq
        self.on_commit()
        while self._waiting and self._waiting[0][0] <= seq:
            self._waiting.popleft()[1](None)
