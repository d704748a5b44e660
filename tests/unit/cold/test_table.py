"""A stretch of a log as a Parquet file, and back."""

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.errors import ColdError
from tidelog.base.seqset import SequenceSet
from tidelog.cold.table import About, raw_subjects, read_table, write_table
from tidelog.log.columns import segment_columns
from tidelog.log.record import encode_message
from unit.log.segment import HEADER, SALT

# (seq, ts_ns, expiry_ns, subject, header, payload)
Row = tuple[int, int, int, bytes, bytes, bytes]
MESSAGES: list[Row] = [
    (3, -1_000_000_001, 0, b"a", b"", b""),
    (4, -1, 0, b"a.b", b"NATS/1.0\r\nA: b\r\n\r\n", b"payload"),
    (6, 999, 5_000_000_000, b"\xff.\xc3\xa9", b"", b"\x00\xff" * 300),
    (7, 1_700_000_000_123_456_789, 0, "a.é".encode(), b"NATS/1.0\r\n\r\n", b"x"),
]
ABOUT = About(account="$G", stream="S", log_id="00ff", start_seq=3, end_seq=9)


def file_of(rows: list[Row]) -> bytes:
    data = HEADER + b"".join(
        encode_message(seq, ts_ns, subject, header, payload, expiry_ns, SALT)
        for seq, ts_ns, expiry_ns, subject, header, payload in rows
    )
    columns, damaged = segment_columns(data, SALT, SequenceSet(), 1, 1 << 62)
    assert damaged == 0
    return write_table(columns, ABOUT)


def rows_of(table: Any) -> list[Row]:
    micros = table["ts"].cast(pa.int64()).to_pylist()
    return [
        (seq, us * 1000 + rest, expires or 0, subject, headers or b"", payload)
        for seq, us, rest, expires, subject, headers, payload in zip(
            table["seq"].to_pylist(),
            micros,
            table["ts_ns"].to_pylist(),
            table["expires_ns"].to_pylist(),
            raw_subjects(table).to_pylist(),
            table["headers"].to_pylist(),
            table["payload"].to_pylist(),
            strict=True,
        )
    ]


def test_everything_comes_back() -> None:
    """COLD-2"""
    about, table = read_table(file_of(MESSAGES))
    assert about == ABOUT
    assert rows_of(table) == MESSAGES


times = st.integers(-(10**18), 4 * 10**18)
messages = st.lists(
    st.tuples(
        times,
        st.integers(0, 4 * 10**18),
        st.binary(min_size=1, max_size=20),
        st.binary(max_size=20),
        st.binary(max_size=50),
    ),
    max_size=50,
)


@given(messages)
def test_whatever_was_written_is_read_again(drawn: list[tuple[int, int, bytes, bytes, bytes]]) -> None:
    """COLD-2"""
    rows = [(seq, *rest) for seq, rest in enumerate(drawn, 1)]
    assert rows_of(read_table(file_of(rows))[1]) == rows


def test_others_open_it_as_it_is(tmp_path: Any) -> None:
    (tmp_path / "one.parquet").write_bytes(file_of(MESSAGES))
    found = duckdb.sql(
        f"select seq, ts, subject, headers, payload from '{tmp_path}/*.parquet' where subject like 'a.%' order by seq"
    ).fetchall()
    assert [(row[0], row[2], row[3], row[4]) for row in found] == [
        (4, "a.b", b"NATS/1.0\r\nA: b\r\n\r\n", b"payload"),
        (7, "a.é", b"NATS/1.0\r\n\r\n", b"x"),
    ]
    assert found[1][1].astimezone(datetime.UTC) == datetime.datetime(
        2023, 11, 14, 22, 13, 20, 123456, tzinfo=datetime.UTC
    )


def test_a_reader_can_skip_by_statistics() -> None:
    group = pq.ParquetFile(pa.BufferReader(file_of(MESSAGES))).metadata.row_group(0)
    assert (group.column(0).statistics.min, group.column(0).statistics.max) == (3, 7)
    assert group.sorting_columns[0].column_index == 0


def test_an_empty_stretch() -> None:
    about, table = read_table(file_of([]))
    assert (about, table.num_rows) == (ABOUT, 0)


def test_damage_is_told() -> None:
    data = bytearray(file_of(MESSAGES))
    with pytest.raises(ColdError, match="no file of the cold tier, or it is damaged"):
        read_table(bytes(data[:-20]))
    data[10] ^= 0xFF
    with pytest.raises(ColdError, match="no file of the cold tier, or it is damaged"):
        read_table(bytes(data))


def test_a_stranger_s_file_is_told() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(ColdError, match="this is no file of the cold tier"):
        read_table(sink.getvalue().to_pybytes())
