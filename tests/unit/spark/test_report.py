"""What the picture of a report shows where nothing came."""

from datetime import datetime, timedelta

from tidelog.spark.job.report import steps


def test_a_count_holds_for_its_minute_and_not_for_those_without_messages() -> None:
    first = datetime(2026, 1, 5, 9)
    second, fourth, fifth = (first + timedelta(minutes=count) for count in (1, 3, 4))
    assert list(steps([(first, 5), (second, 7), (fourth, 2)])) == [
        (first, 5),
        (second, 7),
        (second + timedelta(minutes=1), 0),
        (fourth, 2),
        (fifth, 0),
    ]
    assert list(steps([])) == []
