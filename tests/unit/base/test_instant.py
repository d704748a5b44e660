import pytest

from tidelog.base.instant import NO_TIME, instant_ns, read_instant, timestamp, timestamp_or_none


@pytest.mark.parametrize(
    ("text", "spelled", "ns"),
    [
        ("1970-01-01T00:00:01Z", "1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:00.5000Z", "1970-01-01T00:00:00.5Z", 500_000_000),
        ("1970-01-01T00:00:00.1234567899Z", "1970-01-01T00:00:00.123456789Z", 123_456_789),
        ("1970-01-01T02:00:00+02:00", "1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:30:00-01:30", "1969-12-31T22:30:00-01:30", 0),
        ("1970-01-01T00:00:02+00:00", "1970-01-01T00:00:02Z", 2_000_000_000),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z", -1_000_000_000),
        (NO_TIME, NO_TIME, 0),
    ],
)
def test_a_time_is_read_and_spelled_shortest(text: str, spelled: str, ns: int) -> None:
    assert read_instant(text) == spelled
    assert instant_ns(spelled) == ns


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("2024-1-01T00:00:00Z", 'cannot parse "1-01T00:00:00Z" as "01"'),
        ("2024-01-01 00:00:00Z", 'cannot parse " 00:00:00Z" as "T"'),
        ("2024-01-01T00:00:00", 'cannot parse "" as "Z07:00"'),
        ("2024-01-01T00:00:00Zx", 'parsing time "2024-01-01T00:00:00Zx": extra text: "x"'),
        ("2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("1900-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T24:00:00Z", "hour out of range"),
        ("2024-01-01T00:60:00Z", "minute out of range"),
        ("2024-01-01T00:00:60Z", "second out of range"),
    ],
)
def test_what_is_no_time_is_refused_in_words_of_go(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match="parsing time") as refused:
        read_instant(text)
    assert fault in str(refused.value)


def test_no_time_is_the_first_year() -> None:
    assert timestamp_or_none(0) == NO_TIME
    assert timestamp_or_none(1) == timestamp(1) == "1970-01-01T00:00:00.000000001Z"
