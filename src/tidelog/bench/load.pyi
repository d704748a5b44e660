from tidelog.bench.check import Check

class Run:
    """What the workers of one run share: a deadline, and word that one of them has failed."""

    def __init__(self, *, timeout_s: float) -> None: ...
    def stop(self) -> None: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def late(self) -> bool: ...

def publish(run: Run, fd: int, lap: bytes, laps: int) -> int:
    """Send `lap` `laps` times, then PING; monotonic ns at which the PONG was read."""

def receive(run: Run, fds: list[int], checks: list[Check]) -> int:
    """Read every socket until its check is complete; monotonic ns of the last byte."""
