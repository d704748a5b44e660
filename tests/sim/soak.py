"""Lives of logs on a simulated disk for as long as it is told: `PYTHONPATH=tests python -m sim.soak --seconds 600`.

Every seed is a log of its own, from which everything follows (`sim.log_life`); every other log is `strict` in all
of its lives, and counted for itself. A seed that fails is told, and fails again alone: `--seed N --logs 1`.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict

from sim.log_life import POLICIES, Figures, Lives
from tidelog.log.policy import STRICT


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Let logs live on a simulated disk, and compare what they promise."
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--logs", type=int, default=1 << 60, help="End after so many.")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="Of the first log; others follow.")
    options = parser.parse_args()
    begun = time.monotonic()
    strict, mixed = Figures(), Figures()
    seed = options.seed
    print(f"simulation: seeds from {seed}", flush=True)
    while seed < options.seed + options.logs and time.monotonic() - begun < options.seconds:
        try:
            if seed % 2:
                Lives(seed, mixed).run()
            else:
                Lives(seed, strict, (STRICT,)).run()
        except BaseException:
            print(
                f"simulation: failed at seed {seed}, of {len(POLICIES) if seed % 2 else 1} policies",
                flush=True,
            )
            raise
        seed += 1
    told = {"seconds": round(time.monotonic() - begun, 1), "seeds": [options.seed, seed - 1]}
    print(json.dumps({**told, "strict": asdict(strict), "mixed": asdict(mixed)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
