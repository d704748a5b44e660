"""The consumers of one stream: made, changed, found, paused, moved back and deleted.

    consumers = ConsumerSet(account, stream)
    consumer = consumers.create(config)         a checked configuration; one that is there is changed
    consumers.delete(name)

What a configuration may say is judged before (tidelog.stream.request_check).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns, timestamp
from tidelog.stream import consumer_event, failure, metadata
from tidelog.stream.advisory import new_id
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_config import (
    DELIVER_ALL,
    DELIVER_BY_SEQUENCE,
    DELIVER_BY_TIME,
    ConsumerConfig,
)
from tidelog.stream.consumer_start import course_again, course_of, filter_of
from tidelog.stream.failure import ApiFailure, expect
from tidelog.stream.stream import Stream

if TYPE_CHECKING:
    from tidelog.stream.account import AccountStreams

NAME_SIZE = 8

# Told what became of a change: the consumer, or why it was refused.
Done = Callable[[Consumer | ApiFailure], None]


class Configs(Mapping[str, ConsumerConfig]):
    """The configurations of a stream's consumers by name, as they are."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __getitem__(self, name: str) -> ConsumerConfig:
        config: ConsumerConfig = self.stream.consumers[name].config
        return config

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream.consumers)

    def __len__(self) -> int:
        return len(self.stream.consumers)


