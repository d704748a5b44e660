"""Memory and processor use of this process."""

import os

from tidelog.base.clock import Clock

# Between two readings closer than this, the share of the processor would be mostly noise.
PERIOD_NS = 1_000_000_000


def resident_size() -> int:
    """Bytes in memory now; where the system does not tell, the most there have been."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def core_count() -> int:
    """Cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


class ProcessorMeter:
    """Percent of one core used since the reading before, or since the start."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.at_ns = clock.monotonic_ns()
        self.used_s = 0.0
        self.percent = 0.0

    def read(self) -> float:
        now_ns = self.clock.monotonic_ns()
        if now_ns - self.at_ns >= PERIOD_NS:
            used_s = processor_seconds()
            self.percent = round((used_s - self.used_s) / ((now_ns - self.at_ns) / 1e9) * 100, 1)
            self.at_ns, self.used_s = now_ns, used_s
        return self.percent
