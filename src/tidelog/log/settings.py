"""What a log is opened with. All of it may change later; another segment size holds from the next segment on."""

from dataclasses import dataclass, field
from typing import Literal

from tidelog.base.errors import ConfigError
from tidelog.base.limits import MIB
from tidelog.base.record import Record
from tidelog.log.depot import Tiering
from tidelog.log.key_ring import KeyRing
from tidelog.log.policy import STRICT, SyncPolicy


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Record):
    """What retention keeps; 0: without bound."""

    max_messages: int = 0
    max_size: int = 0  # bytes of records, less `uncounted` for each
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
    keys: KeyRing | None = None  # to read and write encrypted segments
    # How complete segments are kept. What is packed already stays as it is until it is compacted.
    compression: Literal["none", "zstd"] = "none"
    encrypt: bool = False
    # Bytes of every record that the size of the log leaves out; at most RECORD_HEADER_SIZE.
    uncounted: int = 0
    tiering: Tiering | None = None  # None: everything stays here

    @property
    def packs(self) -> bool:
        return self.encrypt or self.compression != "none"

    def check(self) -> None:
        if self.compression not in ("none", "zstd"):
            raise ConfigError(f"compression {self.compression!r} is not known; use none or zstd")
        if self.encrypt and self.keys is None:
            raise ConfigError("segments are to be encrypted, and no keys are given")
        if self.encrypt and self.tiering is not None:
            raise ConfigError("what is encrypted here would be in the clear in the cold tier")
