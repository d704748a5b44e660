"""What a task finds of its own in a stream, whatever its connection was used for before."""

from spark.stage import Stage
from tidelog.client.jetstream import Outgoing
from tidelog.client.jetstream.flight import Acks
from tidelog.spark.link import lease
from tidelog.spark.marker import Markers
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
        assert markers.begin(7, 0, "query:7:0:") == set()
        ids = ["query:7:0:0", "query:7:0:2", "query:7:1:1", "query:70:0:5"]
        stage.publish([Outgoing(f"{stream}.x", b"", msg_id=msg_id) for msg_id in ids])
        assert markers.begin(7, 0, "query:7:0:") == {0, 2}
        assert markers.begin(8, 0, "query:8:0:") == set()
        assert not markers.is_committed(8)
        markers.commit(8)
        markers.commit(6)
        assert [markers.is_committed(batch) for batch in (7, 8, 9)] == [True, True, False]
