from collections.abc import Callable

from tidelog.stream.consumer import Consumer
from tidelog.subject.interest import Interest
from tidelog.subject.route import Subscriber

class Gate(Subscriber):
    desk: Callable[..., None] | None
    def __init__(self, interest: Interest) -> None: ...
    def admit(self, consumer: Consumer) -> None: ...
    def dismiss(self, consumer: Consumer) -> None: ...
