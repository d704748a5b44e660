"""Run other projects' test suites against a `nats-server` executable and compare with the original's results.

    PYTHONPATH=tests python -m conform.peer_suite --peers DIR --server "$(tidelog drop-in)" [--suite NAME ...]

`--peers DIR` holds what a run needs and what is never committed: the snapshots `nats.py`, `nats.c`,
`nats.js` and `std` (the Deno standard library), a Python environment in `venv`, nats.c built in
`nats.c-build`, and `bin/deno`; docs/compatibility.md says how to make it. `--snapshot`, `--tool` and
`--library` name them one by one.

A baseline (`baseline/<suite>.json`) holds what the original server did, test by test, and for tests that are
out of our reach so far what they need. A *target* is a test that passes on the original, every time it was
recorded, and needs nothing that we lack. The program prints the counts and every target that does not pass,
and exits with 1 if there is one. `--record` adds the results of this run to the baseline instead; `--markdown
FILE` writes the tables that stand in docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from conform.peer_baseline import BASELINE_DIR, Baseline, describe, tables
from conform.peer_kind import (
    Bench,
    Outcomes,
    Suite,
    run_deno,
    run_programs,
    run_pytest,
    server_version,
)

_NATS_PY = "nats/tests/"
SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "nats.py-client",
            "nats.py",
            run_pytest,
            tuple(
                f"{_NATS_PY}test_{name}.py"
                for name in (
                    *("client", "client_v2", "client_nkeys", "client_websocket", "micro_service", "parser"),
                    *("client_async_await", "custom_headers_websocket", "nuid"),
                )
            ),
            import_paths=("nats/src",),
        ),
        Suite(
            "nats.py-core",
            "nats.py",
            run_pytest,
            tuple(
                f"tests/test_{name}.py"
                for name in (
                    *("client", "connection", "examples", "message", "protocol", "subscription", "tls"),
                    "websocket",
                )
            ),
            "nats-core",
            ("nats-core/src", "nats-server/src"),
        ),
        Suite(
            "nats.py-server",
            "nats.py",
            run_pytest,
            ("tests/test_server.py",),
            "nats-server",
            ("nats-server/src",),
        ),
        Suite("nats.py-js", "nats.py", run_pytest, (f"{_NATS_PY}test_js.py",), import_paths=("nats/src",)),
        Suite(
            "nats.py-jetstream",
            "nats.py",
            run_pytest,
            tuple(
                f"tests/test_{name}.py"
                for name in ("api", "consumer", "jetstream", "message", "ordered_consumer", "stream")
            ),
            "nats-jetstream",
            ("nats-jetstream/src", "nats-core/src", "nats-server/src"),
        ),
        Suite(
            "nats.py-kv",
            "nats.py",
            run_pytest,
            ("tests/test_kv.py",),
            "nats-key-value",
            ("nats-key-value/src", "nats-jetstream/src", "nats-core/src", "nats-server/src"),
        ),
        Suite("nats.c", "nats.c", run_programs, ("test/list_test.txt",)),
        Suite("nats.js-core", "nats.js", run_deno, ("core/tests/*_test.ts",)),
        Suite("nats.js-services", "nats.js", run_deno, ("services/tests/*_test.ts",)),
        Suite("nats.js-jetstream", "nats.js", run_deno, ("jetstream/tests/*_test.ts",)),
        Suite("nats.js-kv", "nats.js", run_deno, ("kv/tests/*_test.ts",)),
        Suite("nats.js-obj", "nats.js", run_deno, ("obj/tests/*_test.ts",)),
    )
}
TOOLS = {
    "run_pytest": "venv/bin/python",
    "run_programs": "nats.c-build/bin/testsuite",
    "run_deno": "bin/deno",
}


def run_suite(suite: Suite, bench: Bench) -> Outcomes:
    """Run a whole suite and say which unit gave no result."""
    outcomes: Outcomes = {}
    for label, found in suite.run(suite, bench):
        outcomes |= found
        if not found:
            print(f"  {label}: no result (hung or broke off; --log-dir keeps what it printed)", flush=True)
    return outcomes


def server_dir(given: Path, scratch: Path) -> Path:
    """A directory in which the server is called `nats-server`, as the suites expect."""
    if given.is_dir() and (given / "nats-server").exists():
        return given.resolve()
    if not given.is_file():
        raise SystemExit(f"no nats-server at {given}")
    if given.name == "nats-server":
        return given.parent.resolve()
    (scratch / "nats-server").symlink_to(given.resolve())
    return scratch


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", action="append", choices=sorted(SUITES), help="default: all")
    parser.add_argument(
        "--server", type=Path, required=True, help="executable, or directory holding nats-server"
    )
    parser.add_argument("--peers", type=Path, help="directory with snapshots and tools")
    parser.add_argument("--snapshot", type=Path, help="the project's sources, if not below --peers")
    parser.add_argument("--tool", type=Path, help="Python, test program or deno, if not below --peers")
    parser.add_argument("--library", type=Path, help="the Deno standard library, if not below --peers")
    parser.add_argument("--only", help="pytest -k expression, regular expression (nats.c) or Deno filter")
    parser.add_argument("--baseline", type=Path, help="default: baseline/<suite>.json beside this program")
    parser.add_argument(
        "--record", metavar="SNAPSHOT", help="add the outcomes to the baseline; names the snapshot"
    )
    parser.add_argument("--json", type=Path, help="write all outcomes and misses to this file")
    parser.add_argument(
        "--markdown", type=Path, help="write the tables of docs/compatibility.md to this file"
    )
    parser.add_argument("--log-dir", type=Path, help="keep what every unit prints")
    options = parser.parse_args(arguments)
    if options.peers is None and (options.snapshot is None or options.tool is None):
        parser.error("--peers, or --snapshot and --tool, are needed")
    return options


def make_bench(suite: Suite, options: argparse.Namespace, servers: Path) -> Bench:
    """The places and tools for one suite."""
    peers: Path = options.peers or Path()
    return Bench(
        snapshot=(options.snapshot or peers / suite.project).resolve(),
        server_dir=servers,
        tool=(options.tool or peers / TOOLS[suite.run.__name__]).absolute(),
        library=(options.library or peers / "std").resolve(),
        only=options.only,
        log_dir=options.log_dir,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the suites asked for; the number of the exit status says whether every target passed."""
    options = read_arguments(arguments)
    results: dict[str, object] = {}
    compared: dict[str, tuple[Baseline, Outcomes]] = {}
    any_missed = False
    with tempfile.TemporaryDirectory() as scratch:
        servers = server_dir(options.server, Path(scratch))
        for name in options.suite or SUITES:
            suite = SUITES[name]
            print(f"{name}:", flush=True)
            started = time.monotonic()
            outcomes = run_suite(suite, make_bench(suite, options, servers))
            print(f"  {describe(outcomes)} in {time.monotonic() - started:.0f} s", flush=True)
            path = options.baseline or BASELINE_DIR / f"{name}.json"
            baseline = Baseline.load(path)
            missed = []
            if options.record:
                baseline.snapshot = options.record
                baseline.server = server_version(servers)
                baseline.record(outcomes)
                baseline.save(path)
            else:
                missed = baseline.missed(outcomes, partial=bool(options.only))
                targets = sum(map(baseline.is_target, baseline.outcomes))
                print(f"  original: {describe(baseline.outcomes)}; {targets} targets, {len(missed)} missed")
                for test in missed:
                    print(f"    {outcomes.get(test, 'did not run')}: {test}")
            any_missed = any_missed or bool(missed)
            compared[name] = (baseline, outcomes)
            results[name] = {"outcomes": outcomes, "missed": missed}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(tables(compared), encoding="utf-8")
    return 1 if any_missed else 0


if __name__ == "__main__":
    sys.exit(main())
