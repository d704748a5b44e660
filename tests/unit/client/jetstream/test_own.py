"""What only Tidelog says of a stream."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.base.errors import ApiError
from tidelog.base.limits import COUNTED_RANGES
from tidelog.client.jetstream import JetStream
from tidelog.client.jetstream.answer import read_document
from tidelog.client.jetstream.own import count_ranges, log_info
from tidelog.testing import Server


@pytest.fixture(scope="module")
def js(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStream]:
    folder: Path = tmp_path_factory.mktemp("store")
    with Server(flags=["-js", "-sd", str(folder)]) as server:
        js = JetStream(server.connect())
        js.create_stream({"name": "S", "subjects": ["s"], "storage": "file"})
        for _ in range(30):
            js.publish("s", b"")
        for seq in (1, 10, 11, 30):
            js.delete_message("S", seq)
        yield js


def test_ranges_are_counted(js: JetStream) -> None:
    ranges = [(1, 31), (1, 2), (2, 10), (9, 12), (12, 12), (20, 10), (0, 5), (25, 1000), (1000, 2000)]
    assert count_ranges(js, "S", ranges) == [26, 0, 8, 1, 0, 0, 3, 5, 0]
    assert count_ranges(js, "S", []) == []


def test_more_ranges_than_one_request_takes(js: JetStream) -> None:
    ranges = [(seq % 30 + 1, seq % 30 + 2) for seq in range(COUNTED_RANGES + 5)]
    gone = {1, 10, 11, 30}
    assert count_ranges(js, "S", ranges) == [int(start not in gone) for start, _ in ranges]
    body = b'{"ranges": [%s]}' % b",".join([b"{}"] * (COUNTED_RANGES + 1))
    answer = js.connection.request("$TIDELOG.API.STREAM.COUNT.S", body)
    with pytest.raises(ApiError, match="more than 1024 ranges"):
        read_document(answer.payload)


def test_a_log_says_whose_it_is(js: JetStream) -> None:
    info = log_info(js, "S")
    assert (info.account, len(info.log_id), info.last_seq, info.cold_url) == ("$G", 32, 30, "")
    with pytest.raises(ApiError, match="stream not found"):
        log_info(js, "NONE")
