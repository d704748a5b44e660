"""Advisories: what streams tell whoever listens on `$JS.EVENT.ADVISORY.` of their account.

    events.stream_action(stream, CREATE)

Nothing is put together while nobody listens. Names, types and fields are the peer's. What consumers tell is in
`consumer_event`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.base.chance import Chance
from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.stream.post import Post

CREATE, MODIFY, DELETE = "create", "modify", "delete"
# What an action is called in the subject.
WORDS = {CREATE: "CREATED", MODIFY: "UPDATED", DELETE: "DELETED"}

ADVISORY = "$JS.EVENT.ADVISORY."
ADVISORY_TYPE = "io.nats.jetstream.advisory.v1."

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_SIZE = 22


def new_id(chance: Chance, size: int = ID_SIZE) -> str:
    """An id that nothing else has, in the form of the peer's."""
    return "".join(DIGITS[chance.integer(len(DIGITS))] for _ in range(size))


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
        to = (ADVISORY + subject).encode()
        if not self.post.wanted(to):
            return
        event = {
            "type": ADVISORY_TYPE + kind,
            "id": new_id(self.chance),
            "timestamp": timestamp(self.clock.now_ns()),
        }
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
