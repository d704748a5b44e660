from tidelog.base.chance import Chance
from tidelog.subject.interest import Interest

class Post:
    interest: Interest
    sent: int
    sent_size: int
    def __init__(self, interest: Interest, chance: Chance) -> None: ...
    def publish(
        self, subject: bytes, payload: bytes, header: bytes = b"", reply: bytes | None = None
    ) -> int: ...
    def deliver(
        self, to: bytes, subject: bytes, payload: bytes, header: bytes = b"", reply: bytes | None = None
    ) -> int: ...
    def wanted(self, subject: bytes) -> bool: ...
