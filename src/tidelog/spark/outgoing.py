"""Rows on their way to a stream: which columns there must be, and how they become messages.

    subject   (or `topic`)  where to; the option `subject` is for all rows and wins over the column, as Kafka's does
    value     required, binary or string; null is an empty payload
    headers   array<struct<key: string, value: binary or string>>
    msgId     with dedupe=column: the message's id

Other columns are left alone, so a frame that was read from a stream can be written as it is.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

from tidelog.base.errors import TidelogError
from tidelog.client.jetstream.flight import Rows, Texts
from tidelog.spark.option import OptionError, WriteOptions

SUBJECT_COLUMNS = ("subject", "topic")
TEXT = (StringType, BinaryType)


class RowReader:
    """Made on the driver, where a frame that cannot be written is refused before anything runs."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        types = {field.name: field.dataType for field in schema.fields}
        self._fixed_subject = options.subject
        self._subject = next((name for name in SUBJECT_COLUMNS if name in types), "")
        if not options.subject and not self._subject:
            raise OptionError("subject", "give it, or a column 'subject': rows must say where they go")
        if not options.subject:
            self._check(types, self._subject, (StringType,))
        if "value" not in types:
            raise TidelogError(f"column 'value' is missing: the frame has {', '.join(types) or 'none'}")
        self._check(types, "value", TEXT)
        self._headers = "headers" in types and _is_headers(types["headers"])
        if "headers" in types and not self._headers:
            raise TidelogError(
                "column 'headers' must be array<struct<key: string, value: binary>>, not "
                f"{types['headers'].simpleString()}"
            )
        self._by_column = options.dedupe == "column"
        if self._by_column:
            if "msgId" not in types:
                raise OptionError("dedupe", "is 'column', and there is no column 'msgId'")
            self._check(types, "msgId", (StringType,))

    def read(self, batch: Any, first_number: int = 0, skip: bytes | None = None) -> Rows:
        """All rows of a record batch, as they stand in its memory."""
        return Rows(
            _texts(batch.column("value")),
            subject=self._fixed_subject.encode(),
            subjects=None if self._fixed_subject else _needed(batch, self._subject),
            ids=_needed(batch, "msgId") if self._by_column else None,
            headers=_headers(batch.column("headers")) if self._headers else None,
            first_number=first_number,
            skip=skip,
        )

    def _check(self, types: Mapping[str, DataType], name: str, kinds: tuple[type[DataType], ...]) -> None:
        if not isinstance(types[name], kinds):
            wanted = " or ".join(kind().simpleString() for kind in kinds)
            raise TidelogError(f"column {name!r} must be {wanted}, not {types[name].simpleString()}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return isinstance(fields.get("key"), StringType) and isinstance(fields.get("value"), TEXT)


def _texts(column: Any) -> Texts:
    """Of strings or bytes; nothing for null."""
    plain = column.cast(pa.binary())
    if plain.null_count:
        plain = plain.fill_null(b"")
    if not len(plain):
        return Texts(bytes(4), None, 0, 0)
    _, ends, data = plain.buffers()
    return Texts(ends, data, plain.offset, len(plain))


def _needed(batch: Any, name: str) -> Texts:
    column = batch.column(name)
    if column.null_count:
        raise TidelogError(f"column {name!r} is null in a row: every message needs one")
    return _texts(column)


def _headers(column: Any) -> tuple[Any, Texts, Texts]:
    """Where the pairs of each row end, their names and their values."""
    pairs = column.values
    ends = column.offsets.to_numpy(zero_copy_only=False)
    return ends, _texts(pairs.field("key")), _texts(pairs.field("value"))
