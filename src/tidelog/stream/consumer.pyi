from tidelog.log.filter import Filter
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.course import Course
from tidelog.stream.position import Position
from tidelog.stream.pull import Waiting
from tidelog.stream.push import Pace
from tidelog.stream.stream import Stream

class Consumer(Position):
    created_ns: int
    waiting: Waiting | None
    pace: Pace
    active: bool
    paused_until_ns: int
    def __init__(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        created_ns: int,
        keeper: object,
        course: Course,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self, status: bytes | None = None) -> None: ...
    def update(self, config: ConsumerConfig, filter: Filter) -> None: ...
    def reset_to(self, seq: int) -> None: ...
    def ask(self, reply: bytes, body: bytes) -> None: ...
    def unpin(self, reason: str) -> None: ...
    def pass_time(self) -> None: ...
