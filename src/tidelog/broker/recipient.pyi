from collections.abc import Callable
from typing import Any

from tidelog.broker.outbox import Outbox
from tidelog.subject.route import Subscriber

class FlushQueue:
    wake: Callable[[], object] | None
    def __init__(self) -> None: ...
    def take(self) -> list[Recipient]: ...

class Recipient(Subscriber):
    outbox: Outbox
    owner: Any
    connection: Any
    echo: bool
    headers: bool
    closed: bool
    filtered: bool
    tracing: bool
    max_pending: int
    out_msgs: int
    out_bytes: int
    ledger: Any
    congested_by: Recipient | None
    held_back: dict[Any, None] | None
    def __init__(self, queue: FlushQueue, owner: Any) -> None: ...
    def bound(self, max_pending: int) -> None: ...
    def write(self, data: bytes) -> None: ...
    def shut(self) -> None: ...
    @property
    def pending_size(self) -> int: ...
