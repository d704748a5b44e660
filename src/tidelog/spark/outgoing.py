"""Rows on their way to a stream: which columns there must be, and how they become messages.

    subject   (or `topic`)  where to; the option `subject` is for all rows and wins over the column, as Kafka's does
    value     required, binary or string; null is an empty payload
    headers   array<struct<key: string, value: binary or string>>
    msgId     with dedupe=column: the message's id

Other columns are left alone, so a frame that was read from a stream can be written as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

from tidelog.base.errors import TidelogError
from tidelog.spark.option import OptionError, WriteOptions
from tidelog.wire.header import Headers

SUBJECT_COLUMNS = ("subject", "topic")
TEXT = (StringType, BinaryType)


class Outgoing(NamedTuple):
    subject: str
    value: bytes
    headers: Headers | None
    msg_id: str


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

    def read(self, batch: Any) -> Iterator[Outgoing]:
        count = batch.num_rows
        subjects: list[str | None] = [self._fixed_subject] * count
        if not self._fixed_subject:
            subjects = batch.column(self._subject).to_pylist()
        values = batch.column("value").cast(pa.binary()).to_pylist()
        headers: list[Any] = batch.column("headers").to_pylist() if self._headers else [None] * count
        ids: list[str | None] = batch.column("msgId").to_pylist() if self._by_column else [""] * count
        for subject, value, pairs, msg_id in zip(subjects, values, headers, ids, strict=True):
            if subject is None or msg_id is None:
                name = self._subject if subject is None else "msgId"
                raise TidelogError(f"column {name!r} is null in a row: every message needs one")
            yield Outgoing(subject, value or b"", _named(pairs) if pairs else None, msg_id)

    def _check(self, types: Mapping[str, DataType], name: str, kinds: tuple[type[DataType], ...]) -> None:
        if not isinstance(types[name], kinds):
            wanted = " or ".join(kind().simpleString() for kind in kinds)
            raise TidelogError(f"column {name!r} must be {wanted}, not {types[name].simpleString()}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return isinstance(fields.get("key"), StringType) and isinstance(fields.get("value"), TEXT)


def _named(pairs: list[dict[str, Any]]) -> Headers:
    """Bytes as text, and such bytes as are no text as the escapes that go out as those bytes again."""
    named: Headers = {}
    for pair in pairs:
        value = pair["value"]
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value or ""
        named.setdefault(pair["key"], []).append(text)
    return named
