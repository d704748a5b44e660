"""What a consumer is told to be: the peer's ConsumerConfig, field for field, in its order and with its JSON.

The conventions are those of `stream_config`. What is allowed in the fields: `consumer_check`.
"""

from typing import Annotated

import msgspec

from tidelog.stream import metadata
from tidelog.stream.stream_config import always, cannot_unmarshal
from tidelog.stream.strict import Choice, Duration, Instant, Int, Uint64

DELIVER_ALL, DELIVER_LAST, DELIVER_LAST_PER_SUBJECT = "all", "last", "last_per_subject"
DELIVER_NEW, DELIVER_BY_SEQUENCE, DELIVER_BY_TIME = "new", "by_start_sequence", "by_start_time"
ACK_NONE, ACK_ALL, ACK_EXPLICIT, ACK_FLOW_CONTROL = "none", "all", "explicit", "flow_control"
REPLAY_INSTANT, REPLAY_ORIGINAL = "instant", "original"
FORWARD, REVERSE = "forward", "reverse"
OVERFLOW, PINNED, PRIORITIZED = "overflow", "pinned_client", "prioritized"
CREATE, UPDATE = "create", "update"


def _unknown(what: str, written: str) -> str:
    return f"unknown {what}: {written}"


DeliverPolicy = Annotated[
    str,
    Choice(
        (
            DELIVER_ALL,
            DELIVER_LAST,
            DELIVER_LAST_PER_SUBJECT,
            DELIVER_NEW,
            DELIVER_BY_SEQUENCE,
            DELIVER_BY_TIME,
        ),
        cannot_unmarshal,
        (("undefined", DELIVER_ALL),),
    ),
]
AckPolicy = Annotated[str, Choice((ACK_NONE, ACK_ALL, ACK_EXPLICIT, ACK_FLOW_CONTROL), cannot_unmarshal)]
ReplayPolicy = Annotated[str, Choice((REPLAY_INSTANT, REPLAY_ORIGINAL), cannot_unmarshal)]
# Empty is none.
PriorityPolicy = Annotated[
    str,
    Choice(
        (OVERFLOW, PINNED, PRIORITIZED),
        lambda written: _unknown("priority policy", written),
        (("none", ""),),
    ),
]
# Empty: forwards. The peer has no such field.
Direction = Annotated[
    str,
    Choice((REVERSE,), lambda written: _unknown("direction", written), ((FORWARD, ""),)),
]
# Empty: create, or update if it is there.
Action = Annotated[str, Choice((CREATE, UPDATE, ""), lambda written: _unknown("consumer action", written))]


class ConsumerConfig(msgspec.Struct, omit_defaults=True, kw_only=True):
    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = always(lambda: DELIVER_ALL)
    opt_start_seq: Uint64 = 0
    opt_start_time: Instant | None = None
    ack_policy: AckPolicy = always(lambda: ACK_NONE)
    ack_wait: Duration = 0
    max_deliver: Int = 0
    backoff: list[Duration] = []
    filter_subject: str = ""
    filter_subjects: list[str] = []
    replay_policy: ReplayPolicy = always(lambda: REPLAY_INSTANT)
    rate_limit_bps: Uint64 = 0
    sample_freq: str = ""
    max_waiting: Int = 0
    max_ack_pending: Int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int = 0
    max_expires: Duration = 0
    max_bytes: Int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = 0
    inactive_threshold: Duration = 0
    num_replicas: Int = always(int)
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}
    pause_until: Instant | None = None
    priority_groups: list[str] = []
    priority_policy: PriorityPolicy = ""
    priority_timeout: Duration = 0
    direction: Direction = ""

    def copy(self) -> "ConsumerConfig":
        """One of its own that shares no part with this one."""
        return msgspec.json.decode(msgspec.json.encode(self), type=ConsumerConfig)

    @property
    def is_durable(self) -> bool:
        return self.durable_name != ""

    @property
    def is_reverse(self) -> bool:
        return self.direction == REVERSE

    @property
    def is_pull(self) -> bool:
        return self.deliver_subject == ""

    def filters(self) -> list[str]:
        """The subjects it wants; none: all."""
        return [*self.filter_subjects, self.filter_subject] if self.filter_subject else self.filter_subjects

    def required_level(self) -> int:
        """The level of the API that knows everything this consumer uses."""
        if self.ack_policy == ACK_FLOW_CONTROL:
            return 4
        paused = self.pause_until is not None and not self.pause_until.startswith("0001-01-01T00:00:00")
        prioritized = self.priority_policy or self.priority_timeout or self.priority_groups
        return 1 if paused or prioritized else 0

    def shown(self) -> "ConsumerConfig":
        """As it is sent to clients."""
        return msgspec.structs.replace(self, metadata=metadata.shown(self.metadata))


class CreateConsumerRequest(msgspec.Struct, omit_defaults=True):
    """The body of a request to create or update a consumer."""

    stream_name: str = always(str)
    config: ConsumerConfig = always(ConsumerConfig)
    action: Action = always(str)
    pedantic: bool = False
