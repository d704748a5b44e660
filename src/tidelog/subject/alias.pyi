from tidelog.base.chance import Chance
from tidelog.subject.interest import Interest
from tidelog.subject.route import Subscriber

class Alias(Subscriber):
    def __init__(
        self,
        interest: Interest,
        chance: Chance,
        prefix: bytes,
        put: bytes,
        elsewhere: tuple[bytes, ...] = (),
    ) -> None: ...
