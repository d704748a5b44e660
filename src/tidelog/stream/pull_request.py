"""What a client asks a pull consumer for: nothing (one message), a number, or a document.

Unknown fields are passed over, as at the peer. What the numbers may be is the consumer's to judge.
"""

import msgspec

from tidelog.stream.strict import Duration, Int, Int64, InvalidJson, decode


class PullRequest(msgspec.Struct):
    PEER_NAME = "JSApiConsumerGetNextRequest"

    expires: Duration = 0
    batch: Int = 0
    max_bytes: Int = 0
    no_wait: bool = False
    idle_heartbeat: Duration = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int = 0


_DECODER = msgspec.json.Decoder(PullRequest)


class Refused(Exception):
    """The request is none. The message is what the client is told."""


def read_request(body: bytes) -> PullRequest:
    body = body.strip()
    if not body:
        return PullRequest(batch=1)
    if body[:1] != b"{":
        try:
            return PullRequest(batch=int(body))
        except ValueError:
            return PullRequest(batch=1)
    try:
        request = _DECODER.decode(body)
    except msgspec.MsgspecError:
        try:
            request = decode(body, PullRequest, strict=False)
        except InvalidJson as fault:
            raise Refused(str(fault)) from None
    if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
        raise Refused("heartbeat value too large")
    return request
