"""When something that repeats is due."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tidelog.stream.cron import parse_cron

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def seconds(text: str, zone: ZoneInfo = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("* * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("0 0 * * * *", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("0 0 0 1 1 *", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("*/15 * * * * *", "2026-01-01T00:00:46", "2026-01-01T00:01:00"),
        ("5/20 * * * * ?", "2026-01-01T00:00:05", "2026-01-01T00:00:25"),
        ("0 30 9-11,17 * * *", "2026-01-01T11:30:00", "2026-01-01T17:30:00"),
        ("0 0 0 29 feb *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 0 * * mon-wed", "2026-01-01T00:00:00", "2026-01-05T00:00:00"),
        ("0 0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 0 */1 * fri", "2026-01-02T00:00:00", "2026-01-09T00:00:00"),
        ("59 59 23 31 12 *", "2026-12-31T23:59:58", "2026-12-31T23:59:59"),
    ],
)
def test_the_next_time_is_the_first_that_matches(text: str, after: str, due: str) -> None:
    assert parse_cron(text).next(seconds(after), UTC) == seconds(due)


def test_times_are_those_of_the_zone() -> None:
    daily = parse_cron("0 30 2 * * *")
    assert daily.next(seconds("2026-01-01T00:00:00"), BERLIN) == seconds("2026-01-01T01:30:00")
    # In this night half past two does not come, and in the other it comes twice.
    assert daily.next(seconds("2026-03-28T12:00:00"), BERLIN) == seconds("2026-03-30T02:30:00", BERLIN)
    first = daily.next(seconds("2026-10-24T12:00:00"), BERLIN)
    assert first == seconds("2026-10-25T00:30:00")
    assert daily.next(first, BERLIN) == seconds("2026-10-25T01:30:00")


def test_what_never_comes_is_told() -> None:
    assert parse_cron("0 0 0 30 2 *").next(0, UTC) is None


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *", "60 * * * * *", "* * 24 * * *", "* * * 0 * *", "* * * * 13 *", "* * * * * 7", "*/0 * * * * *",
        "5-1 * * * * *", "x * * * * *", "1-2-3 * * * * *", "1/2/3 * * * * *", "-1 * * * * *", "* * * * * *x",
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_cron(text)
