"""What a log is opened with. All of it may change later; another segment size holds from the next segment on."""

from dataclasses import dataclass, field

from tidelog.base.limits import MIB
from tidelog.base.record import Record
from tidelog.log.policy import STRICT, SyncPolicy


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Record):
    """What retention keeps; 0: without bound."""

    max_messages: int = 0
    max_size: int = 0  # bytes of records
    max_age_ns: int = 0
    max_per_subject: int = 0
    discard_new: bool = (
        False  # refuse what would go beyond `max_messages` or `max_size`, instead of trimming the oldest
    )
    discard_new_per_subject: bool = False  # likewise for `max_per_subject`


@dataclass(frozen=True, eq=False, repr=False)
class LogSettings(Record):
    policy: SyncPolicy = STRICT
    limits: Limits = field(default_factory=Limits)
    segment_size: int = 64 * MIB
    window_size: int = 4 * MIB  # of the tail that is kept in memory for those who follow
    keys: object = None  # a KeyRing, to read and write encrypted segments
    compression: str = "none"
    encrypt: bool = False
