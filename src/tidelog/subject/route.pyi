from collections.abc import Callable
from typing import Any

class Subscriber:
    internal: bool
    def identify(self) -> Any: ...

class Callback(Subscriber):
    def __init__(self, function: Callable[[bytes, bytes | None, bytes, Any], object]) -> None: ...

class Reception(Subscriber):
    def __init__(
        self,
        function: Callable[[bytes, bytes | None, bytes, bytes, Any], object],
        elsewhere: tuple[bytes, ...] = (),
    ) -> None: ...

class Subscription:
    subject: bytes
    queue: bytes
    sid: bytes
    subscriber: Subscriber
    max_msgs: int
    delivered: int
    closed: bool
    def __init__(self, subject: bytes, queue: bytes, sid: bytes, subscriber: Subscriber) -> None: ...
