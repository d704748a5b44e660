"""Streams in a running server: where they are stored, which accounts may have some, and when their logs are committed.

`StreamService.start` opens what is in the store directory; clients that come meanwhile wait in the backlog. At the end
of every tick the server calls `commit`, before it writes what goes out. `stop` leaves everything so that it is opened
quickly the next time.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidelog import API_LEVEL
from tidelog.base.duration import format_duration
from tidelog.base.errors import ConfigError, DiskLocked, StorageError
from tidelog.base.limits import (
    REQUESTS_WAITING,
    STREAM_MEMORY_FALLBACK,
    STREAM_STORAGE_FALLBACK,
    STREAM_WORK_THREADS,
)
from tidelog.base.work import Threads
from tidelog.broker.account import Account
from tidelog.broker.desk.desk import Desk, DeskSettings
from tidelog.broker.settings import GLOBAL_ACCOUNT, StreamLimits
from tidelog.disk.real import RealDisk
from tidelog.log.policy import STRICT, SyncPolicy
from tidelog.serve.cold_store import ColdStore
from tidelog.serve.options import JetStreamSettings, Options
from tidelog.stream.engine import Engine, EngineSettings, Recovery
from tidelog.stream.storage import read_policy
from tidelog.stream.surroundings import AccountLimits

if TYPE_CHECKING:
    from tidelog.serve.server import Server

DIRECTORY = "jetstream"  # below the store directory
LIMITS = (
    "max_ack_pending",
    "max_request_batch",
    "duplicate_window_ns",
    "max_batches_per_stream",
    "max_batches",
    "max_batch_messages",
    "max_batch_idle_ns",
)


class StreamService:
    """Of one server whose options ask for streams. Raises ConfigError if there is no place for them."""

    def __init__(self, server: Server, options: Options) -> None:
        self.server = server
        self.options = options
        self.log = server.log
        settings = options.jetstream
        if settings.store_dir:
            self.disk = RealDisk(store_in(settings.store_dir))
        else:
            self.log.warn("Temporary storage directory used, data could be lost on system reboot")
            self.disk = temporary_store()
        self.path = self.disk.root
        self.ready = False
        self.worker = Threads(STREAM_WORK_THREADS, self.work_done)
        self.state_worker = Threads(1, self.work_done)
        broker = server.broker
        self.cold = ColdStore(settings.cold, self.path, self.work_done) if settings.cold.enabled else None
        self.settings = engine_settings(settings, self.disk, self.cold)
        self.engine = Engine(
            self.disk,
            server.clock,
            self.worker,
            broker.timers,
            broker.chance,
            self.log,
            self.settings,
            self.state_worker,
        )
        self.engine.wake = server.wake
        self.desk = Desk(self.engine, server.clock, desk_settings(options, server.server_id))
        for account in broker.accounts():
            self.open_account(account)

    def open_account(self, account: Account) -> None:
        limits = stream_limits(account, self.options)
        is_system = account.name == self.options.broker.system_account
        self.desk.open(account, limits, is_system=is_system)

    async def start(self) -> None:
        """Open what is stored, in a thread: nobody else touches streams before this is done."""
        start_ns = self.begin()
        # What is opened sets timers, in a thread from which the loop must not be touched.
        timers = self.server.broker.timers
        timers.on_earlier = None
        try:
            recovery = await asyncio.to_thread(self.engine.recover)
        except StorageError as error:
            raise self.refused(error) from error
        finally:
            timers.on_earlier = self.server.arm_timer
            self.server.arm_timer()
        self.opened(recovery, start_ns)

    def start_at_once(self) -> None:
        """The same, while everybody waits."""
        start_ns = self.begin()
        try:
            recovery = self.engine.recover()
        except StorageError as error:
            raise self.refused(error) from error
        self.opened(recovery, start_ns)

    def begin(self) -> int:
        self.log.info("Starting JetStream")
        self.tell_settings()
        return time.monotonic_ns()

    def refused(self, error: StorageError) -> ConfigError:
        self.stop_workers()
        return ConfigError(f"Can't start JetStream: {error}")

    def opened(self, recovery: Recovery, start_ns: int) -> None:
        self.ready = True
        self.deliver()
        if recovery.streams:
            self.log.info(f"  Restored {recovery.streams} streams")
        self.log.info(f"Took {format_duration(time.monotonic_ns() - start_ns)} to start JetStream")

    def reload(self, options: Options) -> None:
        """Go on by other options, after the broker does."""
        self.options = options
        settings = options.jetstream
        self.settings = engine_settings(settings, self.disk, self.cold)
        self.engine.settings = replace(self.engine.settings, **limits_of(settings))
        self.engine.set_room(self.settings.max_memory_size, self.settings.max_file_size)
        self.desk.settings = desk_settings(options, self.server.server_id)
        accounts = {account.name: account for account in self.server.broker.accounts()}
        for name, there in list(self.desk.accounts.items()):
            account = accounts.get(name)
            limits = stream_limits(account, options) if account is not None else None
            if account is not there.account or (there.streams is None) != (limits is None):
                self.desk.close(name)
            elif there.streams is not None and limits is not None:
                there.streams.set_limits(limits)
        for name in accounts.keys() - self.desk.accounts.keys():
            self.open_account(accounts[name])
            if self.desk.accounts[name].streams is not None:
                self.engine.open_streams(name)
        self.engine.find_origins()

    def tell_settings(self) -> None:
        log, settings = self.log, self.settings
        log.info("---------------- JETSTREAM ----------------")
        log.info("  Strict:          " + str(self.desk.settings.strict).lower())
        log.info(f"  Max Memory:      {friendly_size(settings.max_memory_size)}")
        log.info(f"  Max Storage:     {friendly_size(settings.max_file_size)}")
        log.info(f'  Store Directory: "{self.path}"')
        if self.cold is not None:
            log.info(f'  Cold Tier:       "{self.cold.url}"')
        if settings.domain:
            log.info(f"  Domain:          {settings.domain}")
        log.info(f"  API Level:       {API_LEVEL}")
        log.info("-------------------------------------------")

    # ---- the tick ----

    def commit(self) -> None:
        if self.ready:
            self.engine.commit()

    @property
    def unfinished(self) -> bool:
        """Whether there is more to do in the next tick."""
        return self.ready and self.engine.unfinished

    def work_done(self) -> None:
        """In a thread of the worker: answers wait."""
        self.server.loop.call_soon_threadsafe(self.deliver)

    def deliver(self) -> None:
        if self.ready:
            self.worker.deliver()
            self.state_worker.deliver()
            if self.cold is not None:
                self.cold.deliver()

    # ---- the end ----

    def stop(self) -> None:
        """Close all streams, and answer nobody any more."""
        self.log.info("Initiating JetStream Shutdown...")
        while self.engine.changing and self.worker.under_way:
            # Who asked for that is told yet.
            self.worker.deliver(None)
        self.engine.close()
        self.drain()
        if self.cold is not None:
            self.cold.end()
        self.ready = False
        for account in self.desk.accounts.values():
            account.close()
        self.stop_workers()
        self.log.info("JetStream Shutdown")

    def drain(self) -> None:
        """Wait for what is under way in the background."""
        workers = (self.worker, self.state_worker)
        while any(worker.under_way for worker in workers):
            for worker in workers:
                worker.deliver(None)

    def stop_workers(self) -> None:
        self.worker.stop()
        self.state_worker.stop()


def temporary_store() -> RealDisk:
    """Where streams are stored if nobody has said where. Another server that nobody has told is not in the way."""
    import tempfile  # takes its time

    above = os.path.join(tempfile.gettempdir(), "nats")
    disk = RealDisk(store_in(above))
    try:
        disk.lock()
    except DiskLocked:
        disk = RealDisk(tempfile.mkdtemp(prefix=f"{DIRECTORY}.", dir=above))
    return disk


def store_in(directory: str) -> str:
    """The place for streams in a directory. Raises ConfigError with the peer's words."""
    path = os.path.join(directory, DIRECTORY)
    for existing in (directory, path):
        if os.path.exists(existing) and not os.path.isdir(existing):
            raise ConfigError("Can't start JetStream: storage directory is not a directory")
    try:
        os.makedirs(path, 0o750, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = error.filename or path
        raise ConfigError(
            f"Can't start JetStream: could not create storage directory - mkdir {where}: {reason}"
        ) from error
    return path


def engine_settings(settings: JetStreamSettings, disk: RealDisk, cold: ColdStore | None) -> EngineSettings:
    """With what the machine has where the configuration says nothing."""
    memory, storage = settings.max_memory_size, settings.max_file_size
    return EngineSettings(
        policy=sync_policy(settings),
        max_memory_size=memory if memory >= 0 else machine_memory(),
        max_file_size=storage if storage >= 0 else disk_room(disk),
        domain=settings.domain,
        **limits_of(settings),
        cold=cold.plan if cold is not None else None,
    )


def limits_of(settings: JetStreamSettings) -> dict[str, Any]:
    """What the engine calls as the configuration does."""
    return {name: getattr(settings, name) for name in LIMITS}


def sync_policy(settings: JetStreamSettings) -> SyncPolicy:
    """Strict, unless the configuration says otherwise."""
    if settings.sync:
        return read_policy(settings.sync)
    if settings.sync_always or not settings.sync_interval_s:
        return STRICT
    return SyncPolicy(on_commit=False, messages=0, interval_ns=round(settings.sync_interval_s * 1e9))


def machine_memory() -> int:
    """Three quarters of what the machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    except (OSError, ValueError):
        return STREAM_MEMORY_FALLBACK


def disk_room(disk: RealDisk) -> int:
    """Three quarters of what is free."""
    try:
        return disk.free_size() * 3 // 4
    except StorageError:
        return STREAM_STORAGE_FALLBACK


def desk_settings(options: Options, server_id: str) -> DeskSettings:
    return DeskSettings(
        server_name=options.server_name or server_id,
        server_id=server_id,
        domain=options.jetstream.domain,
        strict=options.jetstream.strict,
        request_queue_limit=options.jetstream.request_queue_limit or REQUESTS_WAITING,
    )


def stream_limits(account: Account, options: Options) -> AccountLimits | None:
    """What an account may have. Without accounts in the configuration everybody is in the global one, which may."""
    asked = account.settings.streams
    if asked is None:
        names = {one.name for one in options.broker.accounts}
        alone = not names - {GLOBAL_ACCOUNT, options.broker.system_account}
        if account.name != GLOBAL_ACCOUNT or not alone:
            return None
        asked = StreamLimits()
    return AccountLimits(
        max_memory=asked.max_memory,
        max_storage=asked.max_storage,
        max_streams=asked.max_streams,
        max_consumers=asked.max_consumers,
        max_ack_pending=asked.max_ack_pending,
        memory_max_stream_bytes=asked.memory_max_stream_bytes,
        storage_max_stream_bytes=asked.storage_max_stream_bytes,
        max_bytes_required=asked.max_bytes_required,
    )


def friendly_size(size: int) -> str:
    """As people read it."""
    for power, unit in ((40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.2f} {unit}"
    return f"{size} B"
