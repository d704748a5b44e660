"""Delete markers: what is left in the place of the last message of a subject when it has become too old.

A stream with `subject_delete_marker_ttl` says with them that a subject has ended, to those who follow it. A marker
takes the place of the message, so that at every moment one of them is there, and goes when its own time is over. A
message that is itself the end of a subject (a marker, or a purge of a key-value store) leaves none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.base.duration import format_duration
from tidelog.base.errors import StorageError
from tidelog.log.log import LimitReached
from tidelog.stream.failure import ApiFailure
from tidelog.stream.publish import header_value

if TYPE_CHECKING:
    from tidelog.stream.stream import Stream

SECOND_NS = 1_000_000_000


def leave(stream: Stream, seq: int) -> bool:
    """Put a marker into the place of a message that is too old. False: it leaves none."""
    if stream.log.refusal is not None:
        raise StorageError(f"no marker can be left: {stream.log.refusal}")
    message = stream.log.peek(seq)
    if message is None or stream.subject_count(message.subject) != 1 or ends_subject(message.header):
        return False
    ttl_ns = stream.config.subject_delete_marker_ttl // SECOND_NS * SECOND_NS
    header = (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %s\r\nNats-Rollup: sub\r\n\r\n"
        % format_duration(ttl_ns).encode()
    )
    try:
        return stream.insert(message.subject, header, b"") > 0
    except (ApiFailure, LimitReached):
        # There is no room for it: then the message goes without.
        return False


def ends_subject(header: bytes) -> bool:
    return (
        bool(header_value(header, b"Nats-Marker-Reason")) or header_value(header, b"KV-Operation") == b"PURGE"
    )
