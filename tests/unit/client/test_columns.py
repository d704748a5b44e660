"""Answers of Direct Get as columns: what is kept, what ends an answer, however it is cut."""

import itertools
import struct
from array import array
from datetime import UTC, datetime

import pytest

from tidelog.base.errors import ProtocolError
from tidelog.client.jetstream.columns import Columns, split_headers

SYSTEM = "Nats-Stream: S\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: {time}\r\n"
BATCH = "Nats-Num-Pending: {pending}\r\nNats-Last-Sequence: 0\r\n"
TIME = "2026-11-19T20:36:37.123456789Z"


def message(
    seq: int, payload: bytes = b"", *, subject: str = "a.b", own: str = "", time: str = TIME, pending: int = 7
) -> bytes:
    block = (
        "NATS/1.0\r\n" + own + (SYSTEM + BATCH).format(subject=subject, seq=seq, time=time, pending=pending)
    )
    return framed(block.encode() + b"\r\n", payload)


def framed(block: bytes, payload: bytes = b"", sid: bytes = b"1") -> bytes:
    return b"HMSG _INBOX.x %b %d %d\r\n%b%b\r\n" % (
        sid,
        len(block),
        len(block) + len(payload),
        block,
        payload,
    )


END = framed(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 3\r\n\r\n")


def listening(**options: bool) -> Columns:
    columns = Columns(**options)
    columns.listen(b"1")
    return columns


def longs(buffer: object) -> list[int]:
    data = bytes(memoryview(buffer))  # type: ignore[arg-type]
    return [number for (number,) in struct.iter_unpack("<q", data)]


def pieces(ends: object, data: object) -> list[bytes]:
    offsets = [number for (number,) in struct.iter_unpack("<i", bytes(memoryview(ends)))]  # type: ignore[arg-type]
    whole = bytes(memoryview(data))  # type: ignore[arg-type]
    return [whole[start:end] for start, end in itertools.pairwise(offsets)]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_messages_become_columns_however_they_are_cut(size: int) -> None:
    columns = listening()
    data = (
        message(1, b"one")
        + message(2, b"\xff\x00\r\n", subject="c")
        + message(3, time="2026-11-19T20:36:37Z")
        + END
    )
    for at in range(0, len(data), size):
        assert columns.feed(data[at : at + size]) == []
    assert (columns.status, columns.description, columns.num_pending) == (204, "EOB", 5)
    assert (columns.count, columns.first_seq, columns.last_seq) == (3, 1, 3)
    count, buffers = columns.take()
    assert count == 3
    assert longs(buffers[0]) == [1, 2, 3]
    whole = datetime(2026, 11, 19, 20, 36, 37, tzinfo=UTC)
    assert longs(buffers[1]) == [int(whole.timestamp()) * 1_000_000 + more for more in (123456, 123456, 0)]
    assert pieces(buffers[2], buffers[3]) == [b"a.b", b"c", b"a.b"]
    assert pieces(buffers[4], buffers[5]) == [b"one", b"\xff\x00\r\n", b""]
    assert columns.take()[0] == 0


@pytest.mark.parametrize(
    "time",
    [
        "1970-01-01T00:00:00Z",
        "2000-02-29T23:59:59.999999Z",
        "2024-03-01T00:00:00.5Z",
        "2100-12-31T12:00:00.1Z",
    ],
)
def test_times_are_those_of_the_calendar(time: str) -> None:
    columns = listening()
    columns.feed(message(1, time=time))
    expected = (datetime.fromisoformat(time) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6
    assert longs(columns.take()[1][1]) == [round(expected)]


def test_headers_of_the_publisher_are_kept_and_the_servers_are_not() -> None:
    columns = listening(with_headers=True)
    columns.feed(
        message(1, own="A: 1\r\nNats-Stream: OTHER\r\nNats-Sequence: 99\r\nB:\r\nno colon\r\n") + message(2)
    )
    count, buffers = columns.take()
    assert (count, longs(buffers[0])) == (2, [1, 2])
    assert pieces(buffers[7], buffers[8]) == [b"A", b"Nats-Stream", b"Nats-Sequence", b"B"]
    assert pieces(buffers[9], buffers[10]) == [b"1", b"OTHER", b"99", b""]
    assert struct.unpack("<3i", bytes(memoryview(buffers[6]))) == (0, 4, 4)


def test_what_lies_behind_the_end_is_seen_and_not_kept() -> None:
    columns = listening()
    columns.end_seq = 5
    columns.feed(message(4) + message(5) + message(9))
    assert (columns.count, columns.first_seq, columns.last_seq) == (1, 4, 9)


def test_other_subscriptions_and_the_servers_words_are_handed_on() -> None:
    columns = listening()
    found = columns.feed(
        b"PING\r\nMSG s 2 2\r\nhi\r\n" + framed(b"NATS/1.0 503\r\n\r\n", sid=b"11") + message(1)
    )
    assert [operation[0] for operation in found] == ["PING", "MSG", "MSG"]
    assert (columns.count, columns.status) == (1, 0)


@pytest.mark.parametrize(
    ("line", "status"),
    [(b"NATS/1.0 404 Message Not Found", 404), (b"NATS/1.0 503", 503), (b"NATS/1.0 what", 500)],
)
def test_a_status_ends_the_answer(line: bytes, status: int) -> None:
    columns = listening()
    columns.feed(framed(line + b"\r\n\r\n"))
    assert (columns.status, columns.count) == (status, 0)
    columns.expect()
    assert columns.status == 0


@pytest.mark.parametrize(
    "data", [b"MSG s 1 2\r\nhi\r\n", framed(b"NATS/1.0\r\nNats-Stream: S\r\n\r\n"), message(1, subject="")]
)
def test_an_answer_without_its_headers_is_none(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        listening().feed(data)


def test_what_was_taken_outlives_the_columns() -> None:
    columns = listening()
    columns.feed(message(1, b"kept"))
    _, buffers = columns.take()
    columns.feed(message(2, b"next"))
    del columns
    assert pieces(buffers[4], buffers[5]) == [b"kept"]


def test_header_blocks_are_split_as_those_of_answers_are() -> None:
    own = ["", "A: 1\r\nB:  two words \r\nA:\r\nno colon\r\n: no name\r\n", "Nats-Stream: x\r\nK: \xe9\r\n"]
    columns = listening(with_headers=True)
    columns.feed(b"".join(message(seq, own=text) for seq, text in enumerate(own, 1)) + END)
    expected = columns.take()[1][6:]
    blocks = [f"NATS/1.0\r\n{text}\r\n".encode() if text else b"" for text in own]
    ends = list(itertools.accumulate(map(len, blocks), initial=3))
    found = split_headers(array("i", ends), b"xyz" + b"".join(blocks))
    assert [bytes(memoryview(buffer)) for buffer in found] == [
        bytes(memoryview(buffer)) for buffer in expected
    ]
    assert pieces(*found[1:3]) == [b"A", b"B", b"A", b"Nats-Stream", b"K"]
    with pytest.raises(ValueError, match="is not in 5 bytes"):
        split_headers(array("i", [0, 6]), b"12345")
