"""Which part of a stream stays on this machine, and what becomes of the rest: by the metadata of its configuration.

    tidelog.cold          on, off; without it what the server says
    tidelog.local_bytes   complete segments beyond so many bytes stay in the cold tier only: 10G, or a number
    tidelog.local_age     and those that are older: 36h
    tidelog.cold_keep     what the stream lets go of stays in the cold tier: stream (not at all), 90d, forever

The limits of the stream itself are those of its whole history, wherever that is.

Some streams have to look into old messages while they take new ones, and go without: those with schedules, counters,
sources, or markers for subjects that have expired. Streams in memory have nothing that could go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidelog.base.duration import parse_duration_ns
from tidelog.base.errors import ConfigError
from tidelog.base.limits import COLD_WARM_SIZE
from tidelog.log.depot import Depot, Tiering
from tidelog.log.log import Log
from tidelog.stream.stream_config import MEMORY, StreamConfig

COLD_KEY = "tidelog.cold"
LOCAL_SIZE_KEY = "tidelog.local_bytes"
LOCAL_AGE_KEY = "tidelog.local_age"
KEEP_KEY = "tidelog.cold_keep"

DAY_NS = 86_400_000_000_000
UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


class Warehouse(Protocol):
    """The cold tier of a server."""

    def depot(self, account: str, stream: str) -> Depot: ...


@dataclass(frozen=True, slots=True)
class TieringPlan:
    """What a server says for streams that do not say themselves. None: without bound."""

    warehouse: Warehouse
    streams: bool = True  # also those that do not ask for it
    local_size: int | None = None
    local_age_ns: int | None = None
    keep_ns: int | None = 0  # 0: as long as the stream; None: for ever
    warm_size: int = COLD_WARM_SIZE


def read_size(text: str) -> int:
    """A number of bytes, or one with K, M, G or T (powers of 1024), and perhaps a B behind it. Raises ValueError."""
    digits = text.strip().upper().removesuffix("B")
    shift = UNITS.get(digits[-1:], 0)
    digits = digits[:-1] if shift else digits
    if not digits.isdecimal():
        raise ValueError(f"{text!r} is no size: it reads 1000000, 500M or 10G")
    return int(digits) << shift


def read_span(text: str) -> int:
    """Nanoseconds; days are written `90d`. Raises ValueError."""
    days = text.removesuffix("d")
    ns = int(days) * DAY_NS if days != text and days.isdecimal() else parse_duration_ns(text)
    if ns < 0:
        raise ValueError(f"{text!r} is negative")
    return ns


def read_keep(text: str) -> int | None:
    """How long what a stream has let go of is kept. Raises ValueError."""
    if text == "stream":
        return 0
    return None if text == "forever" else read_span(text)


def obstacle(config: StreamConfig) -> str:
    """Why a stream has to have everything here; empty: it has not."""
    reasons = (
        (config.storage == MEMORY, "is in memory"),
        (config.allow_msg_schedules, "has schedules"),
        (config.allow_msg_counter, "has counters"),
        (bool(config.sources), "has sources"),
        (config.subject_delete_marker_ttl > 0, "leaves markers for subjects"),
    )
    return next((reason for applies, reason in reasons if applies), "")


def tiering_of(config: StreamConfig, account: str, plan: TieringPlan | None) -> Tiering | None:
    """What holds for a stream; None: everything of it is here, and always was. Raises ConfigError."""
    asked = config.metadata or {}
    word = asked.get(COLD_KEY)
    if word not in (None, "on", "off"):
        raise ConfigError(f"{COLD_KEY} is on or off, not {word!r}")
    local_size = said(asked, LOCAL_SIZE_KEY, read_size, plan.local_size if plan else None)
    local_age_ns = said(asked, LOCAL_AGE_KEY, read_span, plan.local_age_ns if plan else None)
    keep_ns = said(asked, KEEP_KEY, read_keep, plan.keep_ns if plan else 0)
    why_not = obstacle(config)
    if word == "on" and plan is None:
        raise ConfigError(
            f"{COLD_KEY} is on, and this server has no cold tier: set `cold` in its configuration"
        )
    if word == "on" and why_not:
        raise ConfigError(f"{COLD_KEY} is on, and the stream {why_not}: all of it has to be here")
    if plan is None or config.storage == MEMORY:
        return None
    return Tiering(
        plan.warehouse.depot(account, config.name),
        sends=word == "on" or (word is None and plan.streams and not why_not),
        local_size=local_size,
        local_age_ns=local_age_ns,
        # Ids of messages are looked up in them when the stream is opened.
        least_age_ns=max(config.duplicate_window, 0),
        keep_ns=keep_ns,
        warm_size=plan.warm_size,
    )


def check_cold(config: StreamConfig, log: Log) -> None:
    """Raises ConfigError if a stream that has something in the cold tier could not be used by its new configuration."""
    why_not = obstacle(config)
    if why_not and any(segment.husk for segment in log.store.segments):
        raise ConfigError(
            f"a part of the stream is in the cold tier only, and one that {why_not} has to be here"
        )


def said(asked: dict[str, str], key: str, read: Reading, default: int | None) -> int | None:
    if key not in asked:
        return default
    try:
        return read(asked[key])
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


class Reading(Protocol):
    def __call__(self, text: str, /) -> int | None: ...
