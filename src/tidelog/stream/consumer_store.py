"""What consumers keep on the disk, beside the log of their stream.

    <stream>/consumers/<consumer>/meta.json     its configuration and when it was made
    <stream>/consumers/<consumer>/state.0       where it stands; the newer of the two that is whole counts
    <stream>/consumers/<consumer>/state.1

Promises
  * CONSUMER-8: a consumer that was made durable is there after a restart, and one that was deleted is not.
  * CONSUMER-9: what was acknowledged a moment before a crash, and is known here, is not delivered again; what was
    acknowledged within CONSUMER_STATE_DELAY_NS before it may be. After a clean end nothing is.
  * CONSUMER-10: a state that cannot be read is told of, and the older one is used; without any, everything is delivered
    again. Nothing is passed over.
  * An acknowledgement costs no write of its own: states are written in the background, all that have changed at once,
    and one batch after the other. The oldest change waits no longer than that, however many there are, and behind no
    sync: states have a thread of their own. On top comes the write itself, and a machine that does not get to it.

A state may be ahead of what the log has synced. That does no harm: sequences are never given out again, so what a
consumer has passed is there or is lost, and is never something new.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.limits import (
    CONSUMER_STATE_DELAY_NS,
    CONSUMER_STATE_RETRY_NS,
    CONSUMER_STATES_AT_ONCE,
)
from tidelog.disk.disk import Disk
from tidelog.stream.catalog import CONSUMERS, META, directory_name, read_document, sweep, write_document
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.consumer_state import State, decode_state, encode_state

if TYPE_CHECKING:
    from tidelog.stream.consumer import Consumer
    from tidelog.stream.engine import Engine

VERSION = 1
SLOTS = ("state.0", "state.1")


class ConsumerMeta(msgspec.Struct):
    version: int
    name: str
    created_ns: int
    config: ConsumerConfig


class Changed(NamedTuple):
    """A state that is to be written."""

    path: str
    since_ns: int


class Kept(msgspec.Struct):
    """A consumer as it was found on the disk."""

    path: str
    meta: ConsumerMeta
    state: State | None


class ConsumerStore:
    """Of one server."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.disk: Disk = engine.disk
        # Whose state is to be written, where, and since when; the oldest change first.
        self.changed: dict[Consumer, Changed] = {}
        self.numbers: dict[str, int] = {}  # of the newest state, by directory
        self.certain: set[str] = set()  # directories of streams whose directory of consumers is safe
        self._writing = False
        self._timed = False
        self._closed = False
        self._troubled = False

    # ---- configurations ----

    def begin(self, stream_path: str, name: str) -> str:
        """A directory for a consumer, which does not exist before a configuration is in it."""
        above = f"{stream_path}/{CONSUMERS}"
        wanted = path = f"{above}/{directory_name(name)}"
        number = 1
        # What is left of a deleted one may still be on its way out.
        while self.disk.exists(path):
            number += 1
            path = f"{wanted}.{number}"
        self.disk.make_directory(path)
        return path

    def first_job(self, stream_path: str, path: str, consumer: Consumer) -> Callable[[], None]:
        """Writes the configuration of a new consumer; the directory above its own is synced beside that."""
        write, disk = self.config_job(path, consumer, consumer.config), self.disk
        if not consumer.config.is_durable or stream_path in self.certain:
            return write

        def job() -> None:
            write()
            disk.sync_directory(stream_path)

        return job

    def config_job(self, path: str, consumer: Consumer, config: ConsumerConfig) -> Callable[[], None]:
        meta = ConsumerMeta(VERSION, consumer.name, consumer.created_ns, config)
        data = msgspec.json.format(msgspec.json.encode(meta)) + b"\n"
        return partial(write_document, self.disk, f"{path}/{META}", data, durable=config.is_durable)

    def forget_job(self, path: str, *, durable: bool) -> Callable[[], None]:
        """After that the consumer does not exist any more; `sweep` removes what is left of it."""
        disk = self.disk

        def job() -> None:
            if disk.exists(f"{path}/{META}"):
                disk.remove(f"{path}/{META}")
                if durable:
                    disk.sync_directory(path)

        return job

    def sweep(self, path: str) -> None:
        self.numbers.pop(path, None)
        self.engine.worker.submit(partial(sweep, self.disk, path), self._swept)

    def _swept(self, _: object, error: BaseException | None) -> None:
        if error is not None:
            self.engine.log.warn(f"What is left of a deleted consumer could not be removed: {error}")

    def load(self, stream_path: str) -> list[Kept]:
        """The consumers of a stream."""
        above = f"{stream_path}/{CONSUMERS}"
        found = []
        for name in self.disk.list(above) if self.disk.exists(above) else ():
            path = f"{above}/{name}"
            try:
                data = read_document(self.disk, f"{path}/{META}")
                if data is None:
                    sweep(self.disk, path)
                    continue
                meta = msgspec.json.decode(data, type=ConsumerMeta)
                if meta.version != VERSION:
                    raise StorageError(f"it is of version {meta.version}, this program knows {VERSION}")
                found.append(Kept(path, meta, self.load_state(path)))
            except (StorageError, msgspec.MsgspecError) as error:
                self.engine.log.error(f"The consumer in {path} is not opened: {error}; mend or move it away")
        return found

    def load_state(self, path: str) -> State | None:
        states, faults = [], []
        for slot in SLOTS:
            data = read_document(self.disk, f"{path}/{slot}")
            if data is None:
                continue
            try:
                states.append(decode_state(data))
            except StorageError as error:
                faults.append(f"{path}/{slot} cannot be read: {error}")
        newest = max(states, key=lambda state: state.number, default=None)
        if faults:
            rest = "the older state is used" if newest is not None else "everything is delivered again"
            self.engine.log.warn(f"{'; '.join(faults)}; {rest}")
        if newest is not None:
            self.numbers[path] = newest.number
        return newest

    # ---- states ----

    def note(self, path: str, consumer: Consumer) -> None:
        """Where a consumer stands has changed."""
        if consumer not in self.changed:
            self.changed[consumer] = Changed(path, self.engine.clock.monotonic_ns())
        if not self._timed and not self._writing:
            self.wait(CONSUMER_STATE_DELAY_NS)

    def drop(self, consumer: Consumer) -> None:
        """Nothing of this consumer is to be written any more."""
        self.changed.pop(consumer, None)

    def wait(self, delay_ns: int) -> None:
        self._timed = True
        self.engine.timers.at(self.engine.clock.monotonic_ns() + delay_ns, self.write)

    def write(self) -> None:
        """Write states in the background, as many as are written at once."""
        self._timed = False
        if self._writing or self._closed:
            return
        batch = list(self.changed.items())[:CONSUMER_STATES_AT_ONCE]
        if not batch:
            return
        documents = []
        for consumer, change in batch:
            del self.changed[consumer]
            documents.append(self.document(change.path, consumer))
        self._writing = True
        disk = self.disk
        self.engine.state_worker.submit(
            lambda: write_states(disk, documents), lambda _, error: self._written(batch, error)
        )

    def document(self, path: str, consumer: Consumer) -> tuple[str, bytes]:
        """Where the state of a consumer goes now, and its bytes."""
        number = self.numbers.get(path, 0) + 1
        self.numbers[path] = number
        consumer.dirty = False
        return f"{path}/{SLOTS[number % 2]}", encode_state(State(number, *consumer.pack()))

    def _written(self, batch: list[tuple[Consumer, Changed]], error: BaseException | None) -> None:
        self._writing = False
        delay_ns = CONSUMER_STATE_RETRY_NS
        if error is not None:
            again = {consumer: change for consumer, change in batch if not consumer.closed}
            self.changed = again | self.changed
            if again and not self._troubled:
                self.engine.log.warn(
                    f"States of consumers could not be written, which is tried again: {error}"
                )
        self._troubled = error is not None
        if error is None and self.changed:
            oldest_ns = next(iter(self.changed.values())).since_ns
            delay_ns = max(oldest_ns + CONSUMER_STATE_DELAY_NS - self.engine.clock.monotonic_ns(), 0)
        if self.changed and not self._timed:
            self.wait(delay_ns)

    def save(self, path: str, consumer: Consumer) -> None:
        """Write the state of a consumer that ends, for certain."""
        self.drop(consumer)
        target, data = self.document(path, consumer)
        write_document(self.disk, target, data)

    def close(self) -> None:
        self._closed = True


def write_states(disk: Disk, documents: list[tuple[str, bytes]]) -> None:
    for path, data in documents:
        # A directory that has gone was that of a consumer that was deleted meanwhile.
        if disk.exists(path.rpartition("/")[0]):
            write_document(disk, path, data, durable=False)
