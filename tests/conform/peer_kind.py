"""How to run the tests of each peer project, and how to read what they print.

A *unit* is what is started at one time: one pytest file, one program of the nats.c suite, one Deno file.
Each unit runs with the server under test first on PATH, has a deadline, and reports `{test name: outcome}`.
A test name is stable between runs and servers, so that two runs can be compared.

Where the kernel lets us (Linux, root), a unit gets network, process and mount namespaces of its own: the
suites use fixed ports, servers that a failed test leaves behind must not live on, and some tests want
`localhost` to mean `::1` as well, or an address that a cluster can advertise. Elsewhere the unit runs in its
own process group, killed at the end.

It does not know what the outcomes ought to be; that is `peer_suite`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PASS, FAIL, SKIP = "pass", "fail", "skip"
Outcomes = dict[str, str]

# A unit that is not done by then hangs. The longest, nats.py's test_client.py, takes one to three minutes.
UNIT_DEADLINE_S = 900
DENO_DEADLINE_S = 240
# nats.c's slowest core program (a thousand reconnects) needs some 30 s on a busy machine.
PROGRAM_DEADLINE_S = 180
PYTEST_TEST_DEADLINE_S = 120

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_DENO_LINE = re.compile(r"^(?P<name>\S.*) \.\.\. (?P<word>ok|FAILED|ignored|cancelled)(?: \(.*\))?$")
_DENO_TEST = re.compile(r"""Deno\.test\(\s*["'`](.+?)["'`],""")
_RUST_SPECIAL = re.compile(r"[][\\.+*?()|{}^$/]")
_DENO_WORDS = {"ok": PASS, "FAILED": FAIL, "ignored": SKIP, "cancelled": FAIL}


@dataclass(frozen=True)
class Bench:
    """What a run works with: where the suite lies and which tools and server it gets."""

    snapshot: Path
    server_dir: Path
    tool: Path
    library: Path | None = None  # the Deno standard library, for Deno suites
    only: str | None = None
    log_dir: Path | None = None


@dataclass(frozen=True)
class Suite:
    """A named part of a peer's tests."""

    name: str
    project: str
    run: Callable[[Suite, Bench], Iterator[tuple[str, Outcomes]]]
    files: tuple[str, ...]
    folder: str = "."
    import_paths: tuple[str, ...] = ()


_NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
_ENTER = """
printf '127.0.0.1 localhost\\n::1 localhost\\n192.0.2.1 demo.nats.io\\n' > "$1" || exit 125
mount --bind "$1" /etc/hosts || exit 125
ip link set lo up && ip address add 192.0.2.1/24 dev lo || exit 125
shift
exec "$@"
"""

# A dozen tests of nats.js talk to the public demo server; in the namespace the server under test plays it.
_WITH_DEMO = 'nats-server -a 192.0.2.1 -p 4222 >/dev/null 2>&1 & exec "$@"'


@functools.cache
def can_isolate() -> bool:
    """Whether this user may make namespaces and change them."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    with tempfile.NamedTemporaryFile() as hosts:
        words = isolated(["true"], hosts.name)
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


def isolated(command: list[str], hosts: str) -> list[str]:
    """The command, wrapped to run in namespaces of its own; `hosts` is a scratch file for its /etc/hosts."""
    return [*_NAMESPACES, "sh", "-c", _ENTER, "unit", hosts, *command]


def run_unit(
    command: list[str], *, cwd: Path, env: dict[str, str], deadline_s: float, bench: Bench, label: str
) -> tuple[str, bool]:
    """Run one unit to its end or its deadline; the text it printed, and whether it ended by itself."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out,
        tempfile.TemporaryDirectory() as scratch,
    ):
        words = isolated(command, f"{scratch}/hosts") if can_isolate() else command
        # In a namespace, process numbers come again; a ports file that an earlier server left must not.
        env = env | {"TMPDIR": scratch}
        process = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            process.wait(deadline_s)
            in_time = True
        except subprocess.TimeoutExpired:
            in_time = False
        finally:
            _kill_group(process.pid)
            process.wait()
        out.seek(0)
        text = out.read()
    if bench.log_dir is not None:
        bench.log_dir.mkdir(parents=True, exist_ok=True)
        (bench.log_dir / f"{label.replace('/', '_')}.log").write_text(text, encoding="utf-8")
    return text, in_time


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def environment(bench: Bench, **extra: str) -> dict[str, str]:
    """The environment of a unit: ours, with the server first on PATH and no address of a running server."""
    env = {key: value for key, value in os.environ.items() if key not in ("NATS_URL", "PYTHONPATH")}
    env["PATH"] = f"{bench.server_dir}{os.pathsep}{env.get('PATH', os.defpath)}"
    return env | extra


def server_version(server_dir: Path) -> str:
    """What the server says it is, as `nats-server: v2.15.1`."""
    words = [str(server_dir / "nats-server"), "-v"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def run_pytest(suite: Suite, bench: Bench) -> Iterator[tuple[str, Outcomes]]:
    """Run pytest files one by one; outcomes come from the JUnit report."""
    paths = os.pathsep.join(str(bench.snapshot / path) for path in suite.import_paths)
    env = environment(bench, PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE="1", NATS_SERVER_VERSION="main")
    for file in suite.files:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            command = [
                *(str(bench.tool), "-m", "pytest", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"),
                *(
                    "-q",
                    "--show-capture=no",
                    "--tb=short",
                    f"--junitxml={report}",
                    f"--timeout={PYTEST_TEST_DEADLINE_S}",
                    file,
                ),
                *(("-k", bench.only) if bench.only else ()),
            ]
            run_unit(
                command,
                cwd=bench.snapshot / suite.folder,
                env=env,
                deadline_s=UNIT_DEADLINE_S,
                bench=bench,
                label=f"{suite.name}.{Path(file).name}",
            )
            yield file, read_junit(report.read_text(encoding="utf-8")) if report.exists() else {}


def read_junit(text: str) -> Outcomes:
    """Outcomes by `file::[Class::]test` from a JUnit report (family xunit1)."""
    outcomes: Outcomes = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        file = case.get("file") or ""
        inner = (case.get("classname") or "").removeprefix(file.removesuffix(".py").replace("/", "."))
        parts = [Path(file).name, *filter(None, inner.split(".")), case.get("name") or ""]
        tags = {child.tag for child in case}
        outcome = FAIL if tags & {"failure", "error"} else SKIP if "skipped" in tags else PASS
        outcomes["::".join(parts)] = outcome
    return outcomes


def run_programs(suite: Suite, bench: Bench) -> Iterator[tuple[str, Outcomes]]:
    """Run the nats.c test program once per test in its list."""
    env = environment(
        bench,
        NATS_TEST_SERVER_EXE=str(bench.server_dir / "nats-server"),
        NATS_TEST_SERVER_VERSION=server_version(bench.server_dir),
    )
    folder = bench.snapshot / "test"
    for file in suite.files:
        for name in re.findall(r"^_test\((\w+)\)", (bench.snapshot / file).read_text(encoding="utf-8"), re.M):
            if bench.only and not re.search(bench.only, name):
                continue
            text, _ = run_unit(
                [str(bench.tool), name],
                cwd=folder,
                env=env,
                deadline_s=PROGRAM_DEADLINE_S,
                bench=bench,
                label=f"{suite.name}.{name}",
            )
            yield name, {name: read_program(text)}


def read_program(text: str) -> str:
    """The outcome of one nats.c test from what it printed."""
    if "ALL PASSED" not in text.splitlines():
        return FAIL
    return SKIP if re.search(r"Skipping since|Skip(ped)? when", text) else PASS


def run_deno(suite: Suite, bench: Bench) -> Iterator[tuple[str, Outcomes]]:
    """Run Deno test files one by one against the sources in the snapshot."""
    if bench.library is None:
        raise ValueError("a Deno suite needs the standard library (--library)")
    env = environment(bench, NO_COLOR="1", DENO_NO_UPDATE_CHECK="1")
    with tempfile.TemporaryDirectory() as scratch:
        import_map = Path(scratch) / "imports.json"
        import_map.write_text(json.dumps(deno_imports(bench.snapshot, bench.library)), encoding="utf-8")
        options = ["--no-config", "--import-map", str(import_map), "--no-check"]
        files = [
            str(path.relative_to(bench.snapshot))
            for glob in suite.files
            for path in sorted(bench.snapshot.glob(glob))
        ]
        # Inside the namespace there is no network, so what the tests import must be on the disk before.
        cache = [str(bench.tool), "cache", *options[:-1], *files]
        subprocess.run(cache, cwd=bench.snapshot, env=env, check=True, capture_output=True)
        for file in files:
            yield file, _run_deno_file(suite, bench, file, [*options, "-A"], env)


def _run_deno_file(
    suite: Suite, bench: Bench, file: str, options: list[str], env: dict[str, str]
) -> Outcomes:
    """Run one file; when a test hangs, count it as failed and go on with those behind it."""
    outcomes: Outcomes = {}
    demo = ["sh", "-c", _WITH_DEMO, "unit"] if can_isolate() else []
    chosen = [f"--filter={bench.only}"] if bench.only else []
    name = Path(file).name
    declared = _DENO_TEST.findall((bench.snapshot / file).read_text(encoding="utf-8"))
    while True:
        command = [*demo, str(bench.tool), "test", *options, *chosen, file]
        text, in_time = run_unit(
            command,
            cwd=bench.snapshot,
            env=env,
            deadline_s=DENO_DEADLINE_S,
            bench=bench,
            label=f"{suite.name}.{name}",
        )
        outcomes |= read_deno(name, text)
        hung = None if in_time else read_deno_hung(text)
        if hung is None or f"{name}::{hung}" in outcomes:
            return outcomes
        outcomes[f"{name}::{hung}"] = FAIL
        left = [test for test in declared if f"{name}::{test}" not in outcomes]
        if not left or bench.only:
            return outcomes
        # Deno's filter is a Rust expression: no looking ahead, and blanks must not be escaped.
        chosen = ["--filter=/^(" + "|".join(_RUST_SPECIAL.sub(r"\\\g<0>", test) for test in left) + ")$/"]


def read_deno_hung(text: str) -> str | None:
    """The name of the test that was under way when the text broke off."""
    begun = re.findall(r"^(\S.*?) \.\.\.(?!.* \.\.\. )", _ANSI.sub("", text), re.M)
    return begun[-1] if begun else None


def read_deno(file: str, text: str) -> Outcomes:
    """Outcomes by `file::name`; a name that occurs twice in a file is numbered."""
    outcomes: Outcomes = {}
    for line in _ANSI.sub("", text).splitlines():
        match = _DENO_LINE.match(line)
        if match is None:
            continue
        name, number = f"{file}::{match['name']}", 2
        while name in outcomes:
            name, number = f"{file}::{match['name']} #{number}", number + 1
        outcomes[name] = _DENO_WORDS[match["word"]]
    return outcomes


def deno_imports(snapshot: Path, library: Path) -> dict[str, object]:
    """An import map: the project's packages from the snapshot, `@std/*` from a checkout of the library."""
    imports: dict[str, str] = {}
    for manifest in sorted(library.glob("*/deno.json")):
        package = json.loads(manifest.read_text(encoding="utf-8"))
        exports = package.get("exports", {})
        entries = {".": exports} if isinstance(exports, str) else exports
        for entry, target in entries.items():
            imports[package["name"] + entry[1:]] = (manifest.parent / target).resolve().as_uri()
    root = snapshot.resolve()
    for package in ("nkeys@2.0.3", "nuid@3.0.0", "jwt@0.0.11"):
        imports[f"@nats-io/{package.partition('@')[0]}"] = f"npm:@nats-io/{package}"
    imports["ajv"] = "npm:ajv@8.17.1"
    imports["js-sha256"] = "npm:js-sha256@0.11.1"
    imports["nst"] = imports["@nats-io/nst"] = (root / "nst/src/mod.ts").as_uri()
    imports["@nats-io/transport-deno"] = (root / "transport-deno/src/mod.ts").as_uri()
    scopes: dict[str, dict[str, str]] = {}
    for folder in ("core", "jetstream", "kv", "obj", "services"):
        name = "nats-core" if folder == "core" else folder
        imports[f"@nats-io/{name}"] = (root / folder / "src/mod.ts").as_uri()
        imports[f"@nats-io/{name}/internal"] = (root / folder / "src/internal_mod.ts").as_uri()
        scopes[(root / folder / "tests").as_uri() + "/"] = {"nst": (root / folder / "tests/nst.ts").as_uri()}
    return {"imports": imports, "scopes": scopes}
