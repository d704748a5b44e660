"""The consumers of one stream: made, changed, found, paused, moved back and deleted.

    consumers = ConsumerSet(account, stream)
    consumer = consumers.create(config)         a checked configuration; one that is there is changed
    consumers.delete(name)

What a configuration may say is judged before (tidelog.stream.request_check).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from tidelog.stream.stream import Stream

if TYPE_CHECKING:
    from tidelog.stream.account import AccountStreams

NAME_SIZE = 8


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

    def create(self, config: ConsumerConfig, *, begin: bool = True) -> Consumer:
        """Make a consumer, or change the one that is there. A new one delivers at once, or if not `begin` when told."""
        name = config.durable_name or config.name
        if name in self.stream.consumers:
            return self.update(config)
        name = name or self.new_name()
        consumer = Consumer(
            self.stream,
            name,
            config,
            self.account.engine.clock.now_ns(),
            self,
            course_of(self.stream, config),
        )
        if self.path and not config.mem_storage and not config.direct:
            try:
                self.paths[name] = self.store.begin(self.path, consumer)
            except StorageError as error:
                raise failure.CONSUMER_STORE_FAILED(err=str(error)) from error
        self.adopt(consumer)
        consumer_event.created(consumer)
        if begin:
            consumer.pump()
        return consumer

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
            self.adopt(consumer)

    def adopt(self, consumer: Consumer) -> None:
        self.stream.add_consumer(consumer)
        self.account.gate.admit(consumer)
        consumer.start()

    def new_name(self) -> str:
        while True:
            name = new_id(self.account.chance, NAME_SIZE)
            if name not in self.stream.consumers:
                return name

    def update(self, config: ConsumerConfig) -> Consumer:
        consumer = self.find(config.durable_name or config.name)
        if config != consumer.config:
            self.change(consumer, config)
        return consumer

    def change(self, consumer: Consumer, config: ConsumerConfig) -> None:
        before = consumer.config
        consumer.update(config, filter_of(config))
        path = self.paths.get(consumer.name)
        if path is not None:
            try:
                self.store.write_config(path, consumer)
            except StorageError as error:
                consumer.update(before, filter_of(before))
                raise failure.CONSUMER_STORE_FAILED(err=str(error)) from error

    def delete(self, name: str) -> None:
        consumer = self.find(name)
        path = self.paths.pop(name, "")
        if path:
            try:
                self.store.forget(path)
            except StorageError as error:
                self.paths[name] = path
                raise failure.STREAM_GENERAL(err=str(error)) from error
        self.store.drop(consumer)
        self.account.gate.dismiss(consumer)
        consumer.stop(b"409 Consumer Deleted")
        self.stream.remove_consumer(name)
        consumer_event.deleted(consumer)

    # ---- while they run ----

    def pause(self, name: str, until: str | None) -> Consumer:
        """Deliver nothing before `until`; None: go on."""
        consumer = self.find(name)
        if until == consumer.config.pause_until:
            return consumer
        config = msgspec.structs.replace(consumer.config, pause_until=until)
        config.metadata = metadata.stored(config.metadata, config.required_level())
        self.change(consumer, config)
        now_ns = self.account.engine.clock.now_ns()
        consumer_event.paused(
            consumer,
            until if until is not None else "0001-01-01T00:00:00Z",
            until is not None and now_ns < instant_ns(until),
        )
        return consumer

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

    def unpin(self, name: str, group: str) -> None:
        consumer = self.find(name)
        if group not in consumer.config.priority_groups:
            raise failure.CONSUMER_INVALID_PRIORITY_GROUP()
        consumer.unpin("admin")
        consumer.pump()

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
        self.delete(consumer.name)

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
