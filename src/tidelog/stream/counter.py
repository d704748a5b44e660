"""Counters: streams whose messages are sums, each made of the one before it on its subject and an increment.

A message carries its sum as `{"val":"12"}`, a decimal of any size, and the increment that led to it in `Nats-Incr`.
What comes from another stream's counter brings a sum, not an increment: the increment is what it has grown by since it
came last, which `Nats-Counter-Sources` remembers by stream and subject.
"""

import re

import msgspec

from tidelog.base.limits import COUNTER_DIGITS
from tidelog.stream import failure
from tidelog.stream.publish import header_value, set_line

DECIMAL = re.compile(rb"[+-]?[0-9]+")
SLACK = 100
INCREMENT = b"Nats-Incr"
SOURCES = b"Nats-Counter-Sources"


class Sum(msgspec.Struct):
    val: str


class Total:
    """Of one subject: the sum, and what it has from other streams."""

    __slots__ = ("sources", "value")

    def __init__(self, value: int = 0, sources: dict[str, dict[str, str]] | None = None) -> None:
        self.value = value
        self.sources = sources if sources is not None else {}


def read_increment(text: bytes) -> int:
    """Raises ApiFailure."""
    if DECIMAL.fullmatch(text) is None or len(text) > COUNTER_DIGITS:
        raise failure.MESSAGE_INCR_INVALID()
    return int(text)


def read_sum(payload: bytes) -> int:
    """Raises ApiFailure."""
    try:
        text = msgspec.json.decode(payload, type=Sum).val
    except msgspec.MsgspecError:
        raise failure.MESSAGE_COUNTER_BROKEN() from None
    # A little more than increments have: sums of them are read again.
    if len(text) > COUNTER_DIGITS + SLACK:
        raise failure.MESSAGE_COUNTER_BROKEN()
    return int(text) if DECIMAL.fullmatch(text.encode()) else 0


def read_total(header: bytes, payload: bytes) -> Total:
    """What a message of a counter says. Raises ApiFailure."""
    value = read_sum(payload)
    text = header_value(header, SOURCES)
    if not text:
        return Total(value)
    try:
        return Total(value, msgspec.json.decode(text, type=dict[str, dict[str, str]]))
    except msgspec.MsgspecError:
        raise failure.MESSAGE_COUNTER_BROKEN() from None


def advance(total: Total, header: bytes, payload: bytes, subject: bytes) -> tuple[bytes, bytes]:
    """Count a message into `total`; returns its header and payload as they are stored. Raises ApiFailure."""
    increment = read_increment(header_value(header, INCREMENT))
    origin = header_value(header, b"Nats-Stream-Source").decode("utf-8", "replace").split(" ")
    if origin[0]:
        there = origin[4] if len(origin) > 4 else subject.decode("utf-8", "replace")
        value = read_sum(payload)
        seen = total.sources.setdefault(origin[0], {})
        increment = value - int(seen.get(there, "0"))
        seen[there] = str(value)
        header = set_line(header, INCREMENT, b"%d" % increment)
    total.value += increment
    if total.sources:
        header = set_line(header, SOURCES, msgspec.json.encode(total.sources, order="deterministic"))
    return header, b'{"val":"%d"}' % total.value
