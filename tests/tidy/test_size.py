"""Small modules and short functions: what is longer is two things in one. The lists below may only shrink."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tidy.repository import checks, shown, sources

MODULE_LINES = 600
FUNCTION_LINES = 70

# Functions that may be longer, and up to where.
LONG_FUNCTIONS = {
    # Tables, one entry after the other: to cut them would only hide where an entry stands.
    "src/tidelog/serve/monitor/varz.py:varz": 78,
    "src/tidelog/serve/option_table.py:option_table": 107,
    # One pass over one line, with everything at hand that it has found so far.
    "src/tidelog/wire/parser.pyx:parse_message": 81,
    "src/tidelog/wire/parser.pyx:parse_plain_publish": 71,
}


def test_modules_are_small() -> None:
    sizes = {shown(path): len(path.read_text().splitlines()) for path in [*sources(), *checks()]}
    assert {path: size for path, size in sizes.items() if size > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    sizes = {
        f"{shown(path)}:{name}": size for path in [*sources(), *checks()] for name, size in functions(path)
    }
    long = {name: size for name, size in sizes.items() if size > FUNCTION_LINES}
    grown = {name: size for name, size in long.items() if size > LONG_FUNCTIONS.get(name, 0)}
    assert grown == {}
    assert set(LONG_FUNCTIONS) <= set(long), "take what has become short off the list"


def functions(path: Path) -> Iterator[tuple[str, int]]:
    if path.suffix == ".pyx":
        yield from cython_functions(path.read_text().splitlines())
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


# The name is the last word before the bracket: `cdef inline const char* name(`.
DEFINITION = re.compile(r"( *)(?:def|cdef|cpdef)\s[^=(]*?(\w+)\((?:.*[:,(])?\s*(?:#.*)?$")


def cython_functions(lines: list[str]) -> Iterator[tuple[str, int]]:
    """By indentation: a function ends before the next line that stands no further in, but for its closing bracket."""
    for start, line in enumerate(lines):
        found = DEFINITION.match(line)
        if found is None or line.lstrip().startswith("cdef class"):
            continue
        indent, last = len(found[1]), start
        for at in range(start + 1, len(lines)):
            text = lines[at]
            if (
                text.strip()
                and len(text) - len(text.lstrip()) <= indent
                and not text.lstrip().startswith(")")
            ):
                break
            if text.strip():
                last = at
        yield found[2], last - start + 1


def test_cython_functions_are_found_and_measured() -> None:
    text = (
        "cdef int x = f(1)\n"
        "cdef class A(B):\n"
        "    cdef int a(self) except -1:\n"
        "        return 0\n"
        "\n"
        "    def b(\n"
        "        self,\n"
        "    ) -> None:\n"
        "        pass\n"
        "\n"
        "        pass\n"
        "cdef inline const char* c(Slice* words, int n) noexcept:\n"
        "    pass\n"
    )
    assert list(cython_functions(text.splitlines())) == [("a", 2), ("b", 6), ("c", 2)]
