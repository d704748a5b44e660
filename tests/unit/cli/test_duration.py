import pytest

from tidelog.cli import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("300ms", 0.3),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("2", 2),
        (".5", 0.5),
        ("10us", 1e-5),
        ("0s", 0),
    ],
)
def test_parse_reads_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert duration.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5x", "5s5", "-1s", "1 s", "s5", "five"])
def test_parse_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5s"), (0.0123, "12.3ms"), (4.5e-5, "45µs"), (1e-7, "100ns"), (0, "0ns")]
)
def test_show_takes_the_unit_that_suits(seconds: float, text: str) -> None:
    assert duration.show(seconds) == text
