from collections.abc import Callable

from tidelog.log.filter import Filter
from tidelog.subject.route import Subscriber

class Horizon:
    committed_seq: int

    def __init__(self, committed_seq: int) -> None: ...
    def waiting(self) -> int: ...

class Follower(Subscriber):
    filter: Filter

    def __init__(
        self, horizon: Horizon, filter: Filter, callback: Callable[[], object], last_seq: int
    ) -> None: ...
    def wait(self, anything: bool = False) -> None: ...
    def rest(self) -> None: ...
    def end(self) -> None: ...
