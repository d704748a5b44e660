import pytest

from tidelog.base.duration import DURATION_MAX_NS, format_duration, parse_duration_ns

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("100ms", 100_000_000),
        ("2s", 2 * SECOND),
        ("1m", 60 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("-1m", -60 * SECOND),
        ("+1m", 60 * SECOND),
        ("2562047h47m16.854775807s", DURATION_MAX_NS),
    ],
)
def test_reads_what_go_reads(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
    ],
)
def test_refuses_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration_ns(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (50_000_000, "50ms"),
        (SECOND, "1s"),
        (10_500_000_000, "10.5s"),
        (120 * SECOND, "2m0s"),
        (3600 * SECOND, "1h0m0s"),
        (3661 * SECOND, "1h1m1s"),
        (-SECOND, "-1s"),
    ],
)
def test_writes_as_go_writes(ns: int, text: str) -> None:
    assert format_duration(ns) == text
    assert parse_duration_ns(text) == ns
