"""All streams of a server: who has which, what they may take, and when their logs are committed.

    engine = Engine(disk, clock, worker, timers, chance, log, settings)
    account = engine.open_account("$G", interest, limits)
    engine.recover()                       opens the streams that are on the disk, side by side
    engine.commit()                        at the end of every tick; `engine.wake` says that there is something
    engine.close()

Promises
  * ENGINE-1: a stream that was made is there after a restart, with its configuration; one that was deleted is not.
  * ENGINE-2: a stream that cannot be opened is told of, left as it is, and holds up no other.
  * Each log in which something came is committed once per tick. One timer serves all logs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import msgspec

from tidelog.base.chance import Chance
from tidelog.base.clock import Clock
from tidelog.base.errors import StorageError
from tidelog.base.limits import EXCEEDED_TOLD_NS, OPENING_THREADS
from tidelog.base.timer import Timer, Timers
from tidelog.base.work import Worker, attempt
from tidelog.disk.disk import Disk
from tidelog.log.log import Log
from tidelog.log.policy import STRICT, SyncPolicy
from tidelog.log.recover import Findings, open_log
from tidelog.log.settings import LogSettings
from tidelog.stream.account import AccountStreams
from tidelog.stream.budget import Budget
from tidelog.stream.catalog import LOG, Catalog, Meta, directory_name
from tidelog.stream.change import Names
from tidelog.stream.consumer_store import ConsumerStore
from tidelog.stream.parcel import Staged
from tidelog.stream.storage import log_settings
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamConfig, StreamSource
from tidelog.stream.surroundings import AccountLimits, ServerLimits
from tidelog.stream.tick import Tick
from tidelog.stream.tiering import TieringPlan
from tidelog.subject.interest import Interest

NO_BOUND = 2**63 - 1


class Voice(Protocol):
    """What the engine says to the operator."""

    def info(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...


class Unfinished(Protocol):
    """Work that is done a piece per tick."""

    def step(self) -> bool:
        """Whether that was all."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """-1: no limit."""

    policy: SyncPolicy = STRICT  # of file streams that do not say themselves
    max_memory_size: int = -1
    max_file_size: int = -1
    domain: str = ""
    # The `limits` of the configuration; 0: no limit, or of batches the usual one.
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window_ns: int = 0
    max_batches_per_stream: int = 0
    max_batches: int = 0
    max_batch_messages: int = 0
    max_batch_idle_ns: int = 0
    cold: TieringPlan | None = None  # None: there is no cold tier


@dataclass
class Recovery:
    """What `recover` has found, for people."""

    streams: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # directory -> why it was not opened
    notes: list[str] = field(default_factory=list)


class Engine:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        worker: Worker,
        timers: Timers,
        chance: Chance,
        log: Voice,
        settings: EngineSettings | None = None,
        state_worker: Worker | None = None,
    ) -> None:
        """`state_worker`: writes what consumers keep, and has nothing else to do; without one, `worker` does."""
        self.disk = disk
        self.clock = clock
        self.worker = worker
        self.state_worker = state_worker if state_worker is not None else worker
        self.timers = timers
        self.chance = chance
        self.log = log
        self.settings = settings if settings is not None else EngineSettings()
        self.catalog = Catalog(disk)
        self.tick = Tick(clock)
        self.memory = Budget(self.settings.max_memory_size)
        self.file = Budget(self.settings.max_file_size)
        self.staged = Staged()
        self.consumer_store = ConsumerStore(self)
        self.names = Names(disk, worker)
        self.accounts: dict[str, AccountStreams] = {}
        # Which account a mirror or a source of an account means, if it can be reached from there.
        self.reach: Callable[[str, StreamSource], AccountStreams | None] | None = None
        self.on_full: Callable[[Stream], None] | None = None  # told when the disk has no room for a stream
        self.failures: dict[str, str] = {}  # directories of streams that were not opened, and why
        self._exceeded_ns: dict[str, int] = {}  # when that was told, by kind of storage
        self._unfinished: list[Unfinished] = []
        self._due: list[tuple[int, int, Stream]] = []
        self._order = 0
        self._timer: Timer | None = None

    @property
    def wake(self) -> Callable[[], None] | None:
        """Called when the first stream of a tick has something to commit."""
        return self.tick.wake

    @wake.setter
    def wake(self, wake: Callable[[], None] | None) -> None:
        self.tick.wake = wake

    def open_account(
        self, name: str, interest: Interest, limits: AccountLimits | None = None
    ) -> AccountStreams:
        """The streams of an account that may have some."""
        account = AccountStreams(self, name, interest, limits if limits is not None else AccountLimits())
        self.accounts[name] = account
        return account

    def tell_exceeded(self, storage: str) -> None:
        """A message was refused because all streams together have as much as they may; not told of every one."""
        now_ns = self.clock.monotonic_ns()
        told_ns = self._exceeded_ns.get(storage)
        if told_ns is None or now_ns - told_ns >= EXCEEDED_TOLD_NS:
            self._exceeded_ns[storage] = now_ns
            self.log.warn(f"JetStream {storage} resource limits exceeded for server")

    def close_account(self, name: str) -> None:
        """The account has no streams any more; what is in files stays there."""
        self.commit()
        self.accounts.pop(name).close()
        for path in [path for path in self.failures if path.startswith(f"{directory_name(name)}/")]:
            del self.failures[path]

    def set_room(self, max_memory_size: int, max_file_size: int) -> None:
        """What all streams together may take, from now on."""
        self.settings = replace(self.settings, max_memory_size=max_memory_size, max_file_size=max_file_size)
        self.memory.limit, self.file.limit = max_memory_size, max_file_size

    @property
    def server_limits(self) -> ServerLimits:
        """What this server has to give."""
        settings = self.settings
        return ServerLimits(
            max_memory=settings.max_memory_size if settings.max_memory_size >= 0 else NO_BOUND,
            max_storage=settings.max_file_size if settings.max_file_size >= 0 else NO_BOUND,
            max_ack_pending=settings.max_ack_pending,
            max_request_batch=settings.max_request_batch,
            duplicate_window=settings.duplicate_window_ns,
        )

    def streams(self) -> list[Stream]:
        return [stream for account in self.accounts.values() for stream in account.streams.values()]

    def followers(self) -> list[Stream]:
        """Streams that take over what others have."""
        return [stream for account in self.accounts.values() for stream in account.followers.values()]

    @property
    def changing(self) -> bool:
        """Whether a stream or a consumer is being made, changed or deleted."""
        return any(account.changes.busy for account in self.accounts.values())

    def find_origins(self) -> None:
        """Which streams can be reached from which accounts has changed."""
        for follower in self.followers():
            if follower.feeds is not None and not follower.stopped:
                follower.feeds.find_again()

    # ---- the end of a tick, and time ----

    def commit(self) -> None:
        """Commit every log in which something came."""
        # An answer may itself be stored by a stream, whose turn then comes in the next round.
        while waiting := self.tick.take():
            waiting.reverse()
            try:
                while waiting:
                    stream = waiting.pop()
                    stream.commit()
                    self.schedule(stream)
            finally:
                # Whatever one of them does, the others have their turn.
                for stream in waiting:
                    self.tick.touch(stream)
        if self._unfinished:
            self._go_on()

    @property
    def unfinished(self) -> bool:
        """Whether something waits for the end of another tick."""
        return bool(self._unfinished) or self.tick.is_waiting()

    def later(self, work: Unfinished) -> None:
        """Go on with this at the end of this tick, and of as many as it takes."""
        self._unfinished.append(work)
        if self.wake is not None:
            self.wake()

    def _go_on(self) -> None:
        unfinished, self._unfinished = self._unfinished, []
        unfinished.reverse()
        try:
            while unfinished:
                work = unfinished.pop()
                if not work.step():
                    self.later(work)
        finally:
            self._unfinished += unfinished

    def schedule(self, stream: Stream) -> None:
        """See to it that the log of a stream is looked at when something is due."""
        if stream.stopped:
            return
        due_ns = stream.log.next_due_ns()
        if due_ns is None or (stream.due_ns and stream.due_ns <= due_ns):
            return
        stream.due_ns = due_ns
        self._order += 1
        heapq.heappush(self._due, (due_ns, self._order, stream))
        if self._timer is None or due_ns < self._timer.due_ns:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.timers.at(self._due[0][0], self._run_due) if self._due else None

    def _run_due(self) -> None:
        """Let time pass for the logs in which something is due."""
        self._timer = None
        now_ns = self.clock.monotonic_ns()
        ready = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, stream = heapq.heappop(self._due)
            if stream.due_ns == due_ns:
                stream.due_ns = 0
                ready.append(stream)
        for stream in ready:
            if not stream.stopped:
                stream.pass_time()
                self.schedule(stream)
        self._arm()

    # ---- opening and closing ----

    def open_stream_log(
        self,
        path: str,
        config: StreamConfig,
        account: str,
        disk: Disk | None = None,
        *,
        sync_names: bool = True,
    ) -> tuple[Log, Findings]:
        log, findings = open_log(
            disk if disk is not None else self.disk,
            path,
            self.settings_of(config, account),
            self.clock,
            self.worker,
            sync_names=sync_names,
        )
        if config.first_seq > 1 and log.store.last_seq == 0:
            # Of a new one; or a crash came before that was safe.
            log.skip_to(config.first_seq)
            log.commit()
        return log, findings

    def settings_of(self, config: StreamConfig, account: str) -> LogSettings:
        """Of the log of a stream. Raises ConfigError."""
        return log_settings(config, self.settings.policy, account, self.settings.cold)

    def recover(self) -> Recovery:
        """Open what is on the disk, which is ours alone from now on."""
        self.disk.lock()
        return self.open_streams()

    def open_streams(self, only: str | None = None) -> Recovery:
        """The streams of all accounts, or of one that has come later."""
        recovery = Recovery()
        found: list[tuple[str, Meta, StreamConfig]] = []
        for path in list(self.catalog.directories()):
            try:
                meta = self.catalog.read(path)
                if meta is None:
                    self.catalog.sweep(path)
                elif only in (None, meta.account):
                    found.append((path, meta, msgspec.json.decode(meta.config, type=StreamConfig)))
            except (StorageError, msgspec.MsgspecError) as error:
                self._give_up(recovery, path, str(error))
        with ThreadPoolExecutor(OPENING_THREADS, "tidelog-open") as pool:
            jobs = [
                partial(self.open_stream_log, f"{path}/{LOG}", config, meta.account)
                for path, meta, config in found
            ]
            opened = list(pool.map(attempt, jobs))
        for (path, meta, config), (answer, trouble) in zip(found, opened, strict=True):
            if answer is None:
                self._give_up(recovery, path, str(trouble))
                continue
            log, findings = answer
            recovery.notes += findings.notes
            account = self.accounts.get(meta.account)
            if account is None:
                log.close()
                self._give_up(recovery, path, f"there is no account {meta.account!r} that may have streams")
            elif meta.name in account.streams or meta.name != config.name:
                log.close()
                self._give_up(recovery, path, f"a stream {meta.name!r} of {meta.account} is here already")
            else:
                account.adopt(config, log, meta.created_ns, path)
                recovery.streams += 1
        self.failures |= recovery.failures
        for note in recovery.notes:
            self.log.warn(note)
        return recovery

    def _give_up(self, recovery: Recovery, path: str, why: str) -> None:
        recovery.failures[path] = why
        self.log.error(f"The stream in {path} is not opened: {why}")

    def close(self) -> None:
        """Stop all streams, and leave their logs so that they are opened quickly."""
        self.commit()
        self.consumer_store.close()
        for account in self.accounts.values():
            account.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.disk.unlock()