class ConsumerSet:
    """Of one stream. Consumers tell it what becomes of them."""

    def __init__(self, account: AccountStreams, stream: Stream, path: str) -> None:
        """`path`: where the stream is on the disk; empty: it is in memory, and so are its consumers."""
        self.account = account
        self.stream = stream
        self.path = path
        self.store = account.engine.consumer_store
        self.paths: dict[str, str] = {}  # of consumers that are on the disk

    def find(self, name: str) -> Consumer:
        consumer: Consumer | None = self.stream.consumers.get(name)
        if consumer is None:
            raise failure.CONSUMER_NOT_FOUND()
        return consumer

    def configs(self) -> Configs:
        return Configs(self.stream)

    # ---- making, changing, deleting ----

    def create(self, config: ConsumerConfig, done: Done = expect, *, begin: bool = True) -> Consumer:
        """Make a consumer, or change the one that is there.

        `done` is told when it is there for good, and can be asked. A new one delivers from then on, or if not `begin`
        when told.
        """
        name = config.durable_name or config.name
        if name in self.stream.consumers:
            return self.update(config, done)
        name = name or self.new_name()
        consumer = Consumer(
            self.stream,
            name,
            config,
            self.account.engine.clock.now_ns(),
            self,
            course_of(self.stream, config),
        )
        created = partial(self.created, consumer, begin, done)
        if not self.path or config.mem_storage or config.direct:
            self.stream.add_consumer(consumer)
            created(None)
            return consumer
        try:
            path = self.store.begin(self.path, name)
        except StorageError as error:
            raise failure.CONSUMER_STORE_FAILED(err=str(error)) from error
        self.paths[name] = path
        # It counts from now on: what it wants is kept for it.
        self.stream.add_consumer(consumer)
        durable = config.is_durable
        self.account.changes.carry_out(
            self.key(name),
            self.store.first_job(self.path, path, consumer),
            created,
            above=path.rpartition("/")[0] if durable else "",
            beside=durable,
        )
        return consumer

    def created(self, consumer: Consumer, begin: bool, done: Done, error: BaseException | None) -> None:
        """A new consumer is on the disk, or could not be put there."""
        if consumer.closed:
            done(failure.STREAM_NOT_FOUND())
            return
        if error is not None:
            self.store.sweep(self.paths.pop(consumer.name))
            consumer.stop()
            self.stream.remove_consumer(consumer.name)
            done(failure.CONSUMER_STORE_FAILED(err=str(error)))
            return
        if consumer.config.is_durable and self.path:
            self.store.certain.add(self.path)
        self.open(consumer)
        consumer_event.created(consumer)
        done(consumer)
        if begin:
            consumer.pump()

    def key(self, name: str) -> str:
        """What changes of a consumer go by."""
        return f"{self.stream.name}.{name}"

    def recover(self) -> None:
        """Take in what is on the disk."""
        for kept in self.store.load(self.path) if self.path else ():
            meta, state = kept.meta, kept.state
            if meta.name in self.stream.consumers:
                self.account.engine.log.error(
                    f"The consumer in {kept.path} is not opened: there is another one called {meta.name!r}"
                )
                continue
            course = (
                course_again(self.stream, meta.config, state)
                if state is not None
                else course_of(self.stream, meta.config)
            )
            consumer = Consumer(self.stream, meta.name, meta.config, meta.created_ns, self, course)
            if state is not None:
                consumer.restore(state)
            self.paths[meta.name] = kept.path
            self.stream.add_consumer(consumer)
            self.open(consumer)

    def open(self, consumer: Consumer) -> None:
        """Let requests in."""
        self.account.gate.admit(consumer)
        consumer.start()

    def new_name(self) -> str:
        while True:
            name = new_id(self.account.chance, NAME_SIZE)
            if name not in self.stream.consumers:
                return name

    def update(self, config: ConsumerConfig, done: Done = expect) -> Consumer:
        consumer = self.find(config.durable_name or config.name)
        if config == consumer.config:
            done(consumer)
        else:
            self.change(consumer, config, done)
        return consumer

    def change(self, consumer: Consumer, config: ConsumerConfig, done: Done) -> None:
        """Another configuration, which holds when `done` is told."""
        changed = partial(self.config_changed, consumer, config, done)
        path = self.paths.get(consumer.name)
        if path is None:
            changed(None)
            return
        job = self.store.config_job(path, consumer, config)
        self.account.changes.carry_out(self.key(consumer.name), job, changed, beside=config.is_durable)

    def config_changed(
        self, consumer: Consumer, config: ConsumerConfig, done: Done, error: BaseException | None
    ) -> None:
        if consumer.closed:
            done(failure.CONSUMER_NOT_FOUND())
        elif error is not None:
            done(failure.CONSUMER_STORE_FAILED(err=str(error)))
        else:
            consumer.update(config, filter_of(config))
            done(consumer)

    def delete(self, name: str, done: Done = expect) -> None:
        """Delete a consumer, which goes on until that is certain."""
        consumer = self.find(name)
        deleted = partial(self.deleted, consumer, done)
        path = self.paths.get(name)
        if path is None:
            deleted(None)
            return
        durable = consumer.config.is_durable
        self.account.changes.carry_out(
            self.key(name), self.store.forget_job(path, durable=durable), deleted, beside=durable
        )

    def deleted(self, consumer: Consumer, done: Done, error: BaseException | None) -> None:
        if error is not None and not consumer.closed:
            done(failure.STREAM_GENERAL(err=str(error)))
            return
        if not consumer.closed:
            path = self.paths.pop(consumer.name, None)
            self.store.drop(consumer)
            self.account.gate.dismiss(consumer)
            consumer.stop(b"409 Consumer Deleted")
            self.stream.remove_consumer(consumer.name)
            consumer_event.deleted(consumer)
            if path is not None:
                self.store.sweep(path)
        done(consumer)

    # ---- while they run ----

    def pause(self, name: str, until: str | None, done: Done = expect) -> None:
        """Deliver nothing before `until`; None: go on."""
        consumer = self.find(name)
        if until == consumer.config.pause_until:
            done(consumer)
            return
        config = msgspec.structs.replace(consumer.config, pause_until=until)
        config.metadata = metadata.stored(config.metadata, config.required_level())
        self.change(consumer, config, partial(self.pause_changed, until, done))

    def pause_changed(self, until: str | None, done: Done, outcome: Consumer | ApiFailure) -> None:
        if not isinstance(outcome, ApiFailure):
            now_ns = self.account.engine.clock.now_ns()
            consumer_event.paused(
                outcome,
                until if until is not None else "0001-01-01T00:00:00Z",
                until is not None and now_ns < instant_ns(until),
            )
        done(outcome)

    def unpin(self, name: str, group: str) -> None:
        consumer = self.find(name)
        if group not in consumer.config.priority_groups:
            raise failure.CONSUMER_INVALID_PRIORITY_GROUP()
        consumer.unpin("admin")
        consumer.pump()

    def reset(self, name: str, seq: int) -> int:
        """Go back, or on, to `seq`; 0: to what is not acknowledged. Returns where that is."""
        consumer = self.find(name)
        config = consumer.config
        if seq == 0:
            seq = consumer.floors()[1] + 1
        elif config.deliver_policy == DELIVER_BY_SEQUENCE:
            if seq < config.opt_start_seq:
                raise failure.CONSUMER_INVALID_RESET(err="below start seq")
        elif config.deliver_policy == DELIVER_BY_TIME:
            assert config.opt_start_time is not None
            if seq < self.stream.log.seq_at_time(instant_ns(config.opt_start_time)):
                raise failure.CONSUMER_INVALID_RESET(err="below start time")
        elif config.deliver_policy != DELIVER_ALL:
            raise failure.CONSUMER_INVALID_RESET(err="not allowed")
        consumer.reset_to(max(seq, 1))
        return max(seq, 1)

    # ---- what consumers tell ----

    def changed(self, consumer: Consumer) -> None:
        """There is something new to be kept."""
        path = self.paths.get(consumer.name)
        if path is not None:
            self.store.note(path, consumer)

    def resumed(self, consumer: Consumer) -> None:
        """The end of a pause has come."""
        until = consumer.config.pause_until or timestamp(self.account.engine.clock.now_ns())
        consumer_event.paused(consumer, until, False)

    def inactive(self, consumer: Consumer) -> None:
        """Nobody has used it for as long as it may be unused."""
        if not self.account.changes.is_busy(self.key(consumer.name)):
            self.delete(consumer.name, self.forgotten)

    def forgotten(self, outcome: Consumer | ApiFailure) -> None:
        if isinstance(outcome, ApiFailure):
            self.account.engine.log.warn(f"An unused consumer could not be deleted: {outcome}")

    # ---- the end ----

    def stop(self) -> None:
        """The server ends; everything is left as it will be found again."""
        for consumer in list(self.stream.consumers.values()):
            self.account.gate.dismiss(consumer)
            consumer.stop(b"409 Server Shutdown")
            path = self.paths.get(consumer.name)
            if path is not None and consumer.dirty:
                try:
                    self.store.save(path, consumer)
                except StorageError as error:
                    self.account.engine.log.warn(f"The state of {path} could not be written: {error}")

    def abandon(self) -> None:
        """The stream is deleted."""
        for consumer in list(self.stream.consumers.values()):
            self.store.drop(consumer)
            self.account.gate.dismiss(consumer)
            consumer.stop(b"409 Consumer Deleted")
            consumer_event.deleted(consumer)
