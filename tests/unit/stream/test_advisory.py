"""What streams tell those who listen."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.stream.advisory import CREATE, DELETE, Events
from tidelog.stream.post import Post
from tidelog.subject.interest import Interest
from tidelog.subject.route import Callback, Subscription


class Listener:
    def __init__(self, domain: str = "") -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.interest = Interest()
        chance = Chance(1)
        self.events = Events(Post(self.interest, chance), ManualClock(), chance, domain, "A")

    def listen(self, subject: bytes = b"$JS.EVENT.>") -> "Listener":
        self.interest.insert(Subscription(subject, b"", b"", Callback(self.hear)))
        return self

    def hear(self, subject: bytes, _reply: object, payload: bytes, _origin: object) -> None:
        self.heard.append((subject.decode(), msgspec.json.decode(payload)))


@pytest.mark.parametrize(
    ("tell", "subject", "kind", "fields"),
    [
        (
            lambda events: events.stream_action("S", CREATE),
            "STREAM.CREATED.S",
            "stream_action",
            {"stream": "S", "action": "create"},
        ),
        (
            lambda events: events.batch_abandoned("S", "b", "timeout"),
            "STREAM.BATCH_ABANDONED.S",
            "stream_batch_abandoned",
            {"stream": "S", "batch": "b", "reason": "timeout"},
        ),
        (
            lambda events: events.snapshot_create("S", {"messages": 1}, {"id": 1}),
            "STREAM.SNAPSHOT_CREATE.S",
            "snapshot_create",
            {"stream": "S", "state": {"messages": 1}, "client": {"id": 1}},
        ),
        (
            lambda events: events.snapshot_complete("S", 0, 10**9, {}, "gone"),
            "STREAM.SNAPSHOT_COMPLETE.S",
            "snapshot_complete",
            {
                "stream": "S",
                "start": "1970-01-01T00:00:00Z",
                "end": "1970-01-01T00:00:01Z",
                "client": {},
                "error": "gone",
            },
        ),
        (
            lambda events: events.restore_create("S", {}),
            "STREAM.RESTORE_CREATE.S",
            "restore_create",
            {"stream": "S", "client": {}},
        ),
        (
            lambda events: events.restore_complete("S", 0, 10**9, 5, {}),
            "STREAM.RESTORE_COMPLETE.S",
            "restore_complete",
            {
                "stream": "S",
                "start": "1970-01-01T00:00:00Z",
                "end": "1970-01-01T00:00:01Z",
                "bytes": 5,
                "client": {},
            },
        ),
    ],
)
def test_an_advisory(
    tell: Callable[[Events], None], subject: str, kind: str, fields: dict[str, object]
) -> None:
    listener = Listener().listen()
    tell(listener.events)
    ((heard, event),) = listener.heard
    assert heard == f"$JS.EVENT.ADVISORY.{subject}"
    assert event.pop("type") == f"io.nats.jetstream.advisory.v1.{kind}"
    assert event.pop("timestamp") == "2023-11-14T22:13:20Z"
    assert len(event.pop("id")) == 22
    assert event == fields


def test_a_domain_is_told_and_ids_differ() -> None:
    listener = Listener("hub").listen()
    listener.events.stream_action("S", CREATE)
    listener.events.stream_action("S", DELETE)
    assert [event["domain"] for _, event in listener.heard] == ["hub", "hub"]
    assert listener.heard[0][1]["id"] != listener.heard[1][1]["id"]


def test_nothing_is_told_to_nobody() -> None:
    listener = Listener().listen(b"other")
    listener.events.stream_action("S", CREATE)
    assert listener.events.post.sent == 0
