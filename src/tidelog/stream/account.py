"""The streams of one account: made, changed, found and deleted, within what the account may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tidelog.base.errors import ConfigError, StorageError
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.log.log import Log
from tidelog.log.policy import THROUGHPUT
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings
from tidelog.stream import failure
from tidelog.stream.advisory import CREATE, DELETE, MODIFY, Events
from tidelog.stream.archive import Description
from tidelog.stream.budget import Budget
from tidelog.stream.catalog import LOG
from tidelog.stream.change import Changes
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.consumer_set import ConsumerSet
from tidelog.stream.cursor_keeper import CursorKeeper
from tidelog.stream.direct import Direct
from tidelog.stream.failure import ApiFailure, expect
from tidelog.stream.gate import Gate
from tidelog.stream.post import Post
from tidelog.stream.storage import log_settings
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import MEMORY, StreamConfig, StreamSource
from tidelog.stream.surroundings import AccountLimits, ServerLimits
from tidelog.stream.tiering import check_cold
from tidelog.subject.interest import Interest
from tidelog.subject.pattern import overlaps

if TYPE_CHECKING:
    from tidelog.stream.engine import Engine

API_PREFIX = "$JS.API"
# Told what became of a change: the stream, or why it was refused.
Done = Callable[[Stream | ApiFailure], None]


class AccountStreams:
    def __init__(self, engine: Engine, name: str, interest: Interest, limits: AccountLimits) -> None:
        self.engine = engine
        self.name = name
        self.interest = interest
        self.memory = Budget(limits.max_memory, engine.memory)
        self.file = Budget(limits.max_storage, engine.file)
        self.limits = limits
        self.chance = engine.chance
        self.tick = engine.tick
        self.post = Post(interest, engine.chance)
        self.events = Events(self.post, engine.clock, engine.chance, engine.settings.domain, name)
        self.gate = Gate(interest)
        self.streams: dict[str, Stream] = {}
        self.directs: dict[str, Direct] = {}
        self.cursors: dict[str, CursorKeeper] = {}  # of streams that were asked for them
        self.followers: dict[str, Stream] = {}  # that take over what others have
        self.paths: dict[str, str] = {}  # of those that are in files
        self.changes = Changes(engine.worker, engine.names)
        self.closed = False

    def set_limits(self, limits: AccountLimits) -> None:
        """Other limits hold from now on; what is there stays."""
        self.limits = limits
        self.memory.limit = limits.max_memory
        self.file.limit = limits.max_storage

    def close(self) -> None:
        """Stop all streams, which are found again in their files."""
        self.closed = True
        for direct in self.directs.values():
            direct.listen(False)
        for keeper in self.cursors.values():
            keeper.stop()
        for stream in self.streams.values():
            self.tell_gone(stream)
            stream.stop()
        for budget in (self.memory, self.file):
            budget.give_back()

    def budget(self, storage: str) -> Budget:
        return self.memory if storage == MEMORY else self.file

    # ---- finding ----

    def find(self, name: str) -> Stream:
        stream = self.streams.get(name)
        if stream is None:
            raise failure.STREAM_NOT_FOUND()
        return stream

    def cursors_of(self, name: str) -> CursorKeeper:
        """Named positions of a stream; those of a stream in memory are in memory."""
        stream = self.find(name)
        keeper = self.cursors.get(name)
        if keeper is None:
            keeper = CursorKeeper(self.engine, stream.log.disk, self.paths.get(name, ""))
            self.cursors[name] = keeper
        return keeper

    def origin_of(self, source: StreamSource) -> Stream | None:
        """The stream that a mirror or a source means, here or in another account; None: there is no way to one."""
        external = source.external
        if external is None or external.api in ("", API_PREFIX):
            return self.streams.get(source.name)
        reach = self.engine.reach
        there = reach(self.name, source) if reach is not None else None
        return there.streams.get(source.name) if there is not None else None

    def names(self, subject: str = "") -> list[str]:
        """Of all streams, or of those that take messages on `subject`, which may have wildcards; sorted."""
        return sorted(
            name for name, stream in self.streams.items() if not subject or takes(stream.config, subject)
        )

    # ---- making, changing, deleting ----

    def create(self, config: StreamConfig, done: Done = expect, *, judged: bool = False) -> Stream:
        """Make a stream of a checked configuration. One that is there with the same one is answered as new.

        `done`: is told when it is there for good, and takes messages. `judged`: that there is room for it beside the
        others is known, too.
        """
        there = self.streams.get(config.name)
        if there is not None:
            if there.config != config:
                raise failure.STREAM_NAME_EXIST()
            done(there)
            return there
        if not judged:
            self.check_overlap(config)
            self.check_limits(config)
        try:
            self.engine.settings_of(config, self.name)
        except ConfigError as error:
            raise failure.STREAM_INVALID_CONFIG(err=str(error)) from None
        engine = self.engine
        created_ns = engine.clock.now_ns()
        path = ""
        try:
            if config.storage == MEMORY:
                log, _ = engine.open_stream_log(LOG, config, self.name, MemoryDisk())
            else:
                path = engine.catalog.begin(self.name, config.name)
                log, _ = engine.open_stream_log(f"{path}/{LOG}", config, self.name, sync_names=False)
        except StorageError as error:
            if path:
                self.sweep(path)
            raise failure.STREAM_CREATE(err=str(error)) from error
        stream = self.take_in(config, log, created_ns, path)
        if path:
            above = path.rpartition("/")[0]
            job = partial(
                engine.catalog.write_first,
                path,
                self.name,
                config.name,
                created_ns,
                msgspec.json.encode(config),
                is_first=above not in engine.catalog.certain,
            )
            self.changes.carry_out(config.name, job, partial(self.created, stream, done), above=above)
        else:
            self.created(stream, done, None)
        return stream

    def created(self, stream: Stream, done: Done, error: BaseException | None) -> None:
        """A new stream is on the disk, or could not be put there."""
        if self.closed:
            # It is found again by whoever opens the account the next time.
            stream.log.close()
            return
        path = self.paths.get(stream.name, "")
        if error is not None:
            self.drop(stream)
            self.sweep(path)
            done(failure.STREAM_CREATE(err=str(error)))
            return
        if path:
            self.engine.catalog.certain.add(path.rpartition("/")[0])
        self.open(stream)
        self.events.stream_action(stream.name, CREATE)
        done(stream)

    # ---- bringing one back ----

    def begin_restore(self, config: StreamConfig) -> tuple[Disk, str]:
        """Where the files of a stream that comes back are put; it does not exist before `restore`."""
        if config.storage == MEMORY:
            return MemoryDisk(), "restored"
        try:
            return self.engine.disk, self.engine.catalog.begin(self.name, config.name)
        except StorageError as error:
            raise failure.STREAM_RESTORE(err=str(error)) from error

    def restored_log(self, config: StreamConfig, disk: Disk, path: str) -> Log:
        """The log of a stream that comes back message by message: nothing of it may go before it is complete."""
        engine = self.engine
        plain = StreamConfig(name=config.name, storage=config.storage)
        settings = log_settings(plain, THROUGHPUT)
        return open_log(disk, f"{path}/{LOG}", settings, engine.clock, engine.worker, sync_names=False)[0]

    def restore(self, config: StreamConfig, about: Description, disk: Disk, path: str) -> Stream:
        """Its files are there: it exists from now on."""
        if config.name in self.streams:
            raise failure.STREAM_NAME_EXIST_RESTORE_FAILED()
        self.check_overlap(config)
        log, findings = self.engine.open_stream_log(f"{path}/{LOG}", config, self.name, disk)
        for note in findings.notes:
            self.engine.log.warn(note)
        if disk is self.engine.disk:
            document = msgspec.json.encode(config)
            self.engine.catalog.write_first(path, self.name, config.name, about.created_ns, document)
            self.engine.disk.sync_directory(path.rpartition("/")[0])
        stream = self.adopt(config, log, about.created_ns, path if disk is self.engine.disk else "")
        self.events.stream_action(config.name, CREATE)
        return stream

    def forget_restore(self, disk: Disk, path: str) -> None:
        """It does not come after all."""
        if disk is self.engine.disk:
            self.sweep(path)

    def adopt(self, config: StreamConfig, log: Log, created_ns: int, path: str) -> Stream:
        """Go on with a stream that is on the disk (`path`), or in memory."""
        stream = self.take_in(config, log, created_ns, path)
        self.open(stream)
        return stream

    def take_in(self, config: StreamConfig, log: Log, created_ns: int, path: str) -> Stream:
        """A stream that counts from now on, and takes nothing yet."""
        stream = Stream(self, config, log, created_ns)
        stream.keeper = ConsumerSet(self, stream, path)
        self.streams[config.name] = stream
        self.directs[config.name] = Direct(self, log, config.name)
        if path:
            self.paths[config.name] = path
        return stream

    def open(self, stream: Stream) -> None:
        """Let messages and requests in."""
        stream.keeper.recover()
        stream.start()
        self.directs[stream.name].listen(stream.config.allow_direct)
        self.note_follower(stream)
        for follower in self.engine.followers():
            if follower.feeds is not None:
                follower.feeds.come(stream)
        self.engine.schedule(stream)

    def note_follower(self, stream: Stream) -> None:
        """It may take over what others have."""
        if stream.feeds is not None:
            self.followers[stream.name] = stream

    def update(self, config: StreamConfig, done: Done = expect) -> Stream:
        """Change a stream to a checked configuration, which holds when `done` is told."""
        stream = self.find(config.name)
        self.check_overlap(config)
        self.check_limits(config, stream)
        try:
            settings = self.engine.settings_of(config, self.name)
            check_cold(config, stream.log)
        except ConfigError as error:
            raise failure.STREAM_INVALID_CONFIG(err=str(error)) from None
        updated = partial(self.updated, stream, config, settings, done)
        path = self.paths.get(config.name)
        if path:
            document = msgspec.json.encode(config)
            job = partial(
                self.engine.catalog.write, path, self.name, config.name, stream.created_ns, document
            )
            self.changes.carry_out(config.name, job, updated, alters=True)
        else:
            updated(None)
        return stream

    def updated(
        self,
        stream: Stream,
        config: StreamConfig,
        settings: LogSettings,
        done: Done,
        error: BaseException | None,
    ) -> None:
        if self.closed:
            return
        if error is not None:
            done(failure.STREAM_UPDATE(err=str(error)))
            return
        stream.update(config, settings)
        self.note_follower(stream)
        self.directs[config.name].listen(config.allow_direct)
        self.events.stream_action(config.name, MODIFY)
        self.engine.schedule(stream)
        done(stream)

    def delete(self, name: str, done: Done = expect) -> None:
        """Delete a stream, which goes on until that is certain."""
        stream = self.find(name)
        deleted = partial(self.deleted, stream, done)
        path = self.paths.get(name, "")
        if path:
            self.changes.carry_out(name, partial(self.engine.catalog.forget, path), deleted, alters=True)
        else:
            deleted(None)

    def deleted(self, stream: Stream, done: Done, error: BaseException | None) -> None:
        if self.closed:
            return
        if error is not None:
            done(failure.STREAM_DELETE(err=str(error)))
            return
        path = self.paths.get(stream.name, "")
        self.drop(stream)
        self.events.stream_action(stream.name, DELETE)
        if path:
            self.sweep(path)
        done(stream)

    def drop(self, stream: Stream) -> None:
        """There is no such stream any more."""
        name = stream.name
        del self.streams[name]
        self.paths.pop(name, None)
        self.directs.pop(name).listen(False)
        keeper = self.cursors.pop(name, None)
        if keeper is not None:
            keeper.stop()
        self.followers.pop(name, None)
        self.tell_gone(stream)
        stream.log.keeper.ferry.forget(partial(self._history_gone, name))
        stream.abandon()

    def tell_gone(self, stream: Stream) -> None:
        for follower in self.engine.followers():
            if follower.feeds is not None:
                follower.feeds.go(stream)

    def _history_gone(self, name: str, error: BaseException | None) -> None:
        if error is not None:
            self.engine.log.warn(
                f"What stream {self.name} > {name} had in the cold tier was not removed: {error}"
            )

    def sweep(self, path: str) -> None:
        """Remove, in the background, what is left of a stream that is deleted or was not finished."""
        self.engine.worker.submit(partial(self.engine.catalog.sweep, path), partial(self._swept, path))

    def _swept(self, path: str, _: object, error: BaseException | None) -> None:
        if error is None:
            self.engine.catalog.swept(path)
        else:
            self.engine.log.warn(f"What is left of a deleted stream could not be removed: {error}")

    def stream_failed(self, stream: Stream, error: StorageError) -> None:
        """The log of a stream takes nothing any more."""
        self.engine.log.error(f"Stream {self.name} > {stream.name} can be read and not written to: {error}")

    def cold_tier_fails(self, stream: Stream, trouble: str) -> None:
        """What a stream wants of the cold tier cannot be done for a while, or (empty) can be done again."""
        if trouble:
            self.engine.log.warn(f"Stream {self.name} > {stream.name} and the cold tier: {trouble}")
        else:
            self.engine.log.info(f"Stream {self.name} > {stream.name} and the cold tier: all is well again")

    def stream_refuses(self, stream: Stream, refusal: object) -> None:
        """The log of a stream takes nothing for a while, or (None) takes messages again."""
        if refusal is None:
            self.engine.log.info(f"Stream {self.name} > {stream.name} takes messages again")
        else:
            self.engine.log.error(f"Stream {self.name} > {stream.name} takes no messages: {refusal}")
            if self.engine.on_full is not None:
                self.engine.on_full(stream)

    # ---- what an account may have ----

    def check_overlap(self, config: StreamConfig) -> None:
        for name, stream in self.streams.items():
            if name != config.name and any(
                takes(stream.config, subject) for subject in config.subjects or ()
            ):
                raise failure.STREAM_SUBJECT_OVERLAP()

    def check_limits(self, config: StreamConfig, there: Stream | None = None) -> None:
        """Whether there is room for a stream with this configuration, beside the others."""
        limits = self.limits
        if there is None and 0 <= limits.max_streams <= len(self.streams):
            raise failure.MAXIMUM_STREAMS_LIMIT()
        if limits.max_bytes_required and config.max_bytes <= 0:
            raise failure.STREAM_MAX_BYTES_REQUIRED()
        in_memory = config.storage == MEMORY
        most = limits.memory_max_stream_bytes if in_memory else limits.storage_max_stream_bytes
        if 0 < most < config.max_bytes:
            raise failure.STREAM_MAX_STREAM_BYTES_EXCEEDED()
        wanted = max(config.max_bytes, 1)
        mine = limits.max_memory if in_memory else limits.max_storage
        whole = self.engine.settings.max_memory_size if in_memory else self.engine.settings.max_file_size
        others = [stream for stream in self.streams.values() if stream is not there]
        everybody = [stream for stream in self.engine.streams() if stream is not there]
        if (0 <= mine < reserved(others, config.storage) + wanted) or (
            0 <= whole < reserved(everybody, config.storage) + wanted
        ):
            if in_memory:
                raise failure.MEMORY_RESOURCES_EXCEEDED()
            raise failure.STORAGE_RESOURCES_EXCEEDED()

    def reserved_size(self, storage: str) -> int:
        return reserved(self.streams.values(), storage)

    # ---- what requests are judged by (stream.surroundings) ----

    @property
    def server_limits(self) -> ServerLimits:
        return self.engine.server_limits

    def config_of(self, name: str) -> StreamConfig | None:
        stream = self.streams.get(name)
        return stream.config if stream is not None else None

    def consumer_configs(self, name: str) -> dict[str, ConsumerConfig]:
        """Of the consumers of a stream, by name."""
        return {each.name: each.config for each in self.find(name).consumers.values()}

    def configs(self) -> list[StreamConfig]:
        return [stream.config for stream in self.streams.values()]

    def server_reserved(self, storage: str) -> int:
        return reserved(self.engine.streams(), storage)


def takes(config: StreamConfig, subject: str) -> bool:
    """Whether a stream takes messages on a subject, or on one that it means."""
    return any(overlaps(own.encode(), subject.encode()) for own in config.subjects or ())


def reserved(streams: Iterable[Stream], storage: str) -> int:
    """Bytes that streams have been promised."""
    return sum(max(stream.config.max_bytes, 0) for stream in streams if stream.config.storage == storage)
