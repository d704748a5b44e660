"""`tidelog drop-in`: an executable called `nats-server` that is us, for harnesses which look for one on PATH.

What it promises: the directory holds that one file; running it starts the server in the very process that was
spawned, so that its pid is the one the parent knows. Another interpreter or another place of the package gets
another directory; an existing one is used again. Nothing is written where Python or the package are
installed.

How it works: the file is a script whose first line names this interpreter, with `-I -S`: no environment
variables, no `site`, and therefore no time spent on them. What those would have put on the module path is
written into the script. Where the kernel cannot take the interpreter's path in a first line (blanks, or too
long), `sh` execs it.
"""

import hashlib
import os
import sys
from pathlib import Path

import click

import tidelog

NAME = "nats-server"
# Linux reads 256 bytes of the first line since 5.1, and 128 before.
SHEBANG_SIZE_MAX = 127

_BODY = """\
import sys
sys.path.extend({path!r})
from tidelog.cli.serve import main
sys.exit(main(sys.argv[1:]))
"""


def make() -> Path:
    """The directory, made if it is not there. Raises OSError when the cache cannot be written."""
    text = _script(sys.executable, _module_path())
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    directory = _cache_root() / "tidelog" / "drop-in" / mark
    target = directory / NAME
    # The mark covers the text; a file that differs is half-written or was tampered with.
    if not _is_executable(target) or target.read_text() != text:
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory.with_name(f".{mark}.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(target)
    return directory


def _script(executable: str, path: list[str]) -> str:
    first = f"#!{executable} -IS\n"
    if " " in executable or len(first) > SHEBANG_SIZE_MAX:
        quoted = executable.replace("'", "'\\''")
        # To sh: exec with arguments. To Python: a string that nobody reads.
        first = f"#!/bin/sh\n''':'\nexec '{quoted}' -IS \"$0\" \"$@\"\n'''\n"
    return first + _BODY.format(path=path)


def _module_path() -> list[str]:
    """Where the package is, and whatever is on the module path beyond the standard library."""
    # The first entry is the script's or the current directory, unless Python was told to leave it out.
    found = sys.path if sys.flags.safe_path else sys.path[1:]
    library = os.path.dirname(os.__file__)
    standard = {library, os.path.join(library, "lib-dynload")}
    package = str(Path(tidelog.__file__).resolve().parent.parent)
    others = [entry for entry in map(os.path.abspath, filter(None, found)) if os.path.isdir(entry)]
    return list(dict.fromkeys([package, *(entry for entry in others if entry not in standard)]))


def _cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@click.command(name="drop-in")
def drop_in() -> None:
    """Print a directory that holds an executable called nats-server, which is this server.

    Put it first on PATH: PATH="$(tidelog drop-in):$PATH"
    """
    click.echo(make())
