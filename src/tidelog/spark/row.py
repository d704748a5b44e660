"""One schema, whatever door the rows come through: as Spark declares it, and as Arrow carries it.

    nats    stream, subject, seq, timestamp, value [, headers]
    kafka   key, value, topic, partition, offset, timestamp, timestampType [, headers]

Rows like Kafka's let a program move by changing its format and two options: the key is the subject, the topic the
stream, the offset the sequence. Times are those of the server, in microseconds, as Spark has them.

Schemas are made without asking anybody: `df.schema` connects to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.client.jetstream.columns import split_headers

# Kafka's word for a time that the server has given.
LOG_APPEND_TIME = 1

_HEADER = StructType([StructField("key", StringType(), False), StructField("value", BinaryType(), True)])
_HEADERS = StructField("headers", ArrayType(_HEADER, False), True)
_NATS: list[tuple[str, DataType]] = [
    ("stream", StringType()),
    ("subject", StringType()),
    ("seq", LongType()),
    ("timestamp", TimestampType()),
    ("value", BinaryType()),
]
_KAFKA: list[tuple[str, DataType]] = [
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("timestamp", TimestampType()),
    ("timestampType", IntegerType()),
]

_TIME = pa.timestamp("us", tz="UTC")
_ARROW_HEADER = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary(), True)])
_ARROW_HEADERS = pa.list_(pa.field("element", _ARROW_HEADER, False))


@dataclass(frozen=True, slots=True)
class RowFormat:
    kafka: bool = False
    headers: bool = False

    def spark_schema(self) -> StructType:
        fields = [StructField(name, kind, True) for name, kind in (_KAFKA if self.kafka else _NATS)]
        return StructType([*fields, _HEADERS] if self.headers else fields)

    def batch(self, columns: "MessageColumns") -> Any:
        """A record batch. The order of fields is the schema's."""
        count, stream = columns.count, columns.stream
        if self.kafka:
            arrays = {
                "key": columns.subject.cast(pa.binary()),
                "value": columns.value,
                "topic": pa.repeat(pa.scalar(stream), count),
                "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
                "offset": columns.seq,
                "timestamp": columns.time,
                "timestampType": pa.repeat(pa.scalar(LOG_APPEND_TIME, pa.int32()), count),
            }
        else:
            arrays = {
                "stream": pa.repeat(pa.scalar(stream), count),
                "subject": columns.subject,
                "seq": columns.seq,
                "timestamp": columns.time,
                "value": columns.value,
            }
        if self.headers:
            arrays["headers"] = columns.headers
        return pa.RecordBatch.from_pydict(arrays)


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """What every door brings, as Arrow arrays. `headers` is None when they were not asked for."""

    stream: str
    count: int
    seq: Any
    time: Any
    subject: Any
    value: Any
    headers: Any = None

    def taken(self, indices: Any) -> "MessageColumns":
        """Only these, in this order."""
        return MessageColumns(
            self.stream,
            len(indices),
            self.seq.take(indices),
            self.time.take(indices),
            self.subject.take(indices),
            self.value.take(indices),
            None if self.headers is None else self.headers.take(indices),
        )


def from_buffers(stream: str, count: int, buffers: Sequence[Any]) -> MessageColumns:
    """What `tidelog.client.jetstream.columns.Columns.take` gives, as arrays over the same memory."""
    seqs, times, subject_ends, subjects, value_ends, values, *rest = map(pa.py_buffer, buffers)
    headers = _header_array(count, rest) if rest else None
    return MessageColumns(
        stream,
        count,
        pa.Array.from_buffers(pa.int64(), count, [None, seqs]),
        pa.Array.from_buffers(_TIME, count, [None, times]),
        pa.Array.from_buffers(pa.string(), count, [None, subject_ends, subjects]),
        pa.Array.from_buffers(pa.binary(), count, [None, value_ends, values]),
        headers,
    )


def _header_array(count: int, buffers: Sequence[Any]) -> Any:
    header_ends, key_ends, keys, item_ends, items = buffers
    size = key_ends.size // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [
            pa.Array.from_buffers(pa.string(), size, [None, key_ends, keys]),
            pa.Array.from_buffers(pa.binary(), size, [None, item_ends, items]),
        ],
        fields=list(_ARROW_HEADER),
    )
    return pa.Array.from_buffers(_ARROW_HEADERS, count, [None, header_ends], children=[pairs])


def from_cold(stream: str, batch: Any, *, headers: bool) -> MessageColumns:
    """Of a batch that has the columns of the cold tier's files, as blocks have, too."""
    return MessageColumns(
        stream,
        batch.num_rows,
        batch.column("seq"),
        batch.column("ts"),
        batch.column("subject"),
        batch.column("payload"),
        _header_lists(batch.column("headers")) if headers else None,
    )


def _header_lists(blocks: Any) -> Any:
    """Header blocks as they were sent, as lists of names and values."""
    _, ends, data = blocks.buffers()
    if ends is None:
        ends, data = pa.py_buffer(bytes(4 * (len(blocks) + 1))), None
    first = blocks.offset if blocks.buffers()[1] is not None else 0
    count = len(blocks)
    wanted = memoryview(ends).cast("B").cast("i")[first : first + count + 1]
    found = split_headers(wanted, memoryview(data).cast("B") if data is not None else b"")
    return _header_array(count, [pa.py_buffer(buffer) for buffer in found])


def concatenated(parts: Sequence[MessageColumns]) -> MessageColumns:
    """Of one stream, at least one."""
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> Any:
        return pa.concat_arrays([getattr(part, name) for part in parts])

    return MessageColumns(
        parts[0].stream,
        sum(part.count for part in parts),
        joined("seq"),
        joined("time"),
        joined("subject"),
        joined("value"),
        None if parts[0].headers is None else joined("headers"),
    )
