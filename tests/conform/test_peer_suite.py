"""The peer-suite runner reads outcomes and compares them as it says, and the document has its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from conform.peer_baseline import (
    BASELINE_DIR,
    UNSTEADY,
    Baseline,
    by_file,
    describe,
    need_rows,
    original_cells,
    tables,
)
from conform.peer_kind import FAIL, PASS, SKIP, read_deno, read_deno_hung, read_junit, read_program
from conform.peer_suite import SUITES, server_dir
from conform.protocol.script import load_all

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "compatibility.md"


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


def test_tables_set_our_results_beside_the_originals() -> None:
    baseline = Baseline(
        outcomes={"a::1": PASS, "a::2": PASS, "b::1": PASS, "b::2": FAIL, "b::3": SKIP, "b::4": UNSTEADY},
        needs={"a::2": "jwt", "b::2": "jwt"},
    )
    ours = {"a::1": PASS, "a::2": FAIL, "b::2": FAIL, "b::3": SKIP, "b::4": PASS}
    lines = tables({"x": (baseline, ours)}).splitlines()
    assert "| x | 6 | 3 | 1 | 1 | 1 | 2 | 2 | 3 | 1 | 1 |" in lines
    assert "| x a | 2 | 2 | 0 | 0 | 0 | 1 | 1 | 1 | 0 | 0 |" in lines
    assert "| x b | 4 | 1 | 1 | 1 | 1 | 1 | 1 | 2 | 1 | 1 |" in lines
    assert "| x | 1 | 1 |" in lines
    assert len({line.count("|") for line in lines[:3]}) == 1


def test_names_without_a_file_make_no_table_of_files() -> None:
    assert by_file({"Connect": PASS}) == {}


def test_the_document_has_the_originals_results() -> None:
    baselines = {name: Baseline.load(BASELINE_DIR / f"{name}.json") for name in SUITES}
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = text.splitlines()
    for name, baseline in baselines.items():
        titles = {name: baseline.outcomes} | {
            f"{name} {file}": names for file, names in by_file(baseline.outcomes).items()
        }
        for title, names in titles.items():
            row = f"| {title} | {original_cells(baseline, names)} | "
            assert any(line.startswith(row) for line in lines), row
        assert baseline.snapshot in text
    for row in need_rows(baselines):
        assert row in lines
    targets = sum(baseline.is_target(name) for baseline in baselines.values() for name in baseline.outcomes)
    assert f"{targets:,} tests" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_document_has_every_script_that_differs_on_purpose() -> None:
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    scripts = load_all()
    different = [script.name for script in scripts if script.difference]
    assert f"Of {len(scripts)} scripts, {len(scripts) - len(different)} get the same answers" in text
    assert [name for name in different if f"| `{name}` |" not in text] == []
