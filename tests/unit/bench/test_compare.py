"""Medians, ratios and verdicts; the runs themselves are in tests/conform."""

import sys

from tidelog.bench.case import CASES, RATE, Goal, chosen
from tidelog.bench.compare import Row, compare


def test_ratio_is_that_of_the_medians() -> None:
    row = Row("x", "x", RATE, (10.0, 1.0, 9.0), (3.0, 3.0, 100.0), Goal(3))
    assert (row.ours, row.peer, row.ratio, row.met) == (9.0, 3.0, 3.0, True)
    assert Row("x", "x", RATE, (1.0,), (1.0,)).met is None
    assert Row("x", "x", "us", (2.0,), (1.0,), Goal(1.0, at_least=False)).met is False


def test_case_that_fails_gives_a_reason_and_no_row() -> None:
    broken = (sys.executable, "-c", "raise SystemExit('broken on purpose')")
    said: list[str] = []
    result = compare(
        chosen(CASES, ("pub-16",)), ours=broken, peer=broken, rounds=1, scale=0.1, progress=said.append
    )
    assert result.rows == []
    assert "broken on purpose" in result.failures["pub-16"]
