"""The repository as the tidy tests read it: which files there are, and what is in them."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tidelog"
SKIPPED = {".venv", "build", "dist", "node_modules"}


def files(*patterns: str, below: Path = ROOT) -> Iterator[Path]:
    """Those that were written by hand: nothing hidden, built or installed."""
    for pattern in patterns:
        for path in sorted(below.rglob(pattern)):
            parts = path.relative_to(ROOT).parts
            if not any(
                part.startswith(".") or part in SKIPPED or part.endswith(".egg-info") for part in parts
            ):
                yield path


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources() -> Iterator[Path]:
    return files("*.py", "*.pyx", below=ROOT / "src")


def checks() -> Iterator[Path]:
    yield from files("*.py", below=ROOT / "tests")
    yield from files("*.py", below=ROOT / "fuzz")


def documents() -> Iterator[Path]:
    return files("*.md")
