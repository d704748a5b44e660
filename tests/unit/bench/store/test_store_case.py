"""Every case of `tidelog bench store`, at a size that takes no time: so that none of them rots."""

from pathlib import Path

import pytest

from tidelog.bench.case import chosen
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.store.case import CASES, StoreCase
from tidelog.bench.store.child import open_once
from tidelog.bench.store.stage import ChildFailed, Stage, child

SCALE = 0.0005


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("store"), SCALE, rounds=1)


def test_names_are_unique_and_select_in_order_of_the_table() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert [case.name for case in chosen(CASES, ("reopen", "append-memory"))] == ["append-memory", "reopen"]
    assert chosen(CASES, ()) == list(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_does_its_work_and_gives_figures(case: StoreCase, stage: Stage) -> None:
    figures = list(case.work.measure(stage))
    assert figures
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(figure.rounds for figure in figures)


def test_goals_of_the_project_are_those_of_the_cases(stage: Stage) -> None:
    goals = {
        case.name: [str(figure.goal) for figure in case.work.measure(stage) if figure.goal]
        for case in chosen(CASES, ("append-memory", "search-few", "cursor"))
    }
    assert goals == {"append-memory": [">= 3"], "search-few": ["<= 1"] * 4, "cursor": ["<= 100"]}


def test_a_log_that_is_short_of_a_message_is_no_figure(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stage.killed_log(2_000_000, 2000)
    with stage.copied(path) as copy, pytest.raises(WrongDelivery, match="of 99999999 messages"):
        open_once(stage, str(copy), "99999999", "1")
    assert capsys.readouterr().out == ""


def test_what_a_child_says_when_it_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="KeyError"):
        child(Stage(tmp_path), "no-such-job")
