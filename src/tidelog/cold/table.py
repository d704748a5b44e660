"""A stretch of a log as one Parquet file, and back. docs/formats/cold.md has the columns.

    data = write_table(columns, about)
    about, table = read_table(data)
    columns = to_columns(table)

Promises
  * COLD-2: what was written is read again, byte for byte: sequence, time to the nanosecond, expiry, subject, header
    block and payload.
  * Anything that opens Parquet opens the file as it is, and finds rows sorted by `seq` and statistics that let it skip.
  * What is no such file, or a damaged one, is a `ColdError`.

Subjects are text wherever they are UTF-8, which NATS does not ask for. One that is not stands in `subject` with
replacement characters, and in `subject_raw` as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.base.errors import ColdError
from tidelog.base.limits import COLD_ROW_GROUP_MESSAGES

if TYPE_CHECKING:
    # Who only reads files does without the log.
    from tidelog.log.columns import Columns

FORMAT = "1"
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("headers", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("ts_ns", pa.int16(), nullable=False),
        pa.field("expires_ns", pa.int64()),
        pa.field("subject_raw", pa.binary()),
    ]
)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of itself, in its metadata."""

    account: str
    stream: str
    log_id: str
    start_seq: int  # the stretch [start_seq, end_seq) of which it has every message
    end_seq: int


def write_table(rows: Columns | Any, about: About, more: Mapping[str, str] | None = None) -> bytes:
    """The file. Rows that are an Arrow table have our schema; `more` is told behind what `about` says."""
    table = rows if isinstance(rows, pa.Table) else to_arrow(rows)
    words = {**told(about), **(more or {})}
    table = table.replace_schema_metadata({f"tidelog.{key}": str(value) for key, value in words.items()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=COLD_ROW_GROUP_MESSAGES,
        compression="zstd",
        use_dictionary=["subject"],
        write_statistics=["seq", "ts", "subject"],
        column_encoding={"seq": "DELTA_BINARY_PACKED", "ts": "DELTA_BINARY_PACKED"},
        sorting_columns=[pq.SortingColumn(0)],
        write_page_checksum=True,
    )
    return bytes(sink.getvalue())


def told(about: About) -> dict[str, object]:
    return {"format": FORMAT, **msgspec.structs.asdict(about)}


def to_arrow(columns: Columns) -> Any:
    """The table, over the memory of the columns."""
    count = columns.count
    raw = text(pa.binary(), count, columns.subject_ends, columns.subjects)
    subject = text(pa.string(), count, columns.subject_ends, columns.subjects)
    odd = pa.nulls(count, pa.binary())
    try:
        subject.validate(full=True)
    except pa.ArrowInvalid:
        subject, odd = as_text(raw)
    headers = text(pa.binary(), count, columns.header_ends, columns.headers)
    expires = plain(pa.int64(), count, columns.expiry_ns)
    arrays = [
        plain(pa.int64(), count, columns.seq),
        plain(pa.timestamp("us", tz="UTC"), count, columns.time_us),
        subject,
        nulled(headers, pc.equal(pc.binary_length(headers), 0)),
        text(pa.binary(), count, columns.payload_ends, columns.payloads),
        plain(pa.int16(), count, columns.time_ns),
        nulled(expires, pc.equal(expires, 0)),
        odd,
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def plain(kind: Any, count: int, data: bytes) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def text(kind: Any, count: int, ends: bytes, data: bytes) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def nulled(array: Any, where: Any) -> Any:
    return pc.if_else(where, pa.scalar(None, array.type), array)


def as_text(raw: Any) -> tuple[Any, Any]:
    """Subjects of which some are no UTF-8, as text, and those as they are."""
    values = raw.to_pylist()
    readable = [value.decode("utf-8", "replace") for value in values]
    odd = [None if shown.encode() == value else value for shown, value in zip(readable, values, strict=True)]
    return pa.array(readable, pa.string()), pa.array(odd, pa.binary())


def read_table(data: bytes) -> tuple[About, Any]:
    """What a file says of itself, and its rows."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        about = read_about(file.schema_arrow.metadata or {})
        return about, file.read().cast(SCHEMA)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise ColdError(f"this is no file of the cold tier, or it is damaged: {error}") from error


def read_metadata(data: bytes) -> dict[bytes, bytes]:
    """What a file has told behind our schema. Raises ColdError."""
    try:
        found: dict[bytes, bytes] = pq.read_schema(pa.BufferReader(data)).metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise ColdError(f"this is no file of the cold tier, or it is damaged: {error}") from error
    return found


def read_about(metadata: dict[bytes, bytes]) -> About:
    said = {
        key.removeprefix(b"tidelog.").decode(): value.decode()
        for key, value in metadata.items()
        if key.startswith(b"tidelog.")
    }
    if said.pop("format", None) != FORMAT:
        raise ColdError(f"this is no file of the cold tier, or of another format than {FORMAT}")
    return msgspec.convert(said, About, strict=False)


def raw_subjects(table: Any) -> Any:
    """As they were in the log."""
    return pc.coalesce(table["subject_raw"], table["subject"].cast(pa.binary()))


def to_columns(table: Any) -> Columns:
    """The other way round: the rows as a log knows them."""
    from tidelog.log.columns import buffers_as_columns

    table = table.combine_chunks()
    return buffers_as_columns(
        table.num_rows,
        values(table["seq"], pa.int64()),
        values(table["ts"].cast(pa.int64()), pa.int64()),
        values(table["ts_ns"], pa.int16()),
        values(pc.fill_null(table["expires_ns"], 0), pa.int64()),
        *texts(raw_subjects(table)),
        *texts(pc.fill_null(table["headers"], b"")),
        *texts(table["payload"]),
    )


def values(column: Any, kind: Any) -> bytes:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    width = kind.bit_width // 8
    data = bytes(array.buffers()[1] or b"")
    return data[array.offset * width : (array.offset + len(array)) * width]


def texts(column: Any) -> tuple[bytes, bytes]:
    """Where each ends, and all of them."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.binary())
    # Made anew, it begins at its beginning.
    array = pa.concat_arrays([array, pa.array([b""], array.type)])
    _, ends, data = array.buffers()
    size = 4 * len(array)
    ends = bytes(ends)[array.offset * 4 : array.offset * 4 + size]
    return ends, bytes(data or b"")[: int.from_bytes(ends[-4:], "little")]
