from typing import Any

from tidelog.log.log import Log
from tidelog.stream.account import AccountStreams
from tidelog.stream.batch import AtomicBatches, Inflight
from tidelog.stream.dedupe import Dedupe
from tidelog.stream.failure import ApiFailure
from tidelog.stream.receipt import Receipts
from tidelog.stream.schedule import Schedules
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
    batches: AtomicBatches | None
    schedules: Schedules | None
    inflight: Inflight | None
    def take_config(self, config: StreamConfig) -> None: ...
    def transform_of(self, pair: Any) -> Transform | None: ...
    def refusal(self, refused: ApiFailure) -> bytes: ...
    def insert(self, subject: bytes, header: bytes, payload: bytes) -> int: ...
    def answer_to(self, reply: bytes | None, text: bytes) -> None: ...
    def vet(
        self, subject: bytes, header: bytes, payload: bytes, inflight: Inflight
    ) -> tuple[bytes, bytes, bytes, int]: ...
    def keep_part(
        self, subject: bytes, header: bytes, payload: bytes, ttl_s: int, reply: bytes | None, tail: bytes
    ) -> bool: ...
    def record_size(self, subject: bytes, header: bytes, payload: bytes, ttl_s: int = 0) -> int: ...
    def is_schedule(self, subject: bytes) -> bool: ...
    def purge_subject(self, subject: bytes) -> None: ...
    def publish_again(
        self, subject: bytes, header: bytes, payload: bytes, seq: int, subject_seq: int
    ) -> None: ...
    def subject_count(self, subject: bytes) -> int: ...
    def newest(self, subject: bytes) -> int: ...
