from collections.abc import Iterable

class Request:
    reply: bytes
    left: int
    delivered: int
    room: int
    no_wait: bool
    group: str
    pin: bytes

class Waiting:
    count: int
    most: int
    pin: bytes
    pinned_ns: int
    active_ns: int
    def requests(self) -> Iterable[Request]: ...
