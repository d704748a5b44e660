"""When what was written is synced, and what an acknowledgement means.

| preset | synced | acknowledged when |
|---|---|---|
| `strict` | with every commit; one sync covers all that arrived meanwhile | synced |
| `durable` | after 100 messages or 500 ms | written |
| `balanced` | after 1 s | written |
| `throughput` | when the system likes | written |

*Written* survives the end of the process, *synced* the end of the power. Timers run whether or not something more
arrives, so an idle tail is synced too.
"""

from dataclasses import dataclass
from enum import Enum

from tidelog.base.errors import ConfigError
from tidelog.base.record import Record

NS_PER_MS = 1_000_000


class AckLevel(Enum):
    WRITTEN = "written"
    SYNCED = "synced"


@dataclass(frozen=True, eq=False, repr=False)
class SyncPolicy(Record):
    on_commit: bool = False
    messages: int = 0  # sync when so many are unsynced; 0: never for that reason
    interval_ns: int = 0  # sync when the oldest unsynced is so old; 0: never for that reason

    @property
    def ack(self) -> AckLevel:
        return AckLevel.SYNCED if self.on_commit else AckLevel.WRITTEN


STRICT = SyncPolicy(on_commit=True)
DURABLE = SyncPolicy(messages=100, interval_ns=500 * NS_PER_MS)
BALANCED = SyncPolicy(interval_ns=1000 * NS_PER_MS)
THROUGHPUT = SyncPolicy()

PRESETS = {"strict": STRICT, "durable": DURABLE, "balanced": BALANCED, "throughput": THROUGHPUT}


def preset(name: str) -> SyncPolicy:
    found = PRESETS.get(name)
    if found is None:
        raise ConfigError(f"sync policy {name!r} is not known; use one of {', '.join(PRESETS)}")
    return found
