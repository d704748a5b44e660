"""The peer-suite runner reads outcomes and compares them as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from conform.peer_kind import FAIL, PASS, SKIP, read_deno, read_deno_hung, read_junit, read_program
from conform.peer_suite import UNSTEADY, Baseline, describe, server_dir


def test_junit_names_keep_class_and_parameters() -> None:
    report = """<testsuites><testsuite>
      <testcase classname="tests.test_a.Some" name="test_one" file="tests/test_a.py"/>
      <testcase classname="tests.test_a" name="test_two[3]" file="tests/test_a.py"><failure/></testcase>
      <testcase classname="tests.test_a" name="test_three" file="tests/test_a.py"><error/></testcase>
      <testcase classname="tests.test_a" name="test_four" file="tests/test_a.py"><skipped/></testcase>
    </testsuite></testsuites>"""
    assert read_junit(report) == {
        "test_a.py::Some::test_one": PASS,
        "test_a.py::test_two[3]": FAIL,
        "test_a.py::test_three": FAIL,
        "test_a.py::test_four": SKIP,
    }


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("== A ==\n#01 Connect: PASSED\nALL PASSED\n", PASS),
        ("== A ==\n#01 Connect: FAILED\n*** TEST FAILED ***\n", FAIL),
        ("== A ==\n#01 Connect: PASSED\n", FAIL),
        ("#01 Skipping since requires server version of at least 2.3.5: PASSED\nALL PASSED\n", SKIP),
        ("", FAIL),
    ],
)
def test_program_passes_only_if_it_says_so(text: str, outcome: str) -> None:
    assert read_program(text) == outcome


def test_deno_lines_are_read_past_output_steps_and_repeated_names() -> None:
    text = """running 4 tests from ./core/tests/a_test.ts
auth - one ... ok (125ms)
auth - one ... FAILED (1ms)
\x1b[0mauth - two ... \x1b[0m\x1b[33mignored\x1b[0m
noisy ...
------- output -------
something ... happened
----- output end -----
noisy ... ok (5s)
hung ...
"""
    assert read_deno("a_test.ts", text) == {
        "a_test.ts::auth - one": PASS,
        "a_test.ts::auth - one #2": FAIL,
        "a_test.ts::auth - two": SKIP,
        "a_test.ts::noisy": PASS,
    }


def test_the_deno_test_under_way_is_the_one_that_hung() -> None:
    text = "a - one ... ok (1ms)\nb - two ...'b - two' has been running for over (1m0s)\n"
    assert read_deno_hung(text) == "b - two"
    assert read_deno_hung("a - one ... ok (1ms)\n") == "a - one"
    assert read_deno_hung("running 4 tests\n") is None


def test_only_steady_passes_without_needs_are_targets() -> None:
    baseline = Baseline(needs={"needs": "jwt"})
    baseline.record({"good": PASS, "bad": FAIL, "shaky": PASS, "needs": PASS, "skipped": SKIP})
    baseline.record({"good": PASS, "bad": FAIL, "shaky": FAIL, "needs": PASS, "skipped": SKIP})
    baseline.record({"shaky": PASS})
    assert baseline.outcomes["shaky"] == UNSTEADY
    assert [name for name in baseline.outcomes if baseline.is_target(name)] == ["good"]


def test_a_target_that_did_not_run_is_missed_unless_the_run_is_partial() -> None:
    baseline = Baseline(outcomes={"a": PASS, "b": PASS, "c": PASS})
    assert baseline.missed({"a": PASS, "b": SKIP}, partial=False) == ["b", "c"]
    assert baseline.missed({"a": PASS, "b": FAIL}, partial=True) == ["b"]


def test_a_baseline_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    saved = Baseline("x 1", "y 2", {"b": PASS, "a": FAIL}, {"a": "jwt"})
    saved.save(path)
    assert Baseline.load(path) == saved
    assert Baseline.load(tmp_path / "none.json") == Baseline()


def test_counts_always_name_pass_fail_and_skip() -> None:
    assert describe({"a": PASS}) == "1 pass, 0 fail, 0 skip"


def test_the_server_is_called_nats_server_whatever_its_file_is_called(tmp_path: Path) -> None:
    program = tmp_path / "ours"
    program.touch()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = server_dir(program, scratch)
    assert (folder / "nats-server").resolve() == program
    assert server_dir(folder, scratch) == folder.resolve()
    with pytest.raises(SystemExit):
        server_dir(tmp_path / "missing", scratch)
