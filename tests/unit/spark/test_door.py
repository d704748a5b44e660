"""Direct Get, without a server: what is asked for, and what comes of it."""

from typing import Any

import pyarrow as pa
import pytest

from tidelog.spark.door import Answer, DirectDoor, Watch
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns

STORED = list(range(1, 400, 2))


class Asked:
    """A link that just asks."""

    def attempt(self, question: Any) -> Any:
        return question()


@pytest.mark.parametrize("counted", [0, 10, 100, 150, 1000])
def test_a_count_that_is_wrong_by_now_costs_no_rows(counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-1: messages come, and go, between the two questions whose difference it is."""

    def answer(_: DirectDoor, piece: Piece, next_seq: int, count: int, subject: str) -> Answer:
        found = [seq for seq in STORED if seq >= next_seq][:count]
        rows = [seq for seq in found if seq < piece.end_seq]
        seqs, texts = pa.array(rows, pa.int64()), pa.array([subject] * len(rows))
        columns = MessageColumns("S", len(rows), seqs, seqs.cast(pa.timestamp("us", tz="UTC")), texts, texts)
        return Answer(columns, found[0] if found else 0, found[-1] if found else 0)

    monkeypatch.setattr(DirectDoor, "_ask", answer)
    monkeypatch.setattr(DirectDoor, "_count", lambda *_: counted)
    link: Any = Asked()
    watch = Watch()
    found = DirectDoor(link, ("a",)).read(Piece("S", "c", 5, 301), watch)
    assert [seq for columns in found for seq in columns.seq.to_pylist()] == [
        seq for seq in STORED if 5 <= seq < 301
    ]
    assert watch.short == (counted > 148)
