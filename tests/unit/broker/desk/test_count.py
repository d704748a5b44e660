"""Ranges of sequences are counted from the index."""

from unit.broker.desk.harbor import Harbor
from unit.broker.desk.test_cursor import own


def test_what_is_in_ranges() -> None:
    harbor = Harbor()
    harbor.stream()
    for _ in range(10):
        harbor.publish("S.a")
    ranges = [
        {"start_seq": 1, "end_seq": 11},
        {"start_seq": 3, "end_seq": 5},
        {"start_seq": 5, "end_seq": 5},
        {},
    ]
    assert own(harbor, "STREAM.COUNT.S", {"ranges": ranges})["counts"] == [10, 2, 0, 0]
