"""What a task finds of its own in a stream, whatever its connection was used for before."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from spark.stage import Stage, argv_of
from tidelog.client.jetstream import Outgoing
from tidelog.client.jetstream.flight import Acks, Rows, Texts
from tidelog.spark.delivery import Delivery
from tidelog.spark.link import lease
from tidelog.spark.marker import Markers, Stored
from tidelog.spark.option import read_options, write_options
from tidelog.spark.plan import Piece
from tidelog.spark.task import read_piece


def test_rows_are_found_by_their_ids_on_a_connection_that_read_before(stage: Stage) -> None:
    """SPARK-4."""
    stream = stage.new_stream()
    options = write_options({"servers": stage.url, "stream": stream})
    reading = read_options(
        {"servers": stage.url, "stream": stream, "includeHeaders": "true"}, streaming=False
    )
    stage.fill(stream, 3)
    created = stage.js.stream_info(stream).created
    assert sum(batch.num_rows for batch in read_piece(reading, Piece(stream, created, 1, 3))) == 2
    with lease(options.connect, Acks) as link:
        markers = Markers(link, options, "query", stream)
        begun = markers.begin(7, 0, "query:7:0:")
        assert (begun.begun_before, begun.rows()) == (False, set())
        ids = ["query:7:0:0", "query:7:0:2", "query:7:1:1", "query:70:0:5"]
        stage.publish([Outgoing(f"{stream}.x", b"", msg_id=msg_id) for msg_id in ids])
        again = markers.begin(7, 0, "query:7:0:")
        assert (again.begun_before, again.rows(), begun.rows()) == (True, {0, 2}, {0, 2})
        assert not markers.begin(8, 0, "query:8:0:").begun_before
        assert not markers.is_committed(8)
        markers.commit(8)
        markers.commit(6)
        assert [markers.is_committed(batch) for batch in (7, 8, 9)] == [True, True, False]


@pytest.mark.parametrize("known", [True, False])
def test_what_was_stored_before_the_server_died_is_not_stored_again_when_its_ids_are_forgotten(
    tmp_path: Path, known: bool
) -> None:
    """SPARK-4: acknowledgements that never came, and a server that was away for longer than the duplicate window."""
    window_s = 0.2
    with Stage(argv_of("tidelog"), tmp_path) as stage:
        stream = stage.new_stream(duplicate_window=int(window_s * 1e9))
        options = write_options({"servers": stage.url, "stream": stream})
        with lease(options.connect, Acks) as link:
            stored = Stored.from_now_on(link, options, stream, "job:0:0:")
            delivery = Delivery(
                link,
                stream=stream,
                max_count=1000,
                max_size=1_000_000,
                msg_id="job:0:0:",
                repeatable=True,
                stored=stored.rows if known else tuple,
            )
            columns = pa.array([b"%d" % number for number in range(100)], pa.binary()).buffers()
            delivery.send(Rows(Texts(columns[1], columns[2], 0, 100), subject=f"{stream}.x".encode()))
            while stage.js.stream_info(stream).state.messages < 100:
                stage.js.connection.flush()
            # Before an acknowledgement is read.
            link.connection()._fail("the way is gone")
            stage.kill()
            time.sleep(window_s)
            stage.start()
            delivery.finish()
            assert delivery.stored == 100
        values = [int(held.value) for held in stage.held(stream)]
        assert set(values) == set(range(100))
        assert (len(values) == 100) == known
