from collections.abc import Callable, Iterator

from tidelog.log.fact import Lost, Trimmed
from tidelog.log.filter import Filter
from tidelog.log.horizon import Horizon
from tidelog.log.store import Store

class Message:
    seq: int
    ts_ns: int
    subject: bytes
    header: bytes
    payload: bytes
    expiry_ns: int
    def __init__(
        self, seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes, expiry_ns: int
    ) -> None: ...

class Batch:
    count: int
    size: int
    facts: list[Trimmed | Lost]
    ended: bool
    awaited: bool
    def sequences(self) -> list[int]: ...
    def bounds(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...

class Reader:
    filter: Filter
    backward: bool
    next_seq: int
    stop_seq: int
    stop_ts_ns: int
    opened_seq: int
    ended: bool
    def __init__(
        self,
        store: Store,
        horizon: Horizon,
        filter: Filter,
        *,
        start_seq: int,
        backward: bool = False,
        stop_seq: int | None = None,
        stop_ts_ns: int | None = None,
        limit: int | None = None,
        strict: bool = False,
    ) -> None: ...
    def heads_only(self) -> Reader: ...
    def read(self, most: int = 256, size: int = 262144) -> Batch: ...
    def arm(self, callback: Callable[[], None]) -> None: ...
    def wake(self) -> None: ...
    def disarm(self) -> None: ...
    def pending(self) -> int: ...
