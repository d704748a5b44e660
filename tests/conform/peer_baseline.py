"""What the original server did with the peers' suites, and the tables that set our results beside it.

A baseline (`baseline/<suite>.json`) is recorded by `peer_suite --record`, test by test. It promises that a test
whose outcome changed between two recordings never counts against us. The tables are those of
docs/compatibility.md; a test compares the half of them that is the original's with the baselines, so that the
document cannot fall behind. It runs nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conform.peer_kind import FAIL, PASS, SKIP, Outcomes

BASELINE_DIR = Path(__file__).parent / "baseline"
# Passed on the original in one recording and failed in another: says nothing about us.
UNSTEADY = "unsteady"


@dataclass
class Baseline:
    """What the original server did with a suite."""

    snapshot: str = ""
    server: str = ""
    outcomes: Outcomes = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """The baseline in `path`, or an empty one if there is none."""
        if not path.exists():
            return cls()
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write it, sorted, so that a change shows as a short diff."""
        self.outcomes = dict(sorted(self.outcomes.items()))
        self.needs = dict(sorted(self.needs.items()))
        path.write_text(json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def record(self, outcomes: Outcomes) -> None:
        """Add one run; a test whose outcome changes from run to run becomes unsteady."""
        for name, outcome in outcomes.items():
            known = self.outcomes.get(name, outcome)
            self.outcomes[name] = outcome if outcome == known else UNSTEADY

    def is_target(self, name: str) -> bool:
        """Whether the test is one that must pass on our server."""
        return self.outcomes.get(name) == PASS and name not in self.needs

    def missed(self, outcomes: Outcomes, *, partial: bool) -> list[str]:
        """Targets that did not pass; in a partial run, only among those that ran."""
        names = outcomes if partial else self.outcomes
        return sorted(name for name in names if self.is_target(name) and outcomes.get(name, FAIL) != PASS)


def describe(outcomes: Outcomes) -> str:
    """Counts as `12 pass, 3 fail, 1 skip`."""
    counts = Counter(outcomes.values())
    kinds = [PASS, FAIL, SKIP] + ([UNSTEADY] if counts[UNSTEADY] else [])
    return ", ".join(f"{counts[kind]} {kind}" for kind in kinds)


def by_file(outcomes: Outcomes) -> dict[str, Outcomes]:
    """The outcomes of each file; nothing if the names of tests do not begin with files."""
    files: dict[str, Outcomes] = {}
    for name, outcome in outcomes.items():
        file, separator, _ = name.partition("::")
        if separator:
            files.setdefault(file, {})[name] = outcome
    return dict(sorted(files.items()))


def original_cells(baseline: Baseline, names: Outcomes) -> str:
    """How many of these tests there are, can be targets, and how they ended on the original."""
    theirs = Counter(baseline.outcomes[name] for name in names)
    counts = (len(names), *(theirs[kind] for kind in (PASS, FAIL, SKIP, UNSTEADY)))
    return " | ".join(map(str, (*counts, sum(map(baseline.is_target, names)))))


def result_row(title: str, baseline: Baseline, names: Outcomes, outcomes: Outcomes) -> str:
    """The original's results and ours; `outcomes` of ours may lack some names."""
    ours = Counter(outcomes.get(name, FAIL) for name in names)
    missed = sum(baseline.is_target(name) and outcomes.get(name, FAIL) != PASS for name in names)
    cells = " | ".join(map(str, (*(ours[kind] for kind in (PASS, FAIL, SKIP)), missed)))
    return f"| {title} | {original_cells(baseline, names)} | {cells} |"


def need_rows(baselines: Mapping[str, Baseline]) -> list[str]:
    """A table of what the tests need that pass on the original and are no targets."""
    needs = {
        name: Counter(
            need for test, need in baseline.needs.items() if baseline.outcomes.get(test) in (PASS, UNSTEADY)
        )
        for name, baseline in baselines.items()
    }
    columns = sorted({need for counts in needs.values() for need in counts})
    lines = [f"| suite | {' | '.join(columns)} | together |", "|---|" + "--:|" * (len(columns) + 1)]
    for name, counts in needs.items():
        cells = [str(counts[column]) for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {counts.total()} |")
    return lines


RESULT_HEAD = [
    "| | tests | nats-server: pass | fail | skip | unsteady | targets | Tidelog: pass | fail | skip | missed |",
    "|---|" + "--:|" * 10,
]


def tables(compared: Mapping[str, tuple[Baseline, Outcomes]]) -> str:
    """All tables of docs/compatibility.md: per suite, per file, and what is needed."""
    suites = [
        result_row(name, baseline, baseline.outcomes, ours) for name, (baseline, ours) in compared.items()
    ]
    files = [
        result_row(f"{name} {file}", baseline, names, ours)
        for name, (baseline, ours) in compared.items()
        for file, names in by_file(baseline.outcomes).items()
    ]
    needs = need_rows({name: baseline for name, (baseline, _) in compared.items()})
    parts = [[*RESULT_HEAD, *suites], needs, [*RESULT_HEAD, *files]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
