"""Kills servers with streams for as long as it is told: `PYTHONPATH=tests python -m crash.stream_soak --kills 500`.

A store is written to over some kills, then checked as a whole, then a fresh one begins; each has its own seed, from
which its settings follow. When something is wrong the seed is told, and what was on the disk is kept.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter

from crash.stream_supervisor import StreamPlan, StreamSupervisor

KILLS_PER_STORE = 10


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill servers, and compare what they tell with what they told."
    )
    parser.add_argument("--kills", type=int, default=1 << 60)
    parser.add_argument("--seconds", type=float, default=1e9, help="Begin no store after so many.")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="tidelog-stream-crash-")
    print(f"stream soak: seed {options.seed}, in {root}", flush=True)
    begun = time.monotonic()
    totals = Counter[str]()
    seed = options.seed
    while totals["kills"] < options.kills and time.monotonic() - begun < options.seconds:
        plan = StreamPlan.drawn(seed)
        directory = os.path.join(root, str(seed))
        supervisor = StreamSupervisor(directory, plan)
        try:
            ledger = asyncio.run(supervisor.run(min(KILLS_PER_STORE, options.kills - totals["kills"])))
        except BaseException:
            print(f"stream soak: failed with {plan}; what was on the disk is in {directory}", flush=True)
            print(supervisor.log[-3000:])
            raise
        shutil.rmtree(directory)
        totals.update(
            stores=1,
            kills=len(ledger.killed_s),
            acknowledged=len(ledger.seqs),
            duplicates=ledger.duplicates,
            confirmed=len(ledger.confirmed_s),
            repeated=ledger.repeated,
            delivered=ledger.deliveries.total(),
        )
        seed += 1
        # One line for each store, so that a run may be cut short.
        print(json.dumps({"seconds": round(time.monotonic() - begun, 1), **totals}), flush=True)
    os.rmdir(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
