# cython: wraparound=True
"""THE CONTRACT: what a log is to everybody outside this room.

A log is an append-only sequence of messages `(seq, ts, subject, header, payload)` on a disk, with an index over all
subjects. Sequences start at 1, only grow, and are never given out twice.

    log = recover.open_log(disk, "orders", settings, clock, worker)

    log.append(subject, payload, header) -> seq     in memory now; readers see it when it is committed
    log.commit()                                    at the end of a tick: one write, and a sync if the policy asks
    log.wait(seq, callback)                         called, in order, once the ack level of the policy covers `seq`
    log.on_commit, log.on_failure                   called when the horizon has moved, and when nothing is taken any more
    log.on_idle                                     called when work in the background has ended: there may be more
    log.on_expiry                                   asked about each message that is too old; True: it was seen to
    log.remove(seq), log.purge(...)                 delete; said in the log with the next commit
    log.wait_deleted(callback)                      called once the ack level of the policy covers what was deleted
    log.tick()                                      lets time pass: syncs, ages, expires, tries a full disk again
    log.next_due_ns()                               when `tick` is wanted next, in monotonic time

    log.get(seq), log.next(filter, seq), log.previous(filter, seq), log.count(filter, seq)
    log.reader(...)                                 a cursor, in either direction (log.read)
    log.follow(filter, callback)                    who wants to hear of what is committed (log.horizon)
    log.state(), log.configure(settings), log.close()

Promises, beside those of `store`, `commit` and `read`
  * APPEND-1: a message that is refused leaves no trace. Limits are arithmetic on figures that are always there.
  * APPEND-2: when the disk is full, what was accepted waits and is written when there is room; what comes is refused.
    Any other failed write, and every failed sync, is final: the log reads on and takes nothing any more.
  * The caller owns the thread. Only jobs given to the worker run elsewhere, and they touch no state.
  * One process at a time has the disk: opening locks it, until `disk.unlock()` or the end of the process.

What it does not do: know what a stream is, or look into headers and payloads.
"""

from collections import OrderedDict
from collections.abc import Callable

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from tidelog.base import limits
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.log.bound import LimitReached  # what `append` raises
from tidelog.log.bound cimport Bounds
from tidelog.log.tail cimport Run
from tidelog.log.commit import Committer
from tidelog.log.compact import check_keys
from tidelog.log.filter cimport Filter
from tidelog.log.horizon cimport Follower, Horizon
from tidelog.log.index cimport Selection
from tidelog.log.policy import AckLevel
from tidelog.log.room import FULL, write
from tidelog.log.read cimport Reader, message_of
from tidelog.log.record cimport FOREVER, Head, encoded_size, expiry_of
from tidelog.log.state import LogState

cdef Py_ssize_t SELECTIONS = limits.SELECTIONS_KEPT
cdef Py_ssize_t PER_TICK = limits.RETENTION_PER_TICK
cdef uint64_t NO_BOUND = <uint64_t>-1


class LogRefused(StorageError):
    """The log takes nothing now; the text says why, and whether that may end."""


class Start:
    """Where a reader begins when it is not told a sequence or a time."""

    FIRST = "first"
    LAST = "last"
    NEW = "new"


