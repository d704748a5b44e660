from collections.abc import Sequence
from typing import Any

from tidelog.wire.parser import Collector

class Texts:
    count: int
    def __init__(self, ends: Any, data: Any, first: int, count: int) -> None: ...

class Rows:
    count: int
    first_number: int
    def __init__(
        self,
        values: Texts,
        *,
        subject: bytes = b"",
        subjects: Texts | None = None,
        ids: Texts | None = None,
        headers: tuple[Any, Texts, Texts] | None = None,
        first_number: int = 0,
        skip: bytes | None = None,
    ) -> None: ...

class Flight:
    inbox: str
    under_way: int
    size: int
    stored: int
    duplicates: int
    max_payload: int
    def __init__(
        self,
        inbox: str,
        *,
        max_count: int,
        max_size: int,
        msg_id: str = "",
        stream: str = "",
        max_payload: int = 1048576,
    ) -> None: ...
    @property
    def has_room(self) -> bool: ...
    def board(self, rows: Rows, at: int) -> int: ...
    def unsent(self) -> bytes: ...
    def unacknowledged(self) -> Sequence[bytes]: ...
    def operation(self, number: int) -> bytes: ...
    def settle(self, number: int, duplicate: bool) -> bool: ...

class Acks(Collector):
    def __init__(self, *, max_control_line: int = 1048576) -> None: ...
    def listen(self, sid: bytes, flight: Flight | None) -> None: ...
