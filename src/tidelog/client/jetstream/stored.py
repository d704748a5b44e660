"""A message as it stands in a stream: subject, sequence, time, headers, payload.

Made from what direct gets, STREAM.MSG.GET and consumers deliver; the headers that the server added are taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.base.instant import timestamp
from tidelog.client.jetstream.answer import StoredForm
from tidelog.client.message import Message
from tidelog.wire.header import Headers, decode

SUBJECT = "Nats-Subject"
SEQUENCE = "Nats-Sequence"
TIME = "Nats-Time-Stamp"
PENDING = "Nats-Num-Pending"
ADDED = frozenset({"Nats-Stream", SUBJECT, SEQUENCE, TIME, PENDING, "Nats-Last-Sequence"})

# `$JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<ns>.<pending>`; newer servers put a domain and an
# account behind ACK.
ACK_TOKENS = 9


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """`time` is RFC 3339 in UTC. `pending` messages of the same request or consumer follow; -1: not known."""

    subject: str
    seq: int
    time: str
    payload: bytes
    headers: Headers = field(default_factory=dict)
    pending: int = -1


def from_direct(message: Message) -> StoredMessage:
    headers = message.headers
    seq, pending = headers[SEQUENCE][0], headers.get(PENDING, ["-1"])[0]
    kept = {name: values for name, values in headers.items() if name not in ADDED}
    return StoredMessage(headers[SUBJECT][0], int(seq), headers[TIME][0], message.payload, kept, int(pending))


def from_form(form: StoredForm) -> StoredMessage:
    headers = decode(form.hdrs).headers if form.hdrs else {}
    return StoredMessage(form.subject, form.seq, form.time, form.data, headers)


def from_consumer(message: Message) -> StoredMessage:
    """What a consumer delivered."""
    place = place_of(message.reply)
    return StoredMessage(
        message.subject, place.seq, timestamp(place.ts_ns), message.payload, message.headers, place.pending
    )


@dataclass(frozen=True, slots=True)
class Place:
    """What the reply subject of a delivered message says about it."""

    stream: str
    consumer: str
    deliveries: int
    seq: int
    consumer_seq: int
    ts_ns: int
    pending: int


def place_of(reply: str) -> Place:
    """Raises ValueError when the subject is not that of an acknowledgement."""
    tokens = reply.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) < ACK_TOKENS:
        raise ValueError(f"{reply!r} is not where a message of a consumer is acknowledged")
    if len(tokens) > ACK_TOKENS:
        tokens = tokens[:2] + tokens[4:]
    numbers = [int(token) for token in tokens[4:ACK_TOKENS]]
    return Place(tokens[2], tokens[3], *numbers)
