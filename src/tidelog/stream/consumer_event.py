"""What a consumer tells those who watch over it: advisories and the metric of acknowledgements, as the peer words them.

Nothing is put together that nobody listens to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.base.instant import timestamp
from tidelog.stream.advisory import new_id

if TYPE_CHECKING:
    from tidelog.stream.consumer import Consumer

ADVISORY = "io.nats.jetstream.advisory.v1."
ADVISORY_SUBJECT = "$JS.EVENT.ADVISORY.CONSUMER."
METRIC = "io.nats.jetstream.metric.v1."
METRIC_SUBJECT = "$JS.EVENT.METRIC.CONSUMER."
UNACKNOWLEDGED_GONE = "Unacknowledged message was deleted"


def send(consumer: Consumer, subject: str, kind: str, *, named: str = "", **fields: Any) -> None:
    """Tell those who listen; fields that are None or empty texts are left out. `named`: the account."""
    to = f"{subject}.{consumer.stream.name}.{consumer.name}".encode()
    account = consumer.stream.account
    if not account.post.wanted(to):
        return
    event = {
        "type": kind,
        "id": new_id(account.chance),
        "timestamp": timestamp(account.engine.clock.now_ns()),
        "account": named,
        "stream": consumer.stream.name,
        "consumer": consumer.name,
        **fields,
        "domain": account.engine.settings.domain,
    }
    account.post.publish(
        to, msgspec.json.encode({key: value for key, value in event.items() if value not in (None, "")})
    )


def created(consumer: Consumer) -> None:
    send(consumer, f"{ADVISORY_SUBJECT}CREATED", f"{ADVISORY}consumer_action", action="create")


def deleted(consumer: Consumer) -> None:
    send(consumer, f"{ADVISORY_SUBJECT}DELETED", f"{ADVISORY}consumer_action", action="delete")


def paused(consumer: Consumer, until: str, is_paused: bool) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}PAUSE",
        f"{ADVISORY}consumer_pause",
        paused=is_paused,
        pause_until=until,
    )


def pinned(consumer: Consumer, group: str, pin: str) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}PINNED",
        f"{ADVISORY}consumer_group_pinned",
        named=consumer.stream.account.name,
        group=group,
        pinned_id=pin,
    )


def unpinned(consumer: Consumer, group: str, reason: str) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}UNPINNED",
        f"{ADVISORY}consumer_group_unpinned",
        named=consumer.stream.account.name,
        group=group,
        reason=reason,
    )


def delivered_too_often(consumer: Consumer, seq: int, deliveries: int) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}MAX_DELIVERIES",
        f"{ADVISORY}max_deliver",
        stream_seq=seq,
        deliveries=deliveries,
    )


def refused(consumer: Consumer, seq: int, dseq: int, deliveries: int) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}MSG_NAKED",
        f"{ADVISORY}nak",
        consumer_seq=dseq,
        stream_seq=seq,
        deliveries=deliveries,
    )


def terminated(consumer: Consumer, seq: int, dseq: int, deliveries: int, reason: str) -> None:
    send(
        consumer,
        f"{ADVISORY_SUBJECT}MSG_TERMINATED",
        f"{ADVISORY}terminated",
        consumer_seq=dseq,
        stream_seq=seq,
        deliveries=deliveries,
        reason=reason,
    )


def acknowledged(consumer: Consumer, seq: int, dseq: int, deliveries: int, delay_ns: int) -> None:
    """The metric of an acknowledgement that is sampled."""
    send(
        consumer,
        f"{METRIC_SUBJECT}ACK",
        f"{METRIC}consumer_ack",
        consumer_seq=dseq,
        stream_seq=seq,
        ack_time=delay_ns,
        deliveries=deliveries,
    )
