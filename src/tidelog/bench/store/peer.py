"""The peer's own benchmark of the same search, from its source, where Go is at hand: for the record beside ours."""

import re
import shutil
import subprocess
from pathlib import Path

from tidelog.base.errors import TidelogError

BENCHMARK = "Benchmark_MemStoreLoadNextMsgFiltered"
TIMEOUT_S = 900.0
# Benchmark.../literal_bounded_scan-2    1    1780179643 ns/op
LINE = re.compile(rf"^{BENCHMARK}/(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", re.MULTILINE)


class PeerFailed(TidelogError):
    """The peer's benchmark could not be run, or said nothing."""


def run_peer(source: Path) -> dict[str, float]:
    """Milliseconds of each case. `source` is a checkout of nats-server."""
    go = shutil.which("go")
    if go is None:
        raise PeerFailed("there is no `go` on PATH")
    command = [go, "test", "-run=^$", f"-bench={BENCHMARK}", "./server"]
    try:
        ran = subprocess.run(
            command, cwd=source, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerFailed(f"{' '.join(command)}: {error}") from error
    found = parse(ran.stdout)
    if ran.returncode or not found:
        raise PeerFailed(f"{' '.join(command)}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    return found


def parse(said: str) -> dict[str, float]:
    return {name: float(ns) / 1e6 for name, ns in LINE.findall(said)}


def version(source: Path) -> str:
    """As the source says it."""
    constants = source / "server" / "const.go"
    found = re.search(r'VERSION = "([^"]+)"', constants.read_text()) if constants.exists() else None
    return f"nats-server {found[1]}, from source" if found else "nats-server, from source"
