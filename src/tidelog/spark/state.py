"""A stream as it is at one moment, as far as a reader wants to know."""

from dataclasses import dataclass, replace
from typing import Any

from tidelog.client.jetstream.answer import StreamInfo
from tidelog.client.jetstream.desk import JetStream
from tidelog.cold.history import History
from tidelog.spark.link import Link

# Error code of the API: there is no such stream.
STREAM_NOT_FOUND = 10059


@dataclass(frozen=True, slots=True)
class StreamState:
    """`created` tells a stream from another one of its name; `end_seq` is what the next message will have.

    `messages` and `size` are of what the server has.
    """

    name: str
    created: str
    first_seq: int
    end_seq: int
    messages: int
    size: int
    config: dict[str, Any]
    # The first that the server itself has; in front of it is what the history has.
    held_seq: int
    history: History | None = None

    def with_history(self, history: History | None, *, earlier: bool) -> "StreamState":
        """`earlier`: what the history has in front of the stream's beginning belongs to it."""
        if history is None:
            return self
        first_seq = min(self.first_seq, history.start_seq) if earlier else self.first_seq
        return replace(self, history=history, first_seq=first_seq)

    def figures(self, seq: int) -> tuple[int, int]:
        """Messages and bytes that an average at `seq` is made of: the server's, or in front of them the files'."""
        if self.history is None or seq >= self.held_seq:
            return self.messages, self.size
        entries = self.history.manifest.entries
        return sum(entry.messages for entry in entries), sum(entry.size for entry in entries)

    @property
    def forgets(self) -> bool:
        """Whether it is this stream's business to lose its beginning: a queue, or so many messages per subject."""
        by_limits: bool = self.config.get("retention", "limits") == "limits"
        return not by_limits or self.config.get("max_msgs_per_subject", -1) > 0


def ask_state(link: Link, name: str) -> StreamState:
    """With patience. Raises ApiError when there is no such stream."""
    return as_state(link.attempt(lambda: JetStream(link.connection()).stream_info(name)))


def as_state(info: StreamInfo) -> StreamState:
    state = info.state
    return StreamState(
        name=info.name,
        created=info.created,
        first_seq=max(1, state.first_seq),
        end_seq=state.last_seq + 1,
        messages=state.messages,
        size=state.bytes,
        config=info.config,
        held_seq=max(1, state.first_seq),
    )
