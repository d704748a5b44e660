"""What a client asks a pull consumer for: nothing (one message), a number, or a document.

`read_request` reads it and judges it by the consumer's configuration. Unknown fields are passed over, as at the peer.
"""

import msgspec

from tidelog.base.duration import format_duration
from tidelog.stream.consumer_config import OVERFLOW, PINNED, ConsumerConfig
from tidelog.stream.strict import Duration, Int, Int64, InvalidJson, decode_whole

LOWEST_PRIORITY = 9


class PullRequest(msgspec.Struct):
    PEER_NAME = ""

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
    """The request is refused. The message is the status that the client is told."""


def read_request(body: bytes, config: ConsumerConfig, pin: bytes) -> PullRequest:
    """`pin`: of the client that gets everything now; empty: there is none."""
    body = body.strip()
    is_document = body[:1] == b"{"
    request = read_document(body) if is_document else PullRequest(batch=read_number(body))
    judge(request, config)
    if is_document:
        judge_group(request, config, pin)
    return request


def read_number(body: bytes) -> int:
    try:
        return int(body) if body else 1
    except ValueError:
        return 1


def read_document(body: bytes) -> PullRequest:
    try:
        request = _DECODER.decode(body)
    except msgspec.MsgspecError:
        try:
            request = decode_whole(body, PullRequest)
        except InvalidJson as fault:
            raise bad(str(fault)) from None
    if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
        raise bad("heartbeat value too large")
    return request


def judge(request: PullRequest, config: ConsumerConfig) -> None:
    if 0 < config.max_batch < request.batch:
        raise Refused(f"409 Exceeded MaxRequestBatch of {config.max_batch}")
    if 0 < config.max_expires < request.expires:
        raise Refused(f"409 Exceeded MaxRequestExpires of {format_duration(config.max_expires)}")
    if 0 < config.max_bytes < request.max_bytes:
        raise Refused(f"409 Exceeded MaxRequestMaxBytes of {config.max_bytes}")


def judge_group(request: PullRequest, config: ConsumerConfig, pin: bytes) -> None:
    if (request.min_pending or request.min_ack_pending) and config.priority_policy != OVERFLOW:
        raise bad("Not a Overflow Priority consumer")
    if request.id and config.priority_policy != PINNED:
        raise bad("Not a Pinned Client Priority consumer")
    if not 0 <= request.priority <= LOWEST_PRIORITY:
        raise bad("Priority must be between 0 and 9")
    if not config.priority_policy:
        return
    if not request.group:
        raise bad("Priority Group missing")
    if request.group not in config.priority_groups:
        raise bad("Invalid Priority Group")
    if pin and request.id and request.id.encode() != pin:
        raise Refused("423 Nats-Pin-Id mismatch")


def bad(why: str) -> Refused:
    return Refused(f"400 Bad Request - {why}")
