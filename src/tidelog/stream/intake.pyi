from typing import Any

from tidelog.log.log import Log
from tidelog.stream.account import AccountStreams
from tidelog.stream.dedupe import Dedupe
from tidelog.stream.failure import ApiFailure
from tidelog.stream.receipt import Receipts
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.tick import Tick
from tidelog.subject.route import Subscriber
from tidelog.subject.transform import Transform

class Intake(Subscriber):
    config: StreamConfig
    account: AccountStreams
    name: str
    log: Log
    consumers: dict[str, Any]
    stopped: bool
    receipts: Receipts
    dedupe: Dedupe
    tick: Tick
    def take_config(self, config: StreamConfig) -> None: ...
    def transform_of(self, pair: Any) -> Transform | None: ...
    def refusal(self, refused: ApiFailure) -> bytes: ...
    def insert(self, subject: bytes, header: bytes, payload: bytes) -> int: ...
    def publish_again(
        self, subject: bytes, header: bytes, payload: bytes, seq: int, subject_seq: int
    ) -> None: ...
    def subject_count(self, subject: bytes) -> int: ...
    def newest(self, subject: bytes) -> int: ...
