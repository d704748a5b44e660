from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.stream.stream import Stream

class Tick:
    wake: Callable[[], None] | None
    def __init__(self, clock: Clock) -> None: ...
    def touch(self, stream: Stream) -> int: ...
    def take(self) -> list[Stream]: ...
