"""Writers of logs are killed at random and at every named point; what they were told is true (LOG-1 to LOG-3)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash.soak import POINTS

TESTS = Path(__file__).parent.parent
KILLS = 100


@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_wherever_a_writer_is_killed() -> None:
    """In a process of its own, which has one thread, so that it can be forked from."""
    argv = [sys.executable, "-m", "crash.soak", "--kills", str(KILLS), "--seconds", "200", "--seed", "1"]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, timeout=230
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["points"] == len(POINTS)
    assert figures["kills"] >= KILLS
    assert figures["acks_checked"] > 1000
