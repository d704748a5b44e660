"""A server is killed while it sends segments away; the long run is `make soak-cold` (docs/how-to/soak.md)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
KILLS = int(os.environ.get("COLD_KILLS", "8"))


@pytest.mark.timeout(60 + 10 * KILLS)
def test_an_archive_has_everything_once_however_often_its_server_is_killed() -> None:
    """COLD-5, COLD-6, COLD-7, COLD-8"""
    argv = [sys.executable, "-m", "crash.cold_soak", "--kills", str(KILLS), "--seed", "5"]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=50 + 10 * KILLS)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["kills"] == KILLS
    assert figures["acknowledged"] == KILLS * 200
    assert figures["files"] > KILLS * 2
