from collections.abc import Iterator
from typing import Any

from tidelog.log.log import Log
from tidelog.log.read import Message
from tidelog.stream.account import AccountStreams
from tidelog.stream.batch import AtomicBatches, Inflight
from tidelog.stream.dedupe import Dedupe
from tidelog.stream.fast_batch import FastBatches
from tidelog.stream.parcel import Parcel
from tidelog.stream.receipt import Receipts
from tidelog.stream.schedule import Schedules
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.tick import Tick
from tidelog.subject.route import Subscriber
from tidelog.subject.transform import Transform

class Checks(Subscriber):
    config: StreamConfig
    account: AccountStreams
    name: str
    log: Log
    consumers: dict[str, Any]
    stopped: bool
    receipts: Receipts
    dedupe: Dedupe
    tick: Tick
    fast: FastBatches | None
    batches: AtomicBatches | None
    parcel: Parcel | None
    schedules: Schedules | None
    inflight: Inflight | None
    def take_config(self, config: StreamConfig) -> None: ...
    def transform_of(self, pair: Any) -> Transform | None: ...
    def is_schedule(self, subject: bytes) -> bool: ...
    def subject_count(self, subject: bytes) -> int: ...
    def with_header(self, text: bytes, start_seq: int, backward: bool = False) -> Iterator[Message]: ...
    def newest(self, subject: bytes) -> int: ...
