"""The table of cases keeps the promises that runs rely on."""

import pytest

from tidelog.bench.case import CASES, RATE, Access, Case, Goal, Kind, chosen
from tidelog.bench.run import sole_match
from tidelog.bench.workload import delivered, lap, matches


def test_names_are_unique_and_select_in_order_of_the_table() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert [case.name for case in chosen(CASES, ("tls", "pub-16"))] == ["pub-16", "tls"]
    assert chosen(CASES, ()) == list(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_subject_reaches_every_subscriber(case: Case) -> None:
    assert all(matches(case.listen, subject) for subject in case.subjects)
    assert case.lap_count() % len(case.subjects) == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.publishers > 1], ids=lambda case: case.name)
def test_frames_of_several_publishers_can_be_told_apart(case: Case) -> None:
    several = [
        delivered(lap(case.subjects, size=case.size, count=case.lap_count(), publisher=number))
        for number in range(case.publishers)
    ]
    place = several[0].mark_at
    assert place > 0
    assert len({one.data[:place] for one in several}) == 1
    assert len({one.data[place] for one in several}) == case.publishers


def test_wildcards_case_has_a_thousand_patterns_of_which_some_match() -> None:
    (case,) = chosen(CASES, ("wildcards",))
    assert len(set(case.patterns)) == 1000
    sid_of = sole_match({pattern: pattern for pattern in case.patterns}, case.subjects)
    hit = [subject for subject in case.subjects if sid_of(subject)]
    assert len(hit) == 400
    assert len({sid_of(subject) for subject in hit}) == 130


def test_two_matches_on_one_connection_are_refused() -> None:
    with pytest.raises(ValueError, match="matches 2"):
        sole_match({"a.*": "1", "*.b": "2"}, ("a.b",))


@pytest.mark.parametrize(
    ("goal", "ratio", "met"),
    [
        (Goal(3), 3.0, True),
        (Goal(3), 2.99, False),
        (Goal(0.9, at_least=False), 0.9, True),
        (Goal(0.9, at_least=False), 0.91, False),
    ],
)
def test_goal_at_its_edge(goal: Goal, ratio: float, met: bool) -> None:
    assert goal.met_by(ratio) is met


def test_goals_read_as_the_design_has_them() -> None:
    goals = {(case.name, unit): str(goal) for case in CASES for unit, goal in case.goals.items()}
    assert goals == {
        ("pub-16", RATE): ">= 3",
        ("pub-128", RATE): ">= 3",
        ("one-16", RATE): ">= 3",
        ("one-16k", RATE): ">= 1.5",
        ("fan-out", RATE): ">= 1.5",
        ("many", RATE): ">= 1.5",
        ("request", "p50"): "<= 0.9",
        ("request", "p99"): "<= 1",
        ("wildcards", RATE): ">= 1",
        ("headers", RATE): ">= 1",
        ("permissions", RATE): ">= 1",
        ("tls", RATE): ">= 1",
    }


def test_only_plain_connections_make_requests() -> None:
    assert all(case.access is not Access.TLS for case in CASES if case.kind is Kind.REQUEST)
