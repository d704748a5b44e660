"""Lives of logs on a simulated disk for as long as it is told: `PYTHONPATH=tests python -m sim.soak --seconds 600`.

Every seed is a log of its own, from which everything follows (`sim.log_life`); every other log is `strict` in all
of its lives, and counted for itself; `--policy balanced` makes all of them so. A seed that fails is told, and fails
again alone: `--seed N --logs 1`, with the same policy.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict

from sim.log_life import POLICIES, Figures, Lives
from tidelog.log.policy import PRESETS


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Let logs live on a simulated disk, and compare what they promise."
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--logs", type=int, default=1 << 60, help="End after so many.")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="Of the first log; others follow.")
    parser.add_argument("--policy", choices=sorted(PRESETS), help="Of all logs in all of their lives.")
    options = parser.parse_args()
    begun = time.monotonic()
    figures: dict[str, Figures] = {}
    seed = options.seed
    print(f"simulation: seeds from {seed}", flush=True)
    while seed < options.seed + options.logs and time.monotonic() - begun < options.seconds:
        name = options.policy or ("any" if seed % 2 else "strict")
        policies = (PRESETS[name],) if name in PRESETS else POLICIES
        try:
            Lives(seed, figures.setdefault(name, Figures()), policies).run()
        except BaseException:
            print(f"simulation: failed at seed {seed}, policy {name}", flush=True)
            raise
        seed += 1
    told = {"seconds": round(time.monotonic() - begun, 1), "seeds": [options.seed, seed - 1]}
    print(json.dumps({**told, **{name: asdict(one) for name, one in figures.items()}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
