from tidelog.log.log import Log
from tidelog.stream.account import AccountStreams
from tidelog.subject.route import Subscriber

class Direct(Subscriber):
    name: str
    def __init__(self, account: AccountStreams, log: Log, name: str) -> None: ...
    def listen(self, wanted: bool) -> None: ...

class Delivery:
    def step(self) -> bool: ...
