"""What a streaming query has written, noted at the server: exactly once even when the stream has forgotten the ids.

A stream knows messages again by their id for its duplicate window, two minutes by default. A batch that is repeated
later than that, because the driver was away for an hour, is known by these notes, in a key-value bucket:

    <query>.p<partition>   {"batch": 7, "end_seq": 1042}   before a task writes: where the stream ended then
    <query>.committed      {"batch": 7}                    when all of a batch is written

A task that finds its batch committed writes nothing. One that finds that its batch was begun reads what was written
since back from the stream, by the ids, and writes the rest. So does one whose connection was lost, before it sends
again what was not acknowledged: the server may have been away for longer than the window.

What it does not do: help where rows come differently the second time. Spark repeats a batch with the same rows in the
same partitions if its sources do; Tidelog's does.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.base.errors import ApiError
from tidelog.client.jetstream.bucket import Bucket, KeyNotFound, bucket_config
from tidelog.client.jetstream.desk import JetStream
from tidelog.spark.door import ANSWER_COUNT, ANSWER_SIZE
from tidelog.spark.link import Link, headed_columns
from tidelog.spark.option import OptionError, WriteOptions
from tidelog.spark.row import from_buffers
from tidelog.spark.state import STREAM_NOT_FOUND, ask_state

MSG_ID = "Nats-Msg-Id"


class Begun(msgspec.Struct):
    batch: int
    end_seq: int = 1


class Stored:
    """Which rows of a task are in a stream, by their ids, read back from where the stream ended when the task began."""

    def __init__(
        self,
        link: Link,
        options: WriteOptions,
        stream: str,
        start_seq: int,
        prefix: str,
        *,
        begun_before: bool,
    ) -> None:
        self.start_seq = start_seq
        # Whether there may be some although this task has written none.
        self.begun_before = begun_before
        self._link = link
        self._connect = options.connect
        self._stream = stream
        self._prefix = prefix

    @classmethod
    def from_now_on(cls, link: Link, options: WriteOptions, stream: str, prefix: str) -> "Stored":
        return cls(link, options, stream, ask_state(link, stream).end_seq, prefix, begun_before=False)

    def rows(self) -> set[int]:
        """By number."""
        state = ask_state(self._link, self._stream)
        if not state.config.get("allow_direct"):
            # What cannot be read back is known by its ids for as long as the stream remembers them.
            return set()
        rows: set[int] = set()
        # Answers of Direct Get want a connection of their own.
        reading = Link(self._connect, self._link.patience_s, parser=headed_columns)
        try:
            next_seq = self.start_seq
            while next_seq < state.end_seq:
                last_seq, ids = reading.attempt(lambda: self._ids(reading, next_seq))  # noqa: B023
                if not last_seq:
                    break
                next_seq = last_seq + 1
                rows.update(int(text[len(self._prefix) :]) for text in ids if text.startswith(self._prefix))
        finally:
            reading.close()
        return rows

    def _ids(self, reading: Link, start_seq: int) -> tuple[int, list[str]]:
        bulk = reading.bulk()
        bulk.read(self._stream, start_seq, max_count=ANSWER_COUNT, max_size=ANSWER_SIZE)
        last_seq = bulk.columns.last_seq
        columns = from_buffers(self._stream, *bulk.columns.take())
        return last_seq, list(_ids_of(columns.headers))


class Markers:
    """Those of one query, on the way to one stream."""

    def __init__(self, link: Link, options: WriteOptions, query: str, stream: str) -> None:
        self._link = link
        self._options = options
        self._name = options.marker_bucket
        self._query = query
        self._stream = stream

    def is_committed(self, batch: int) -> bool:
        found = self._link.attempt(lambda: self._get(f"{self._query}.committed"))
        return found is not None and found.batch >= batch

    def commit(self, batch: int) -> None:
        if not self.is_committed(batch):
            self._link.attempt(lambda: self._put(f"{self._query}.committed", Begun(batch)))

    def begin(self, batch: int, partition: int, prefix: str) -> "Stored":
        """What of this task is in the stream, now and later; `prefix` is what its ids begin with."""
        key = f"{self._query}.p{partition}"
        found = self._link.attempt(lambda: self._get(key))
        if found is not None and found.batch == batch:
            return Stored(self._link, self._options, self._stream, found.end_seq, prefix, begun_before=True)
        stored = Stored.from_now_on(self._link, self._options, self._stream, prefix)
        self._link.attempt(lambda: self._put(key, Begun(batch, stored.start_seq)))
        return stored

    def _get(self, key: str) -> Begun | None:
        try:
            return msgspec.json.decode(self._bucket().get(key).value, type=Begun)
        except KeyNotFound:
            return None

    def _put(self, key: str, value: Begun) -> None:
        self._bucket().put(key, msgspec.json.encode(value))

    def _bucket(self) -> Bucket:
        js = JetStream(self._link.connection())
        try:
            return Bucket(js, self._name)
        except ApiError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
        try:
            js.create_stream(bucket_config(self._name, description="What Spark queries have written"))
        except ApiError as error:
            raise OptionError(
                "exactlyOnce",
                f"the bucket {self._name!r} cannot be made ({error.description}); make it, name another with option "
                "'markerBucket', or set exactlyOnce to false",
            ) from error
        return Bucket(js, self._name)


def _ids_of(headers: Any) -> Iterator[str]:
    """All message ids in a column of headers."""
    pairs = headers.values
    for key, value in zip(pairs.field("key").to_pylist(), pairs.field("value").to_pylist(), strict=True):
        if key == MSG_ID:
            yield value.decode("utf-8", "replace")


def stream_of(link: Link, options: WriteOptions) -> str:
    """Where the rows go, if that can be known before they are seen; else empty."""
    if options.stream or not options.subject:
        return options.stream
    names = link.attempt(lambda: list(JetStream(link.connection()).stream_names(options.subject)))
    return names[0] if len(names) == 1 else ""
