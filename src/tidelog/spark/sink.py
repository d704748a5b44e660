"""Writing to streams: `df.write.format("tidelog")` and `df.writeStream.format("tidelog")`.

What it promises (SPARK-4): with dedupe=batch, the default, every row of a batch is stored once, however often a task,
the batch or the driver begins again: rows have ids, `query:batch:partition:row`, and a streaming query notes at the
server how far it has come (`marker`). With dedupe=none every row is stored at least once.

A batch write has an id of its own, or the one that option `writerId` gives it: then a job that is run again soon
stores nothing twice.
"""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.base.errors import ApiError, TidelogError
from tidelog.client.jetstream.flight import Acks
from tidelog.spark.delivery import Delivery
from tidelog.spark.link import Link, lease
from tidelog.spark.marker import Markers, Stored, stream_of
from tidelog.spark.option import WriteOptions
from tidelog.spark.outgoing import RowReader

LOG = logging.getLogger("tidelog.spark")
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    query: str
    stream: str
    stored: int
    duplicates: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._options = options
        self._rows = RowReader(schema, options)
        # Chosen here, on the driver, so that a task that is tried again has the same.
        self._id = options.writer_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        prefix = f"{self._id}:0:{_task().partitionId()}:"
        with lease(self._options.connect, Acks) as link:
            stored = _stored_from_now_on(link, self._options, prefix)
            return _deliver(
                link, self._options, self._rows, iterator, self._id, prefix, stored, self._options.stream
            )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every row was acknowledged before its task ended."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was stored stays."""


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._options = options
        self._rows = RowReader(schema, options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task, options = _task(), self._options
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if not query or batch is None:
            raise TidelogError("Spark does not say which query and batch this is; PySpark 4.2 or newer does")
        prefix = f"{query}:{batch}:{task.partitionId()}:"
        with lease(options.connect, Acks) as link:
            stream = stream_of(link, options) if self._notes else options.stream
            stored = None
            if self._notes and stream:
                markers = Markers(link, options, query, stream)
                if markers.is_committed(int(batch)):
                    return Written(query, stream, 0, 0)
                stored = markers.begin(int(batch), task.partitionId(), prefix)
            return _deliver(link, options, self._rows, iterator, query, prefix, stored, stream)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        options = self._options
        done = next((each for each in messages if isinstance(each, Written) and each.stream), None)
        if not self._notes or done is None:
            return
        link = Link(options.connect, options.connect.plan_patience_s)
        try:
            Markers(link, options, done.query, done.stream).commit(batchId)
        finally:
            link.close()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was stored stays; the batch is repeated, and finds it."""

    @property
    def _notes(self) -> bool:
        return self._options.exactly_once and self._options.dedupe == "batch"


def _stored_from_now_on(link: Link, options: WriteOptions, prefix: str) -> Stored | None:
    """Where a stream can be named; one that is not there is told of when rows are refused."""
    if not options.exactly_once or options.dedupe != "batch" or not (stream := stream_of(link, options)):
        return None
    try:
        return Stored.from_now_on(link, options, stream, prefix)
    except ApiError:
        return None


def _deliver(
    link: Link,
    options: WriteOptions,
    rows: RowReader,
    batches: Iterator[Any],
    query: str,
    prefix: str,
    stored: Stored | None,
    stream: str,
) -> Written:
    """All rows of a task but those that are `stored` already."""
    written = stored.rows() if stored is not None and stored.begun_before else set()
    delivery = Delivery(
        link,
        stream=options.stream,
        max_count=options.max_in_flight,
        max_size=options.max_in_flight_size,
        msg_id=prefix if options.dedupe == "batch" else "",
        repeatable=options.dedupe != "none",
        stored=tuple if stored is None else stored.rows,
    )
    number = 0
    for batch in batches:
        count = batch.num_rows
        skip = bytes(at in written for at in range(number, number + count)) if written else None
        delivery.send(rows.read(batch, number, skip))
        number += count
    delivery.finish()
    if written:
        LOG.warning(
            "%d of %d rows of %s were stored before, and were not sent again", len(written), number, prefix
        )
    return Written(query, stream, delivery.stored, delivery.duplicates)


def _task() -> Any:
    task = TaskContext.get()
    assert task is not None, "only a task writes"
    return task
