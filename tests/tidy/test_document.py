"""Documents: one title each, links that lead somewhere, and invariants that are what the tests say they are."""

import re
from pathlib import Path

from tidy.repository import ROOT, checks, documents, shown, sources

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.*)$")
INVARIANT = re.compile(r"\b(?:NET|ROUTE|SESS|PARSE|LOG|APPEND|COMMIT|READ|ERASE|KEEP|SPARK)-\d+\b")


def prose(path: Path) -> list[str]:
    """The lines outside code blocks."""
    lines, fenced = [], False
    for line in path.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            lines.append(line)
    return lines


def anchors(path: Path) -> set[str]:
    """The names that headings can be linked by."""
    titles = [found[2] for line in prose(path) if (found := HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_document_has_one_title() -> None:
    titles = {shown(path): sum(line.startswith("# ") for line in prose(path)) for path in documents()}
    assert {path: count for path, count in titles.items() if count != 1} == {}


def test_links_lead_somewhere() -> None:
    broken = []
    for path in documents():
        for target in LINK.findall("\n".join(prose(path))):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            place = (path.parent / name).resolve() if name else path
            if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
                broken.append(f"{shown(path)}: {target}")
    assert broken == []


def test_invariants_are_numbered_and_cited() -> None:
    stated = re.findall(r"^\*\*(\S+)\*\*", (ROOT / "docs" / "invariants.md").read_text(), re.MULTILINE)
    assert len(stated) == len(set(stated))
    cited = {found for path in checks() for found in INVARIANT.findall(path.read_text())}
    known = {name for name in stated if INVARIANT.fullmatch(name)}
    assert cited - known == set(), "cited in a test, and nowhere stated"
    assert known - cited == set(), "stated, and cited in no test"
    used = {found for path in sources() for found in INVARIANT.findall(path.read_text())}
    assert used <= known