cdef class Log:
    def __init__(self, Store store not None, settings, clock, worker, expiries, ceiling, keeper) -> None:
        self.store = store
        self.disk = store.disk
        self.settings = settings
        self.clock = clock
        self.worker = worker
        self.ceiling = ceiling
        self.keeper = keeper
        self.horizon = Horizon(store.last_seq)
        self.expiries = expiries
        self.selections = OrderedDict()
        self.committer = Committer(
            settings.policy, clock, worker, self.committed, self.fail, self.doubt, store.last_seq
        )
        self.ceiling_seq = NO_BOUND
        self.deleting = []
        self.take_limits()

    # ---- writing ----

    cdef uint64_t append_raw(
        self, const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size, int64_t ts_ns, int64_t expiry_ns,
    ) except 0:
        """Append a message of the time `ts_ns` (0: now). Returns its sequence."""
        cdef uint64_t seq
        if self.refusal is not None or self.closed:
            raise LogRefused(str(self.refusal or "the log is closed"))
        if self.bounds.any:
            self.bounds.check(
                subject, subject_size, encoded_size(subject_size, header_size, payload_size, expiry_ns != 0)
            )
        if ts_ns == 0:
            ts_ns = self.clock.now_ns()
        try:
            if self.store.last_seq >= self.ceiling_seq:
                self.raise_ceiling()
            self.store.append(
                ts_ns, expiry_ns, subject, subject_size, header, header_size, payload, payload_size
            )
        except DiskFailed as error:
            # There is no place for the next segment, or no word for what it may be given.
            raise self.refuse(error, "another segment could not be begun") from error
        seq = self.store.last_seq
        if self.horizon.watched:
            self.horizon.note(
                self.store.slot, self.store.index.lists.size(self.store.slot) == 1, subject, subject_size
            )
        if expiry_ns:
            self.expiries.add(expiry_ns, seq)
        if self.bounds.any:
            self.enforce_limits()
        return seq

    def append(
        self, bytes subject not None, bytes payload not None, bytes header not None=b"", int64_t ts_ns=0, int64_t expiry_ns=0
    ) -> int:
        return self.append_raw(
            PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header),
            PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), ts_ns, expiry_ns,
        )

    cdef uint64_t pass_over(self, const char* subject, Py_ssize_t subject_size) except 0:
        """Give a sequence to a message that nobody wants: it was there, and is deleted. Returns the sequence."""
        if self.refusal is not None:
            raise LogRefused(str(self.refusal))
        if self.store.last_seq >= self.ceiling_seq:
            self.raise_ceiling()
        self.store.append(self.clock.now_ns(), 0, subject, subject_size, NULL, 0, NULL, 0)
        self.store.remove(self.store.last_seq)
        return self.store.last_seq

    def skip_to(self, uint64_t next_seq) -> None:
        """The next message gets at least this sequence."""
        if self.refusal is not None or self.closed:
            raise LogRefused(str(self.refusal or "the log is closed"))
        self.store.skip_to(next_seq)

    def commit(self) -> None:
        """Write what has come since the last commit, in one go. At the end of every tick in which something came."""
        if self.failure is not None or self.closed:
            return
        try:
            size = write(self.store, self.keeper)
        except StorageError as error:
            if not isinstance(error, DiskFailed) or error.errno not in FULL:
                self.committer.fail(StorageError(f"what was accepted could not be written: {error}"))
            else:
                self.refuse(error, "")
            return
        self.refusal = None
        if self.store.has_rolled():
            # Nothing in a new segment is safe before its name is.
            self.committer.renamed(self.keeper.sync_names)
        if size:
            self.horizon.wrote(self.store.last_seq)
            self.committer.wrote(self.store.last_seq, size, self.store.files_written())
        self.keeper.after_commit(self)
        self.answer_deletes(None)

    def wait(self, uint64_t seq, callback: Callable[[StorageError | None], None]) -> None:
        self.committer.wait(seq, callback)

    def wait_deleted(self, callback: Callable[[StorageError | None], None]) -> None:
        """Call back when what was deleted until now is said in the log, at the policy's ack level; or of a failure.

        After that it does not come back, whatever the level is a promise against. What a full disk does not take waits.
        """
        self.deleting.append(callback)
        if self.failure is not None:
            self.answer_deletes(self.failure)

    def answer_deletes(self, failure) -> None:
        """Everything is written, or nothing will be."""
        if self.deleting:
            waiting, self.deleting = self.deleting, []
            for callback in waiting:
                if failure is None:
                    self.committer.when_covered(callback)
                else:
                    callback(failure)

    def tick(self) -> None:
        """Let time pass."""
        if self.failure is not None or self.closed:
            return
        if self.refusal is not None:
            self.commit()
        self.expire()
        self.committer.tick()
        self.keeper.tick(self)

    def next_due_ns(self) -> int | None:
        """When `tick` has something to do, in monotonic time; None: nothing is waiting."""
        cdef Head* head
        now_ns, monotonic_ns = self.clock.now_ns(), self.clock.monotonic_ns()
        dues = [self.committer.next_due_ns(), self.keeper.next_due_ns(self)]
        if self.refusal is not None:
            dues.append(monotonic_ns + limits.FULL_DISK_RETRY_NS)
        walls = [self.expiries.next_due_ns()]
        if self.refusal is not None and self.on_expiry is not None:
            walls = []
        elif self.settings.limits.max_age_ns:
            head = self.aging()
            if head != NULL:
                walls.append(head.ts_ns + self.settings.limits.max_age_ns)
        dues += [monotonic_ns + max(0, wall - now_ns) for wall in walls if wall is not None]
        return min((due for due in dues if due is not None), default=None)

    cdef object refuse(self, error, str what):
        """The disk has refused something that was not begun: a full one is tried again. Returns what to tell."""
        if error.errno not in FULL:
            return LogRefused(f"{what}: {error}")
        self.refusal = f"the disk is full ({error}); what was accepted waits, and new messages are taken when there is room again"
        self.keeper.make_room(self)
        return LogRefused(self.refusal)

    def committed(self) -> None:
        """The committer has moved."""
        self.horizon.committed_seq = self.committer.committed_seq
        if self.on_commit is not None:
            self.on_commit()
        self.horizon.wake()

    def fail(self, failure: StorageError) -> None:
        """Nothing is taken any more; what is committed can be read."""
        self.failure = failure
        self.refusal = failure
        self.doubt()
        if self.on_failure is not None:
            self.on_failure(failure)
        self.answer_deletes(failure)

    def doubt(self) -> None:
        """A sync of what was given out has failed. Any thread may say so, and at once: the process may end."""
        if self.ceiling is not None:
            try:
                self.ceiling.distrust()
            except DiskFailed as error:
                self.keeper.trouble(error)

    def raise_ceiling(self) -> None:
        self.ceiling_seq = self.ceiling.raise_beyond(self.store.last_seq)

    # ---- limits ----

    def take_limits(self) -> None:
        self.bounds = Bounds(self.store, self.settings)
        if self.ceiling is not None and self.settings.policy.ack is AckLevel.WRITTEN:
            self.ceiling_seq = self.ceiling.seq
        else:
            # Nobody sees a sequence before it is synced, so none that is lost was ever known.
            self.ceiling_seq = NO_BOUND

    cpdef uint64_t counted_size(self) noexcept:
        """Bytes of all messages, as limits and figures count them."""
        return self.bounds.counted_size()

    def expire(self) -> None:
        """Remove what is too old, a bounded number at a time."""
        cdef Py_ssize_t left = PER_TICK
        cdef Head* head
        now_ns = self.clock.now_ns()
        try:
            due = self.expiries.take_due(now_ns, left)
            for at, seq in enumerate(due):
                try:
                    self.let_go(seq)
                except StorageError:
                    for seq in due[at:]:
                        self.expiries.add(now_ns, seq)
                    raise
                left -= 1
            oldest_ns = now_ns - self.settings.limits.max_age_ns
            while self.settings.limits.max_age_ns and left:
                head = self.aging()
                if head == NULL or head.ts_ns > oldest_ns:
                    break
                self.let_go(head.seq)
                left -= 1
        except StorageError as error:
            self.keeper.trouble(error)
        if left != PER_TICK:
            self.commit()

    def let_go(self, uint64_t seq) -> None:
        """A message is too old."""
        if self.store.absent(seq) or (self.on_expiry is not None and self.on_expiry(seq)):
            return
        self.store.remove(seq)

    cdef Head* aging(self) except? NULL:
        """The oldest message that is not kept for ever; NULL: there is none."""
        cdef Store store = self.store
        cdef uint64_t seq = max(self.aging_seq, store.first_seq)
        cdef Run run
        cdef Py_ssize_t at
        while (seq := store.present_from(seq)) <= store.last_seq:
            run = store.near_heads(seq, limits.READ_AHEAD_SIZE)
            at = run.at_least(seq) if run is not None else 0
            if run is None or at == run.count or run.head(at).seq != seq:
                store.lose(seq)
            elif expiry_of(run.head(at)) != FOREVER:
                break
            seq += 1
        self.aging_seq = seq
        return run.head(at) if seq <= store.last_seq else NULL

    # ---- deleting ----

    def remove(self, uint64_t seq, bint erase=False) -> bool:
        """Delete a message; tells whether there was one. `erase`: overwrite its bytes, as soon as it is gone for certain."""
        self.check_taken()
        if erase and self.keeper.ferry.has_sent(seq) and not self.store.absent(seq):
            raise LogRefused(
                f"message {seq} is in the cold tier, where nothing is overwritten: delete it without erasing (no_erase)"
            )
        return (self.store.remove_for_good(seq) if erase else self.store.remove(seq)) > 0

    def purge(self, Filter filter=None, *, before_seq=None, int keep=0) -> int:
        """Delete what matches: all, those before a sequence, or all but the newest `keep`. Returns how many."""
        cdef uint64_t seq, end_seq = self.store.last_seq + 1 if before_seq is None else before_seq
        cdef uint64_t count = self.store.count
        self.check_taken()
        filter = Filter() if filter is None else filter
        if keep:
            newest = self.seqs_back(filter, end_seq - 1, keep)
            if len(newest) < keep:
                return 0
            end_seq = min(end_seq, newest[-1])
        if filter.everything:
            while self.store.count and self.store.first_seq < end_seq:
                self.store.remove(self.store.first_seq)
        else:
            selection = Selection(self.store.index, filter)
            seq = self.store.first_seq
            while end_seq and (seq := (<Selection>selection).next(seq, end_seq - 1)):
                self.store.remove(seq)
                seq += 1
        return count - self.store.count

    cdef int check_taken(self) except -1:
        """Refuse what would never be written. Deleting goes on while the disk is full."""
        if self.failure is not None:
            raise LogRefused(str(self.failure))
        if self.closed:
            raise LogRefused("the log is closed")
        return 0

    def seqs_back(self, Filter filter not None, uint64_t seq, count: int) -> list:
        """Up to `count` matches, newest first, from `seq` down."""
        cdef Selection selection = Selection(self.store.index, filter)
        cdef list found = []
        while len(found) < count and seq and (seq := selection.previous(seq, self.store.first_seq)):
            if not self.store.absent(seq):
                found.append(seq)
            seq -= 1
        return found

    # ---- reading ----

    def get(self, uint64_t seq):
        """The committed message, or None: `fact` says why."""
        return self.peek(seq) if seq <= self.horizon.committed_seq else None

    def peek(self, uint64_t seq):
        """The same, committed or not: for those who decide what is stored next."""
        cdef Py_ssize_t at = 0
        cdef Run run = self.store.hold(seq, &at)
        return message_of(run.head(at)) if run is not None else None

    def when_warm(self, callback: Callable[[], None]) -> None:
        """Call back, once, when something has come back that was awaited. Then ask again; it may be something else."""
        self.keeper.ferry.fetcher.waiting[callback] = None

    def leave_warm(self, callback: Callable[[], None]) -> None:
        """Do not call back."""
        self.keeper.ferry.fetcher.waiting.pop(callback, None)

    def subject(self, uint64_t seq) -> bytes | None:
        """Of a message, which may be elsewhere; None: there is none."""
        return self.store.subject_of(seq)

    def fact(self, uint64_t seq) -> str:
        """What became of a sequence: `present`, `trimmed`, `deleted`, `lost` or `future`."""
        if seq > self.horizon.committed_seq:
            return "future"
        if self.store.lost.contains(seq):
            return "lost"
        if seq < self.store.first_seq:
            return "trimmed"
        return "deleted" if self.store.deleted.contains(seq) else "present"

    def next(self, Filter filter not None, uint64_t seq) -> int:
        """The oldest committed match from `seq` on; 0: there is none."""
        cdef Store store = self.store
        cdef uint64_t found = max(seq, store.first_seq), last_seq = self.horizon.committed_seq
        cdef Selection selection
        if filter.literal:
            found = store.index.next(filter, found)
            return found if found <= last_seq else 0
        if filter.everything:
            while found <= last_seq and store.absent(found):
                found = max(store.deleted.next_absent(found), store.lost.next_absent(found))
            return found if found <= last_seq else 0
        selection = self.selection(filter)
        while found <= last_seq:
            found = selection.next(found, last_seq)
            if found == 0 or not store.absent(found):
                return found
            found += 1
        return 0

    def previous(self, Filter filter not None, uint64_t seq) -> int:
        """The newest committed match down from `seq`; 0: there is none."""
        cdef Store store = self.store
        cdef uint64_t found = min(seq, self.horizon.committed_seq)
        cdef Selection selection
        if filter.literal:
            return store.index.previous(filter, found)
        if filter.everything:
            while found >= store.first_seq and store.absent(found):
                found = min(store.deleted.previous_absent(found), store.lost.previous_absent(found))
            return found if found >= store.first_seq else 0
        selection = self.selection(filter)
        while found >= store.first_seq:
            found = selection.previous(found, store.first_seq)
            if found == 0 or not store.absent(found):
                return found
            found -= 1
        return 0

    def selection(self, Filter filter not None) -> Selection:
        """The window of a filter that is asked for from outside; the last few are kept."""
        if self.asked is not None and self.asked.filter is filter:
            return self.asked
        found = self.selections.get(filter)
        if found is None:
            found = self.selections[filter] = Selection(self.store.index, filter)
            if len(self.selections) > SELECTIONS:
                self.selections.popitem(last=False)
        else:
            self.selections.move_to_end(filter)
        self.asked = found
        return found

    def count(self, Filter filter not None, uint64_t seq=1) -> int:
        """How many committed matches there are from `seq` on."""
        cdef uint64_t end_seq = self.horizon.committed_seq + 1
        if seq >= end_seq:
            return 0
        return self.store.index.count_from(filter, seq) - self.store.index.count_from(filter, end_seq)

    def last_per_subject(self, Filter filter not None, last_seq=None) -> list:
        """The newest committed message of every subject that matches, oldest first."""
        bound = self.horizon.committed_seq if last_seq is None else min(last_seq, self.horizon.committed_seq)
        return self.store.index.last_per_subject(filter, bound)

    def subjects(self, Filter filter not None) -> list:
        """`(subject, count, first, last)` in the order of bytes; as `state`, with what is not committed yet."""
        return self.store.index.subjects(filter)

    def seq_at_time(self, int64_t ts_ns) -> int:
        """The oldest message that is not older than `ts_ns`, committed or not; behind the last one, if all are."""
        return self.store.seq_at_time(ts_ns)

    def follow(self, Filter filter not None, callback) -> Follower:
        """Somebody who wants to hear of messages that match (log.horizon)."""
        return Follower(self.horizon, filter, callback, self.store.last_seq)

    def reader(
        self, Filter filter=None, *, start=None, start_seq=None, start_ts_ns=None, bint backward=False,
        stop_seq=None, stop_ts_ns=None, limit=None, bint strict=False,
    ) -> Reader:
        """A cursor: at a sequence, at a time, or at a `Start`, which is the oldest message, backwards the newest one.

        A start beyond the newest message waits for it; `Start.NEW` means what is committed from now on. Stops are inclusive.
        """
        cdef uint64_t seq
        if start not in (None, Start.FIRST, Start.LAST, Start.NEW):
            raise ValueError(f"a reader starts at 'first', 'last' or 'new', not at {start!r}")
        if backward:
            if start in (Start.FIRST, Start.NEW):
                raise ValueError("a reader that goes backwards starts at the last message, at a sequence or at a time")
            if stop_ts_ns is not None and start_ts_ns is not None and stop_ts_ns > start_ts_ns:
                raise ValueError("backwards, the time to stop at must not be behind the one to start at")
            seq = self.horizon.committed_seq
            if start_seq is not None:
                seq = start_seq
            elif start_ts_ns is not None:
                seq = self.seq_at_time(start_ts_ns + 1) - 1
            if stop_seq is not None and stop_seq > seq and start_seq is not None:
                raise ValueError(f"backwards from {seq} there is no {stop_seq}: the stop must not be above the start")
        elif start_seq is not None:
            seq = start_seq
        elif start_ts_ns is not None:
            seq = self.seq_at_time(start_ts_ns)
        elif start == Start.NEW:
            seq = self.horizon.committed_seq + 1
        elif start == Start.LAST:
            seq = self.previous(Filter() if filter is None else filter, self.horizon.committed_seq)
            seq = seq if seq else self.horizon.committed_seq + 1
        else:
            seq = self.store.first_seq
        return Reader(
            self.store, self.horizon, Filter() if filter is None else filter, start_seq=max(seq, 0 if backward else 1),
            backward=backward, stop_seq=stop_seq, stop_ts_ns=stop_ts_ns, limit=limit, strict=strict,
        )

    # ---- the rest ----

    def first_ts_ns(self) -> int:
        """The time of the oldest message; 0: there is none."""
        cdef Run run
        if self.store.count == 0:
            return 0
        run = self.store.near_heads(self.store.first_seq, limits.READ_AHEAD_SIZE)
        if run is None or run.count == 0:
            return 0
        return run.head(min(run.at_least(self.store.first_seq), run.count - 1)).ts_ns

    def state(self) -> LogState:
        store = self.store
        return LogState(
            messages=store.count,
            size=self.counted_size(),
            first_seq=store.first_seq,
            last_seq=store.last_seq,
            committed_seq=self.horizon.committed_seq,
            synced_seq=self.committer.synced_seq,
            first_ts_ns=self.first_ts_ns(),
            last_ts_ns=store.last_ts_ns,
            subjects=store.index.tree.count,
            deleted=store.deleted.count,
            lost=tuple(store.lost.ranges()),
            segments=len(store.segments),
            refusal=str(self.refusal) if self.refusal is not None else "",
        )

    def configure(self, settings) -> None:
        """Go on with other settings."""
        settings.check()
        if settings.keys != self.settings.keys:
            check_keys(self.store, settings.keys)
        if self.ceiling is not None and settings.policy.ack is AckLevel.WRITTEN:
            # What is written and not synced is known outside from now on.
            self.ceiling.raise_beyond(self.store.last_seq)
        self.settings = settings
        self.store.set_sizes(settings.segment_size, settings.window_size)
        self.store.set_keys(settings.keys)
        self.keeper.opened(self)
        self.take_limits()
        self.committer.set_policy(settings.policy)
        if self.bounds.any and self.failure is None:
            self.trim_to_limits()
            self.commit()

    cdef int enforce_limits(self) except -1:
        """A message that cannot be read for that stays; it was not this one's fault."""
        try:
            self.bounds.enforce()
        except DiskFailed as error:
            self.keeper.trouble(error)
        return 0

    def trim_to_limits(self) -> None:
        for subject in self.bounds.beyond():
            self.purge(Filter(subject), keep=self.bounds.max_per_subject)
        try:
            self.bounds.enforce_total()
        except DiskFailed as error:
            self.keeper.trouble(error)

    def close(self) -> None:
        """Commit, sync, and leave a snapshot of the index, so that opening is quick.

        Work that is under way meanwhile does no harm, but may make the snapshot useless: let it end before.
        """
        if self.closed:
            return
        self.keeper.closing()
        self.commit()
        self.closed = True
        self.keeper.close(self)
        self.answer_deletes(LogRefused("the log was closed before what was deleted was written"))
