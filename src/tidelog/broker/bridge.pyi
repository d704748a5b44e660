from collections.abc import Callable

from tidelog.base.chance import Chance
from tidelog.stream.post import Post
from tidelog.subject.interest import Interest
from tidelog.subject.route import Subscriber

class StreamBridge(Subscriber):
    def __init__(
        self, importer: Interest, chance: Chance, rewrite: Callable[[bytes], bytes] | None
    ) -> None: ...

class Replies:
    def __init__(self, interest: Interest, chance: Chance) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...

class ServiceBridge(Subscriber):
    def __init__(
        self,
        there: Post,
        back: Post,
        replies: Replies,
        chance: Chance,
        rewrite: Callable[[bytes], bytes] | None,
        many: bool,
    ) -> None: ...
