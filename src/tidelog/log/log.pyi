from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.base.errors import StorageError
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk
from tidelog.log.bound import LimitReached as LimitReached
from tidelog.log.ceiling import Ceiling
from tidelog.log.commit import Committer
from tidelog.log.expiry import Expiries
from tidelog.log.filter import Filter
from tidelog.log.keeper import Keeper
from tidelog.log.read import Horizon, Message, Reader
from tidelog.log.settings import LogSettings
from tidelog.log.state import LogState
from tidelog.log.store import Store

class LogRefused(StorageError): ...

class Start:
    FIRST: str
    LAST: str
    NEW: str

class Log:
    store: Store
    horizon: Horizon
    committer: Committer
    settings: LogSettings
    disk: Disk
    keeper: Keeper
    expiries: Expiries
    refusal: object
    failure: StorageError | None
    closed: bool
    on_commit: Callable[[], None] | None
    on_expiry: Callable[[int], bool] | None
    on_failure: Callable[[StorageError], None] | None
    def __init__(
        self,
        store: Store,
        settings: LogSettings,
        clock: Clock,
        worker: Worker,
        expiries: Expiries,
        ceiling: Ceiling | None,
        keeper: Keeper,
    ) -> None: ...
    def append(
        self, subject: bytes, payload: bytes, header: bytes = b"", ts_ns: int = 0, expiry_ns: int = 0
    ) -> int: ...
    def skip_to(self, next_seq: int) -> None: ...
    def commit(self) -> None: ...
    def wait(self, seq: int, callback: Callable[[StorageError | None], None]) -> None: ...
    def tick(self) -> None: ...
    def counted_size(self) -> int: ...
    def next_due_ns(self) -> int | None: ...
    def remove(self, seq: int, erase: bool = False) -> bool: ...
    def purge(self, filter: Filter | None = None, *, before_seq: int | None = None, keep: int = 0) -> int: ...
    def get(self, seq: int) -> Message | None: ...
    def peek(self, seq: int) -> Message | None: ...
    def fact(self, seq: int) -> str: ...
    def next(self, filter: Filter, seq: int) -> int: ...
    def previous(self, filter: Filter, seq: int) -> int: ...
    def count(self, filter: Filter, seq: int = 1) -> int: ...
    def last_per_subject(self, filter: Filter, last_seq: int | None = None) -> list[int]: ...
    def subjects(self, filter: Filter) -> list[tuple[bytes, int, int, int]]: ...
    def seq_at_time(self, ts_ns: int) -> int: ...
    def reader(
        self,
        filter: Filter | None = None,
        *,
        start: str | None = None,
        start_seq: int | None = None,
        start_ts_ns: int | None = None,
        backward: bool = False,
        stop_seq: int | None = None,
        stop_ts_ns: int | None = None,
        limit: int | None = None,
        strict: bool = False,
    ) -> Reader: ...
    def first_ts_ns(self) -> int: ...
    def state(self) -> LogState: ...
    def configure(self, settings: LogSettings) -> None: ...
    def close(self) -> None: ...
