"""Builds the fuzz target into `build/fuzz`: the compiled rooms once more, with clang, counters and sanitizers.

The C is that of the ordinary build (`make setup` comes first), so what is fuzzed is what runs. The modules are put
beside copies of the plain Python ones in `build/fuzz/lib`; those in `src` are left alone.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from fuzz.seed import write

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "build" / "cython"
PLACE = ROOT / "build" / "fuzz"
LIBRARY = PLACE / "lib"
# `serve` and what is above it need sockets.
ROOMS = ("base", "wire", "subject", "broker")
# Of another room, what the broker sends with.
PARTS = ("stream/__init__.py", "stream/advisory.py", "stream/post.pyx")
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))

SANITIZERS = "address,undefined"
FLAGS = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fwrapv", "-fPIC", "-w"),
    f"-I{sysconfig.get_config_var('INCLUDEPY')}",
    f"-I{ROOT / 'src' / 'tidelog' / 'base'}",
    "-fno-sanitize-recover=all",
)
MISSING = (
    "make fuzz needs clang with libFuzzer and the sanitizers' runtimes "
    "(Debian: apt-get install clang llvm libclang-rt-14-dev, or the number that clang --version tells)"
)


class BuildError(Exception):
    """The target cannot be built here."""


def main() -> None:
    try:
        build()
    except BuildError as error:
        sys.exit(str(error))


def build() -> None:
    clang = shutil.which("clang")
    if clang is None:
        raise BuildError(MISSING)
    for path in modules(".py"):
        goal = LIBRARY / path.relative_to(ROOT / "src")
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, goal)
    module_command = [clang, *FLAGS, f"-fsanitize=fuzzer-no-link,{SANITIZERS}", "-shared"]
    for path in modules(".pyx"):
        goal = (LIBRARY / path.relative_to(ROOT / "src")).with_suffix(SUFFIX)
        compile_to(goal, module_command, (GENERATED / path.relative_to(ROOT)).with_suffix(".c"))
    compile_to(LIBRARY / "fuzz" / f"door{SUFFIX}", module_command, door())
    program_command = [clang, *FLAGS, *defines(), f"-fsanitize=fuzzer,{SANITIZERS}"]
    compile_to(PLACE / "target", program_command, ROOT / "fuzz" / "entry.c", links())
    write(PLACE / "seed")


def modules(suffix: str) -> list[Path]:
    """The sources of what is fuzzed, and of what that needs."""
    package = ROOT / "src" / "tidelog"
    found = [path for room in ROOMS for path in sorted((package / room).glob(f"*{suffix}"))]
    return [
        path
        for path in (package / "__init__.py", *found, *(package / part for part in PARTS))
        if path.suffix == suffix
    ]


def door() -> Path:
    """The C of `fuzz/door.pyx`."""
    goal = GENERATED / "fuzz" / "door.c"
    goal.parent.mkdir(parents=True, exist_ok=True)
    translate(goal)
    return goal


def translate(goal: Path) -> None:
    command = [sys.executable, "-m", "cython", "-3", "-I", str(ROOT / "src"), "--module-name", "fuzz.door"]
    subprocess.run([*command, str(ROOT / "fuzz" / "door.pyx"), "-o", str(goal)], check=True)


def compile_to(goal: Path, command: Sequence[str], source: Path, libraries: Sequence[str] = ()) -> None:
    origins = (source, Path(__file__), *(ROOT / "src").rglob("*.h"))
    if goal.exists() and goal.stat().st_mtime > max(path.stat().st_mtime for path in origins):
        return
    goal.parent.mkdir(parents=True, exist_ok=True)
    print(f"{source.name} -> {goal.relative_to(ROOT)}", flush=True)
    if subprocess.run([*command, str(source), *libraries, "-o", str(goal)], check=False).returncode:
        raise BuildError(f"{source.name} could not be compiled. {MISSING}")


def defines() -> list[str]:
    search_path = ":".join(map(str, (LIBRARY, ROOT, ROOT / "tests")))
    values = {"PYTHON": sys.executable, "SEARCH_PATH": search_path, "PACKAGE": f"{LIBRARY / 'tidelog'}/"}
    return [f'-D{name}="{value}"' for name, value in values.items()]


def links() -> list[str]:
    """How to embed this Python; its symbols and the sanitizers' are for the modules, too."""
    variable = sysconfig.get_config_var
    directory = variable("LIBDIR") if variable("Py_ENABLE_SHARED") else variable("LIBPL")
    words = [f"-L{directory}", f"-Wl,-rpath,{directory}", f"-lpython{variable('LDVERSION')}"]
    return [*words, *variable("LIBS").split(), *variable("SYSLIBS").split(), "-rdynamic"]


if __name__ == "__main__":
    main()
