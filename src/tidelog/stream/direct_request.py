"""Requests to read messages directly: what may be asked, and what may not be asked together.

The body is the peer's, and beyond it what `reverse` brings: from the newest message, or from an anchor, backwards.

    seq, prev_by_subj, last_by_subj, end_time     where it starts: the newest message at or below, of a subject, by then
    stop_seq, stop_time                           where it ends, inclusive
    batch, max_bytes, no_hdr                      as forwards
"""

import msgspec

from tidelog.base.errors import TidelogError
from tidelog.stream.strict import Instant, Int, InvalidJson, Uint64, decode


class GetRequest(msgspec.Struct, forbid_unknown_fields=True):
    PEER_NAME = "JSApiMsgGetRequest"

    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Instant | None = None
    multi_last: list[str] = []
    up_to_seq: Uint64 = 0
    up_to_time: Instant | None = None
    no_hdr: bool = False


class DirectRequest(GetRequest, forbid_unknown_fields=True):
    reverse: bool = False
    prev_by_subj: str = ""
    end_time: Instant | None = None
    stop_seq: Uint64 = 0
    stop_time: Instant | None = None


class Refused(TidelogError):
    """The request cannot be carried out; the message is the status line."""


def read_request(body: bytes) -> DirectRequest:
    """What a body asks for. Raises Refused."""
    if not body:
        raise Refused("408 Empty Request")
    try:
        asked = decode(body, DirectRequest, strict=False)
    except InvalidJson:
        raise Refused("408 Malformed Request") from None
    if asked.reverse:
        check_reverse(asked)
    else:
        check_forward(asked)
    return asked


def read_options(body: bytes) -> bool:
    """Whether headers are left out, where the subject says everything else. Raises Refused."""
    if not body:
        return False
    try:
        asked = decode(body, DirectRequest, strict=False)
    except InvalidJson:
        raise Refused("408 Malformed Request") from None
    if asked != DirectRequest(no_hdr=asked.no_hdr, max_bytes=asked.max_bytes):
        raise Refused("408 Bad Request")
    return asked.no_hdr


def check_forward(asked: DirectRequest) -> None:
    seq, last, after, time = asked.seq, asked.last_by_subj, asked.next_by_subj, asked.start_time
    if not (seq or last or after or asked.multi_last or time is not None):
        raise Refused("408 Empty Request")
    if (
        (seq and (last or time is not None))
        or (last and (time is not None or after or asked.batch > 0 or asked.multi_last))
        or (after and asked.multi_last)
        or (asked.up_to_seq and asked.up_to_time is not None)
        or asked.prev_by_subj
        or asked.end_time is not None
        or asked.stop_seq
        or asked.stop_time is not None
    ):
        raise Refused("408 Bad Request")


def check_reverse(asked: DirectRequest) -> None:
    anchors = (asked.seq > 0, bool(asked.last_by_subj), asked.end_time is not None)
    if (
        sum(anchors) > 1
        or (asked.last_by_subj and asked.prev_by_subj)
        or asked.next_by_subj
        or asked.start_time is not None
        or asked.multi_last
        or asked.up_to_seq
        or asked.up_to_time is not None
    ):
        raise Refused("408 Bad Request")
