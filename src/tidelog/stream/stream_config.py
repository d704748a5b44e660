"""What a stream is told to be: the peer's StreamConfig, field for field, in its order and with its JSON.

A field with a plain default is left out of the JSON when it holds it; one with `always(...)` is always there. Times
of day are RFC 3339 texts (`base.instant`), durations nanoseconds. What is allowed in the fields: `stream_check`.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec

from tidelog.base.text import go_quote
from tidelog.stream import metadata
from tidelog.stream.strict import Choice, Duration, GoType, Instant, Int, Int32, Int64, Uint64

LIMITS, INTEREST, WORKQUEUE = "limits", "interest", "workqueue"
DISCARD_OLD, DISCARD_NEW = "old", "new"
FILE, MEMORY = "file", "memory"
ASYNC = "async"


def cannot_unmarshal(written: str) -> str:
    return f"can not unmarshal {go_quote(written.encode('utf-8', 'replace'))}"


def _compression_fault(written: str) -> str:
    if written[:1] in ('"', "n"):
        return "unknown compression algorithm"
    kind = {"{": "object", "[": "array", "t": "bool", "f": "bool"}.get(written[:1], "number")
    return f"json: cannot unmarshal {kind} into Go value of type string"


def always(default: Callable[[], Any]) -> Any:
    """A field that is in the JSON whatever it holds; msgspec leaves out plain defaults only."""
    return msgspec.field(default_factory=default)


Retention = Annotated[str, Choice((LIMITS, INTEREST, WORKQUEUE), cannot_unmarshal)]
Discard = Annotated[str, Choice((DISCARD_OLD, DISCARD_NEW), cannot_unmarshal, any_case=True)]
Storage = Annotated[str, Choice((FILE, MEMORY), cannot_unmarshal)]
Compression = Annotated[str, Choice(("none", "s2"), _compression_fault)]
# Empty is the default mode, under either name.
PersistMode = Annotated[str, Choice((ASYNC,), cannot_unmarshal, (("default", ""), ("", "")))]


class Placement(msgspec.Struct, omit_defaults=True):
    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class SubjectTransform(msgspec.Struct, omit_defaults=True):
    PEER_NAME: ClassVar[str] = "SubjectTransformConfig"

    src: str = always(str)
    dest: str = always(str)


Transforms = Annotated[list[SubjectTransform], GoType("[]server.SubjectTransformConfig")]


class RePublish(msgspec.Struct, omit_defaults=True):
    src: str = ""
    dest: str = always(str)
    headers_only: bool = False


class External(msgspec.Struct, omit_defaults=True):
    PEER_NAME: ClassVar[str] = "ExternalStream"

    api: str = always(str)
    deliver: str = always(str)


class SourceConsumer(msgspec.Struct, omit_defaults=True):
    PEER_NAME: ClassVar[str] = "StreamConsumerSource"

    name: str = ""
    deliver_subject: str = ""


class StreamSource(msgspec.Struct, omit_defaults=True):
    """Another stream whose messages this one takes over, as a mirror or one of several sources."""

    name: str = always(str)
    opt_start_seq: Uint64 = 0
    opt_start_time: Instant | None = None
    filter_subject: str = ""
    subject_transforms: Transforms = []
    external: External | None = None
    consumer: SourceConsumer | None = None


Sources = Annotated[list[StreamSource], GoType("[]*server.StreamSource")]


class ConsumerLimits(msgspec.Struct, omit_defaults=True):
    PEER_NAME: ClassVar[str] = "StreamConsumerLimits"

    inactive_threshold: Duration = 0
    max_ack_pending: Int = 0


class StreamConfig(msgspec.Struct, omit_defaults=True, kw_only=True):
    name: str = always(str)
    description: str = ""
    subjects: list[str] = []
    retention: Retention = always(lambda: LIMITS)
    max_consumers: Int = always(int)
    max_msgs: Int64 = always(int)
    max_bytes: Int64 = always(int)
    max_age: Duration = always(int)
    max_msgs_per_subject: Int64 = always(int)
    max_msg_size: Int32 = 0
    discard: Discard = always(lambda: DISCARD_OLD)
    storage: Storage = always(lambda: FILE)
    num_replicas: Int = always(int)
    no_ack: bool = False
    duplicate_window: Duration = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: Sources = []
    compression: Compression = always(lambda: "none")
    first_seq: Uint64 = 0
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: bool = always(bool)
    mirror_direct: bool = always(bool)
    discard_new_per_subject: bool = False
    sealed: bool = always(bool)
    deny_delete: bool = always(bool)
    deny_purge: bool = always(bool)
    allow_rollup_hdrs: bool = always(bool)
    consumer_limits: ConsumerLimits = always(ConsumerLimits)
    allow_msg_ttl: bool = always(bool)
    subject_delete_marker_ttl: Duration = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = ""
    allow_batched: bool = False
    metadata: dict[str, str] = {}

    def copy(self) -> "StreamConfig":
        """One of its own that shares no part with this one."""
        return msgspec.json.decode(msgspec.json.encode(self), type=StreamConfig)

    def required_level(self) -> int:
        """The level of the API that knows everything this stream uses."""
        if self.allow_batched:
            return 4
        if (
            self.allow_msg_counter
            or self.allow_atomic
            or self.allow_msg_schedules
            or self.persist_mode == ASYNC
        ):
            return 2
        return 1 if self.allow_msg_ttl or self.subject_delete_marker_ttl > 0 else 0

    def shown(self) -> "StreamConfig":
        """As it is sent to clients."""
        return msgspec.structs.replace(self, metadata=metadata.shown(self.metadata))


class StreamConfigRequest(StreamConfig, omit_defaults=True, kw_only=True):
    """The body of a request to create or update a stream."""

    pedantic: bool = False

    def config(self) -> StreamConfig:
        """What it asks for, with the metadata that is kept."""
        fields = {name: getattr(self, name) for name in StreamConfig.__struct_fields__}
        made = StreamConfig(**fields)
        made.metadata = metadata.stored(made.metadata, made.required_level())
        return made
