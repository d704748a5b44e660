"""How a stream is stored: the settings of its log, from its configuration and the server's defaults.

The metadata `tidelog.sync` of a stream chooses when it is synced, and so what an acknowledgement means: the name of a
preset (`strict`, `durable`, `balanced`, `throughput`), or its own, as JSON:

    {"messages": 1000, "interval": "250ms"}     {"on_commit": true}

Without it, `persist_mode: async` means `throughput`, and everything else what the server says. Streams in memory are
never synced.

What of it stays on this machine is said in `tiering`.

`compression: s2` packs complete segments with zstd, in the background; limits go on counting plain bytes, as at the
peer.
"""

import msgspec

from tidelog.base.duration import parse_duration_ns
from tidelog.base.errors import ConfigError
from tidelog.base.limits import (
    SEGMENT_SIZE_FILE,
    SEGMENT_SIZE_LEAST,
    SEGMENT_SIZE_MEMORY,
)
from tidelog.log.policy import THROUGHPUT, SyncPolicy, preset
from tidelog.log.record import RECORD_HEADER_SIZE
from tidelog.log.settings import Limits, LogSettings
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.tiering import TieringPlan, tiering_of

SYNC_KEY = "tidelog.sync"
# The peer counts 30 bytes beside subject, headers and payload of a message in a file, and 16 of one in memory.
COUNTED_IN_FILE = 30
COUNTED_IN_MEMORY = 16


class SyncKnobs(msgspec.Struct, forbid_unknown_fields=True):
    on_commit: bool = False
    messages: int = 0
    interval: str | int = 0  # a duration, or nanoseconds


def read_policy(text: str) -> SyncPolicy:
    """The policy that a text says. Raises ConfigError."""
    if not text.lstrip().startswith("{"):
        return preset(text)
    try:
        knobs = msgspec.json.decode(text.encode(), type=SyncKnobs)
        interval = knobs.interval
        interval_ns = parse_duration_ns(interval) if isinstance(interval, str) else interval
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"sync policy {text!r} cannot be read: {error}") from None
    if knobs.messages < 0 or interval_ns < 0:
        raise ConfigError(f"sync policy {text!r}: messages and interval may not be negative")
    return SyncPolicy(on_commit=knobs.on_commit, messages=knobs.messages, interval_ns=interval_ns)


def policy_of(config: StreamConfig, default: SyncPolicy) -> SyncPolicy:
    if config.storage == "memory":
        return THROUGHPUT
    asked = (config.metadata or {}).get(SYNC_KEY)
    if asked is not None:
        return read_policy(asked)
    return THROUGHPUT if config.persist_mode == "async" else default


def log_settings(
    config: StreamConfig, default: SyncPolicy, account: str = "", plan: TieringPlan | None = None
) -> LogSettings:
    """Raises ConfigError for what cannot be."""
    memory = config.storage == "memory"
    segment_size = SEGMENT_SIZE_MEMORY if memory else SEGMENT_SIZE_FILE
    if config.max_bytes > 0:
        # What is over is given back a segment at a time.
        segment_size = min(segment_size, max(config.max_bytes // 4, SEGMENT_SIZE_LEAST))
    tiering = tiering_of(config, account, plan)
    if tiering is not None and tiering.sends and tiering.local_size is not None:
        segment_size = min(segment_size, max(tiering.local_size // 4, SEGMENT_SIZE_LEAST))
    return LogSettings(
        policy=policy_of(config, default),
        limits=Limits(
            max_messages=max(config.max_msgs, 0),
            max_size=max(config.max_bytes, 0),
            max_age_ns=config.max_age,
            max_per_subject=max(config.max_msgs_per_subject, 0),
            discard_new=config.discard == "new",
            discard_new_per_subject=config.discard_new_per_subject,
        ),
        segment_size=segment_size,
        # The peer calls it by its own method; what clients see is that it takes less room.
        compression="zstd" if config.compression == "s2" and not memory else "none",
        uncounted=RECORD_HEADER_SIZE - (COUNTED_IN_MEMORY if memory else COUNTED_IN_FILE),
        tiering=tiering,
    )
