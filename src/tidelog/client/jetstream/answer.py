"""What the JetStream API answers, typed as far as we use it.

An answer knows the fields below, passes over those it does not know (servers grow), and keeps the whole document
for whoever shows it. Times stay as the server wrote them, since they have nanoseconds; durations are nanoseconds.
"""

from typing import Any, TypeVar

import msgspec

from tidelog.base.errors import ApiError, ClientError

Document = dict[str, Any]


class Answer(msgspec.Struct, kw_only=True):
    """`document` is all that the server said, without `type`."""

    document: Document = msgspec.field(default_factory=dict)


Kind = TypeVar("Kind", bound=Answer)


class Lost(msgspec.Struct):
    msgs: list[int] | None = None
    bytes: int = 0


class StreamState(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: str = ""
    last_seq: int = 0
    last_ts: str = ""
    num_subjects: int = 0
    num_deleted: int = 0
    consumer_count: int = 0
    deleted: list[int] | None = None
    subjects: dict[str, int] | None = None
    lost: Lost | None = None


class SourceInfo(msgspec.Struct):
    name: str = ""
    lag: int = 0
    active: int = -1
    filter_subject: str = ""


class StreamInfo(Answer, kw_only=True):
    config: Document
    created: str = ""
    state: StreamState = msgspec.field(default_factory=StreamState)
    mirror: SourceInfo | None = None
    sources: list[SourceInfo] | None = None
    total: int = 0

    @property
    def name(self) -> str:
        return str(self.config["name"])


class SequencePair(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: str = ""


class ConsumerInfo(Answer, kw_only=True):
    stream_name: str
    name: str
    config: Document = msgspec.field(default_factory=dict)
    created: str = ""
    delivered: SequencePair = msgspec.field(default_factory=SequencePair)
    ack_floor: SequencePair = msgspec.field(default_factory=SequencePair)
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    push_bound: bool = False
    paused: bool = False
    pause_remaining: int = 0


class PauseAnswer(Answer, kw_only=True):
    paused: bool = False
    pause_until: str = ""
    pause_remaining: int = 0


class PurgeAnswer(Answer, kw_only=True):
    purged: int = 0


class SnapshotAnswer(Answer, kw_only=True):
    config: Document
    state: StreamState


class RestoreAnswer(Answer, kw_only=True):
    deliver_subject: str


class StoredForm(msgspec.Struct):
    """A message as STREAM.MSG.GET gives it: header block and payload in base64."""

    subject: str
    seq: int
    time: str
    hdrs: bytes = b""
    data: bytes = b""


class MessageAnswer(Answer, kw_only=True):
    message: StoredForm


class PubAck(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    domain: str = ""
    duplicate: bool = False
    batch: str = ""
    count: int = 0


def read_document(payload: bytes) -> Document:
    """The document of an answer. Raises ApiError when it is a refusal."""
    try:
        document = msgspec.json.decode(payload, type=Document)
    except msgspec.MsgspecError as error:
        raise ClientError(f"the server's answer is no JSON document: {error}") from error
    refusal = document.get("error")
    if isinstance(refusal, dict):
        raise ApiError(
            int(refusal.get("code", 0)), int(refusal.get("err_code", 0)), str(refusal.get("description", ""))
        )
    document.pop("type", None)
    return document


def convert(document: Document, kind: type[Kind]) -> Kind:
    """Typed. Raises ClientError when a field is of another type than it should be."""
    try:
        answer = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ClientError(f"the server's answer is not what it should be: {error}") from error
    answer.document = document
    return answer
