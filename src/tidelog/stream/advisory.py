"""Advisories and metrics: what streams and consumers tell whoever listens on `$JS.EVENT.` of their account.

    events.stream_action(stream, CREATE)
    events.terminated(stream, consumer, consumer_seq=3, stream_seq=9, deliveries=1, reason="bad")

Nothing is put together while nobody listens. Names, types and fields are the peer's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.base.chance import Chance
from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp, timestamp_or_none
from tidelog.stream.post import Post

CREATE, MODIFY, DELETE = "create", "modify", "delete"
# What an action is called in the subject.
WORDS = {CREATE: "CREATED", MODIFY: "UPDATED", DELETE: "DELETED"}

ADVISORY = "$JS.EVENT.ADVISORY."
METRIC = "$JS.EVENT.METRIC."
ADVISORY_TYPE = "io.nats.jetstream.advisory.v1."
METRIC_TYPE = "io.nats.jetstream.metric.v1."

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_SIZE = 22


def new_id(chance: Chance) -> str:
    """An id that nothing else has, in the form of the peer's."""
    return "".join(_DIGITS[chance.integer(len(_DIGITS))] for _ in range(ID_SIZE))


class Events:
    """Of one account. `domain` stands in every advisory, if there is one."""

    def __init__(self, post: Post, clock: Clock, chance: Chance, domain: str, account: str) -> None:
        self.post = post
        self.clock = clock
        self.chance = chance
        self.domain = domain
        self.account = account

    def tell(self, subject: str, kind: str, /, **fields: Any) -> None:
        """Publish an advisory; `subject` is what stands behind `$JS.EVENT.ADVISORY.`."""
        self._publish(ADVISORY + subject, ADVISORY_TYPE + kind, fields)

    def _publish(self, subject: str, kind: str, fields: dict[str, Any]) -> None:
        to = subject.encode()
        if not self.post.wanted(to):
            return
        event = {"type": kind, "id": new_id(self.chance), "timestamp": timestamp(self.clock.now_ns())}
        event |= fields
        if self.domain:
            event["domain"] = self.domain
        self.post.publish(to, msgspec.json.encode(event))

    # ---- streams ----

    def stream_action(self, stream: str, action: str) -> None:
        self.tell(f"STREAM.{WORDS[action]}.{stream}", "stream_action", stream=stream, action=action)

    def batch_abandoned(self, stream: str, batch: str, reason: str) -> None:
        """`reason`: `timeout`, `large`, `incomplete` or `unsupported`."""
        self.tell(
            f"STREAM.BATCH_ABANDONED.{stream}",
            "stream_batch_abandoned",
            stream=stream,
            batch=batch,
            reason=reason,
        )

    def snapshot_create(self, stream: str, state: object, client: object) -> None:
        self.tell(
            f"STREAM.SNAPSHOT_CREATE.{stream}", "snapshot_create", stream=stream, state=state, client=client
        )

    def snapshot_complete(
        self, stream: str, start_ns: int, end_ns: int, client: object, error: str = ""
    ) -> None:
        fields = {"error": error} if error else {}
        self.tell(
            f"STREAM.SNAPSHOT_COMPLETE.{stream}",
            "snapshot_complete",
            stream=stream,
            start=timestamp(start_ns),
            end=timestamp(end_ns),
            client=client,
            **fields,
        )

    def restore_create(self, stream: str, client: object) -> None:
        self.tell(f"STREAM.RESTORE_CREATE.{stream}", "restore_create", stream=stream, client=client)

    def restore_complete(self, stream: str, start_ns: int, end_ns: int, size: int, client: object) -> None:
        self.tell(
            f"STREAM.RESTORE_COMPLETE.{stream}",
            "restore_complete",
            stream=stream,
            start=timestamp(start_ns),
            end=timestamp(end_ns),
            bytes=size,
            client=client,
        )

    # ---- consumers ----

    def consumer_action(self, stream: str, consumer: str, action: str) -> None:
        self.tell(
            f"CONSUMER.{WORDS[action]}.{stream}.{consumer}",
            "consumer_action",
            stream=stream,
            consumer=consumer,
            action=action,
        )

    def consumer_pause(self, stream: str, consumer: str, *, paused: bool, until_ns: int) -> None:
        self.tell(
            f"CONSUMER.PAUSE.{stream}.{consumer}",
            "consumer_pause",
            stream=stream,
            consumer=consumer,
            paused=paused,
            pause_until=timestamp_or_none(until_ns),
        )

    def max_deliver(self, stream: str, consumer: str, *, stream_seq: int, deliveries: int) -> None:
        self.tell(
            f"CONSUMER.MAX_DELIVERIES.{stream}.{consumer}",
            "max_deliver",
            stream=stream,
            consumer=consumer,
            stream_seq=stream_seq,
            deliveries=deliveries,
        )

    def nak(self, stream: str, consumer: str, *, consumer_seq: int, stream_seq: int, deliveries: int) -> None:
        self.tell(
            f"CONSUMER.MSG_NAKED.{stream}.{consumer}",
            "nak",
            stream=stream,
            consumer=consumer,
            consumer_seq=consumer_seq,
            stream_seq=stream_seq,
            deliveries=deliveries,
        )

    def terminated(
        self,
        stream: str,
        consumer: str,
        *,
        consumer_seq: int,
        stream_seq: int,
        deliveries: int,
        reason: str = "",
    ) -> None:
        fields = {"reason": reason} if reason else {}
        self.tell(
            f"CONSUMER.MSG_TERMINATED.{stream}.{consumer}",
            "terminated",
            stream=stream,
            consumer=consumer,
            consumer_seq=consumer_seq,
            stream_seq=stream_seq,
            deliveries=deliveries,
            **fields,
        )

    def pinned(self, stream: str, consumer: str, group: str, client: str) -> None:
        self.tell(
            f"CONSUMER.PINNED.{stream}.{consumer}",
            "consumer_group_pinned",
            account=self.account,
            stream=stream,
            consumer=consumer,
            group=group,
            pinned_id=client,
        )

    def unpinned(self, stream: str, consumer: str, group: str, reason: str) -> None:
        """`reason`: `admin` or `timeout`."""
        self.tell(
            f"CONSUMER.UNPINNED.{stream}.{consumer}",
            "consumer_group_unpinned",
            account=self.account,
            stream=stream,
            consumer=consumer,
            group=group,
            reason=reason,
        )

    def ack_sample(
        self,
        stream: str,
        consumer: str,
        *,
        consumer_seq: int,
        stream_seq: int,
        ack_time_ns: int,
        deliveries: int,
    ) -> None:
        """A metric: how long a message took to be acknowledged."""
        fields = {
            "stream": stream,
            "consumer": consumer,
            "consumer_seq": consumer_seq,
            "stream_seq": stream_seq,
            "ack_time": ack_time_ns,
            "deliveries": deliveries,
        }
        self._publish(f"{METRIC}CONSUMER.ACK.{stream}.{consumer}", METRIC_TYPE + "consumer_ack", fields)
