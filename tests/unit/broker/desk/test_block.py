"""Bulk reads: blocks of Arrow, which together are what was asked for."""

import sys
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tidelog.base import limits
from tidelog.wire.header import decode
from unit.broker.desk.harbor import Harbor


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    for number in range(1, 21):
        harbor.publish(f"S.{number % 3}", b"m%d" % number, **({"A": "b"} if number == 5 else {}))
    for seq in (7, 8):
        harbor.ask("STREAM.MSG.DELETE.S", {"seq": seq})
    return harbor


def read(harbor: Harbor, **asked: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of all blocks, and what is said at the end."""
    rows: list[dict[str, Any]] = []
    *blocks, end = harbor.send("$TIDELOG.API.READ.S", msgspec.json.encode(asked) if asked else b"")
    for block in blocks:
        table = pa.ipc.open_stream(block.payload).read_all()
        said = decode(block.header).headers
        seqs = table["seq"].to_pylist()
        assert [said[f"Tidelog-{name}"] for name in ("First-Seq", "Last-Seq", "Messages")] == [
            [str(value)] for value in (seqs[0], seqs[-1], len(seqs))
        ]
        rows += table.to_pylist()
    last = decode(end.header)
    assert (last.status, last.description, end.payload) == (204, "EOB", b"")
    return rows, {name: values[0] for name, values in last.headers.items()}


def test_everything_that_is_committed(harbor: Harbor) -> None:
    rows, end = read(harbor)
    assert [row["seq"] for row in rows] == [*range(1, 7), *range(9, 21)]
    assert [row["payload"] for row in rows] == [b"m%d" % row["seq"] for row in rows]
    assert [row["subject"] for row in rows] == [f"S.{row['seq'] % 3}" for row in rows]
    assert [row["headers"] for row in rows if row["headers"]] == [b"NATS/1.0\r\nA: b\r\n\r\n"]
    assert end == {"Tidelog-Next-Seq": "21", "Nats-UpTo-Sequence": "20", "Nats-Num-Pending": "0"}


@pytest.mark.parametrize(
    ("asked", "seqs", "next_seq", "up_to"),
    [
        ({"start_seq": 5, "end_seq": 10}, [5, 6, 9], 10, 9),
        ({"start_seq": 19, "end_seq": 500}, [19, 20], 21, 20),
        ({"start_seq": 7, "end_seq": 9}, [], 9, 8),
        ({"start_seq": 50}, [], 50, 20),
        ({"filters": ["S.1"], "end_seq": 12}, [1, 4, 10], 12, 11),
        ({"filters": ["S.1", "S.2"], "end_seq": 6}, [1, 2, 4, 5], 6, 5),
        ({"filters": ["other"]}, [], 21, 20),
    ],
)
def test_a_range(harbor: Harbor, asked: dict[str, Any], seqs: list[int], next_seq: int, up_to: int) -> None:
    rows, end = read(harbor, **asked)
    assert [row["seq"] for row in rows] == seqs
    assert (end["Tidelog-Next-Seq"], end["Nats-UpTo-Sequence"]) == (str(next_seq), str(up_to))


def test_an_answer_is_bounded_and_the_next_goes_on_from_there(harbor: Harbor) -> None:
    seqs, next_seq, answers = [], 1, 0
    while next_seq <= 20:
        rows, end = read(harbor, start_seq=next_seq, max_bytes=200)
        seqs += [row["seq"] for row in rows]
        assert int(end["Nats-Num-Pending"]) == 18 - len(seqs)
        next_seq, answers = int(end["Tidelog-Next-Seq"]), answers + 1
    assert seqs == [*range(1, 7), *range(9, 21)]
    assert answers > 3


def test_a_large_answer_comes_in_several_blocks(harbor: Harbor) -> None:
    for _ in range(5):
        harbor.publish("S.large", b"x" * (limits.READ_BLOCK_SIZE // 2))
    heard = harbor.send("$TIDELOG.API.READ.S", b'{"start_seq": 21}')
    tables = [pa.ipc.open_stream(block.payload).read_all() for block in heard[:-1]]
    assert [table["seq"].to_pylist() for table in tables] == [[21, 22], [23, 24], [25]]


def test_what_retention_took_is_told(harbor: Harbor) -> None:
    harbor.ask("STREAM.PURGE.S", {"seq": 4})
    rows, end = read(harbor)
    assert rows[0]["seq"] == 4
    assert end["Tidelog-Trimmed"] == "1-3"


@pytest.mark.parametrize(
    ("subject", "body", "text"),
    [
        ("READ.NONE", b"", "stream not found"),
        ("READ.S", b'{"other": 1}', 'unknown field "other"'),
        ("READ.S", b'{"filters": ["a..b"]}', "is no subject or pattern"),
    ],
)
def test_what_cannot_be_read_is_refused(harbor: Harbor, subject: str, body: bytes, text: str) -> None:
    (reply,) = harbor.send(f"$TIDELOG.API.{subject}", body)
    assert reply.document["type"] == "io.tidelog.api.v1.read_response"
    assert text in reply.document["error"]["description"]


def test_without_pyarrow_it_says_what_to_install(harbor: Harbor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (reply,) = harbor.send("$TIDELOG.API.READ.S")
    assert "pip install 'tidelog[cold]'" in reply.document["error"]["description"]
