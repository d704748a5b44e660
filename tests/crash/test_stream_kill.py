"""A server with a file stream is killed while stock clients publish and consume: what they were told stays true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash.stream_ledger import WINDOW_S, StreamLedger

TESTS = Path(__file__).parent.parent
KILLS = 10


@pytest.mark.timeout(120)
def test_nothing_acknowledged_is_lost_and_consumers_go_on() -> None:
    """CONSUMER-8, CONSUMER-9, STREAM-1"""
    argv = [sys.executable, "-m", "crash.stream_soak", "--kills", str(KILLS), "--seed", "3"]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["kills"] == KILLS
    assert figures["acknowledged"] > 100
    assert figures["confirmed"] > 10


def test_the_ledger_finds_what_is_lost_moved_or_there_twice() -> None:
    ledger = StreamLedger()
    for number in range(3):
        ledger.published(number, number + 1, duplicate=False)
        ledger.delivered(number, number + 1)
    ledger.check([(1, 0), (2, 1), (3, 2)])
    for stored in ([(1, 0), (3, 2)], [(1, 0), (2, 1), (4, 2)], [(1, 0), (2, 1), (3, 2), (4, 1)]):
        with pytest.raises(AssertionError):
            ledger.check(stored)
    with pytest.raises(AssertionError, match="is 7 now"):
        ledger.delivered(7, 2)


def test_the_ledger_finds_what_comes_again() -> None:
    ledger = StreamLedger()
    for seq in (1, 2, 3, 4):
        ledger.delivered(seq, seq)
    now_s = 1_000.0
    ledger.confirmed(1, now_s, waiting=1)
    ledger.delivered(1, 1)  # it had come before
    with pytest.raises(AssertionError, match="without a kill"):
        ledger.delivered(1, 1)
    ledger.confirmed(2, now_s, waiting=0)
    ledger.confirmed(3, now_s + WINDOW_S, waiting=0)
    ledger.killed_s.append(now_s + 10.0)
    ledger.silent_s.append(now_s + WINDOW_S + 0.01)
    ledger.delivered(3, 3)
    ledger.delivered(4, 4)
    with pytest.raises(AssertionError, match="before the end"):
        ledger.delivered(2, 2)
    assert ledger.repeated == 1
