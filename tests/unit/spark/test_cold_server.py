"""History that the server keeps by itself: found without an option, and read without it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.client.jetstream import JetStream, Publisher, StreamReader
from tidelog.client.jetstream.own import log_info
from tidelog.cold.bucket import open_bucket
from tidelog.cold.compaction import Compaction
from tidelog.cold.history import find_history
from tidelog.spark.batch import BatchReader
from tidelog.spark.door import Watch
from tidelog.spark.option import read_options
from tidelog.spark.plan import Piece
from tidelog.spark.task import ServerDoor
from tidelog.testing import Server

COUNT, SIZE = 1200, 4096


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = "tidelog { cold { keep: forever } }"
    with Server(config, flags=["-js", "-sd", str(tmp_path_factory.mktemp("store"))]) as server:
        yield server


@pytest.fixture(scope="module")
def js(server: Server) -> Iterator[JetStream]:
    """With a stream of which all but the end is in the cold tier."""
    js = JetStream(server.connect())
    js.create_stream(
        {
            "name": "S",
            "subjects": ["s.>"],
            "allow_direct": True,
            "max_bytes": 100 << 20,
            "duplicate_window": 100_000_000,
            "metadata": {"tidelog.local_bytes": "256K"},
        }
    )
    return js


def fill(js: JetStream, start: int, count: int) -> None:
    publisher = Publisher(js.connection)
    for seq in range(start, start + count):
        publisher.publish(
            f"s.{seq % 5}", b"%06d" % seq + bytes(SIZE), headers={"N": str(seq)} if seq % 3 else None
        )
    publisher.flush()
    publisher.close()


def archived(js: JetStream, least: int) -> int:
    """How far the archive goes, when at least so much is in it and it rests."""
    end = time.monotonic() + 20
    while True:
        cold = log_info(js, "S").document["cold"]
        if cold["archived_seq"] >= least and not cold["lag_segments"]:
            return int(cold["archived_seq"])
        assert time.monotonic() < end, cold
        time.sleep(0.02)


def rows(server: Server, **options: object) -> list[dict[str, Any]]:
    given = {"servers": server.url, "stream": "S"} | {key: str(value) for key, value in options.items()}
    reader = BatchReader(read_options(given, streaming=False))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_history_is_found_and_stays_right_whatever_happens_to_it(
    server: Server, js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK-1"""
    fill(js, 1, COUNT)
    reach = archived(js, COUNT * 3 // 4)
    asked: list[tuple[int, int]] = []
    read = ServerDoor.read

    def noted(self: ServerDoor, piece: Piece, watch: Watch) -> Any:
        asked.append((piece.start_seq, piece.end_seq))
        return read(self, piece, watch)

    monkeypatch.setattr(ServerDoor, "read", noted)
    found = rows(server, includeHeaders=True, minPartitions=1)
    assert asked == [(reach, COUNT + 1)]
    assert found == rows(server, includeHeaders=True, readFrom="server")
    assert [row["seq"] for row in found] == list(range(1, COUNT + 1))
    # Deleted behind the archive's back.
    for seq in (5, 100, 700):
        js.delete_message("S", seq, erase=False)
    found = [row for row in found if row["seq"] not in (5, 100, 700)]
    assert rows(server, includeHeaders=True, minPartitions=3) == found
    # Merged, and the old files are gone at once.
    url = log_info(js, "S").cold_url
    history = find_history(open_bucket(url), "S")
    done = Compaction(open_bucket(url), history.place, grace_s=0).run()
    assert done.merged == len(history.manifest.entries) > 5
    assert done.removed == done.merged
    assert rows(server, includeHeaders=True, minPartitions=3) == found
    assert [message.seq for message in StreamReader(js, "S").forward()] == [row["seq"] for row in found]
    # The server goes on behind the file that it did not write.
    fill(js, COUNT + 1, 400)
    assert archived(js, COUNT + 200) > reach
    assert [row["seq"] for row in rows(server)] == [
        *(row["seq"] for row in found),
        *range(COUNT + 1, COUNT + 401),
    ]
    # A stream is what its server says; the archive is asked for by its URL.
    js.purge_stream("S", seq=300)
    assert rows(server)[0]["seq"] == 300
    assert [row["seq"] for row in rows(server, coldUrl=url)][:3] == [1, 2, 3]
    assert len(rows(server, coldUrl=url)) == len(rows(server)) + 299
