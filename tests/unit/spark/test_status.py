"""What checkpoints say of queries, where no server needs to be asked."""

import json
from pathlib import Path

from tidelog.spark.job.status import read_progress
from tidelog.spark.offset import Mark, Offset
from tidelog.spark.option import connect_options


def test_a_query_over_history_alone(tmp_path: Path) -> None:
    checkpoint = tmp_path / "query"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").touch()
    offset = json.dumps(Offset({"S": Mark(42, f"log {bytes(16).hex()}")}).as_json())
    (checkpoint / "offsets" / "7").write_text(f"v1\n{{}}\n{offset}\n")
    (found,) = read_progress(tmp_path, connect_options({"servers": "nats://127.0.0.1:1"}))
    assert (found.stream, found.batch, found.seq, found.lag) == ("S", 7, 42, 0)
    assert found.note == "history is read without a server"
