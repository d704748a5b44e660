from collections.abc import Sequence

PARSE_ERROR: str
PROTOCOL_VIOLATION: str
VERB_NAMES: dict[int, str]

class Operations:
    max_control_line: int
    max_payload: int
    client_role: bool
    headers: bool

class Collector(Operations):
    found: list[tuple[object, ...]]
    def __init__(
        self, *, client_role: bool = True, max_control_line: int = 4096, max_payload: int = -1
    ) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> list[tuple[object, ...]]: ...
    def tail_of(self, data: bytes) -> Sequence[bytes]: ...
