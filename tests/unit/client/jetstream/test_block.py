"""Bulk reads from a server in this process, as somebody with pandas or polars does them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidelog.base.errors import ApiError
from tidelog.client.jetstream import JetStream, Publisher
from tidelog.client.jetstream.block import END_OF_BATCH, BlockReader
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription
from tidelog.testing import Server


@pytest.fixture(scope="module")
def js(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStream]:
    folder: Path = tmp_path_factory.mktemp("store")
    with Server(flags=["-js", "-sd", str(folder)]) as server:
        js = JetStream(server.connect())
        js.create_stream({"name": "S", "subjects": ["s.>"], "storage": "memory"})
        publisher = Publisher(js.connection)
        for number in range(1, 5001):
            publisher.publish(f"s.{number % 7}", b"%d" % number + b"x" * 400)
        publisher.flush()
        publisher.close()
        yield js


def seqs(reader: BlockReader, *args: int, **more: object) -> list[int]:
    found: list[int] = []
    for block in reader.blocks(*args, **more):  # type: ignore[arg-type]
        table = pa.ipc.open_stream(block.data).read_all()
        rows = table["seq"].to_pylist()
        assert (rows[0], rows[-1], len(rows)) == (block.first_seq, block.last_seq, block.messages)
        found += rows
    return found


def test_all_of_a_stream(js: JetStream) -> None:
    reader = BlockReader(js, "S")
    assert seqs(reader) == list(range(1, 5001))
    assert (reader.lost, reader.trimmed) == ([], [])


def test_a_range_by_filter_in_many_answers(js: JetStream) -> None:
    wanted = [seq for seq in range(100, 4000) if seq % 7 in (2, 3)]
    assert seqs(BlockReader(js, "S"), 100, 4000, filters=["s.2", "s.3"], max_bytes=10_000) == wanted


def test_what_is_not_there_is_told(js: JetStream) -> None:
    js.create_stream({"name": "T", "subjects": ["t"], "storage": "memory", "max_msgs": 3})
    for _ in range(5):
        js.publish("t", b"")
    reader = BlockReader(js, "T")
    assert seqs(reader) == [3, 4, 5]
    assert reader.trimmed == [(1, 2)]


def test_nothing_in_the_range(js: JetStream) -> None:
    assert seqs(BlockReader(js, "S"), 6000) == []


def test_a_stream_that_is_not_there(js: JetStream) -> None:
    with pytest.raises(ApiError, match="stream not found"):
        seqs(BlockReader(js, "NONE"))


def test_who_takes_time_over_a_block_keeps_nobody_waiting(
    js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server closes a connection that does not read for long; what it sends for one request is taken in at once."""
    statuses: list[int] = []
    taken = BlockReader._next

    def noted(reader: BlockReader, inbox: Subscription) -> Message:
        message = taken(reader, inbox)
        statuses.append(message.status)
        return message

    monkeypatch.setattr(BlockReader, "_next", noted)
    blocks = BlockReader(js, "S").blocks()
    assert next(blocks).first_seq == 1
    assert statuses[-1] == END_OF_BATCH
    assert len(list(blocks)) == len(statuses) - 2 > 1
