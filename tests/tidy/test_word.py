"""Words and calls that have no place here, each with what to use instead."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidy.repository import PACKAGE, checks, documents, files, shown, sources

# Spelled so that this file does not find itself.
LEFT_OVER = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + r"X)\b")


def test_nothing_is_left_to_be_done_in_comments() -> None:
    found = [
        f"{shown(path)}:{number}"
        for path in [*sources(), *checks(), *documents(), *files("*.pxd", "*.pyi", "*.h", "Makefile")]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LEFT_OVER.search(line)
    ]
    assert found == []


# What is called or imported, where it may be, and what to use elsewhere.
BANNED = [
    (r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter)\b", "a Clock that is handed in (base.clock)"),
    (r"time\.sleep\b", "the timers of the broker, or the event loop"),
    (r"random(\.\w+)?\b", "a Chance that is handed in (base.chance)"),
    (r"open\b|os\.open\b|io\.open\b", "a Disk that is handed in"),
    (r"asyncio(\.\w+)*|uvloop(\.\w+)*", "bytes in, bytes out; only serve knows the loop"),
]
OUTER = {"serve", "client", "cli", "bench", "testing", "spark"}
ALLOWED = {
    BANNED[0][0]: {*OUTER, "base/clock.py"},
    BANNED[1][0]: OUTER,
    BANNED[2][0]: OUTER,
    BANNED[3][0]: {*OUTER, "disk"},
    BANNED[4][0]: {"serve", "cli", "testing"},
}


def named(path: Path) -> Iterator[tuple[int, str]]:
    """What a module calls, refers to by dots, and imports, with the lines."""
    text = path.read_text()
    if path.suffix == ".pyx":
        for number, line in enumerate(text.splitlines(), 1):
            code = re.sub(r'"[^"]*"', "", line.split("#")[0])
            for name in re.findall(
                r"(?<![\w.])(?:time|random|asyncio|uvloop|os|io)\.\w+|(?<![\w.])open(?=\()", code
            ):
                yield number, name
            for name in re.findall(r"^\s*(?:from|import)\s+(\w+)", code):
                yield number, name
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


@pytest.mark.parametrize(("banned", "instead"), BANNED)
def test_calls_that_belong_to_other_rooms(banned: str, instead: str) -> None:
    found = []
    for path in sources():
        place = "/".join(path.relative_to(PACKAGE.parent).parts[1:])
        if not {place, place.split("/")[0]} & ALLOWED[banned]:
            found += [
                f"{shown(path)}:{line} {name}" for line, name in named(path) if re.fullmatch(banned, name)
            ]
    assert found == [], f"use {instead}"


def test_the_search_finds_what_is_banned(tmp_path: Path) -> None:
    lines = "import random\nfrom time import monotonic\nx = time.time()\nopen('f')\nself.open()\n"
    for suffix, extra in ((".py", "from asyncio import run\n"), (".pyx", "cdef int a = 1\n")):
        module = tmp_path / f"module{suffix}"
        module.write_text(lines + extra)
        names = [name for _, name in named(module)]
        assert {"random", "time.time", "open"} <= set(names)
        assert names.count("open") == 1


def test_every_module_says_what_it_is() -> None:
    silent = [shown(path) for path in sources() if not says_what_it_is(path)]
    assert silent == []


def says_what_it_is(path: Path) -> bool:
    text = path.read_text()
    if path.suffix == ".pyx":
        # Directives for the compiler may stand before it.
        code = re.sub(r"\A(?:#.*\n|\n)*", "", text)
        return code.startswith('"""') and len(code.split('"""')[1].strip()) > 10
    return bool(ast.get_docstring(ast.parse(text)))
