"""Where the history of logs goes that is not kept here, as far as a log knows. `tidelog.cold` has one, tests others.

    depot.history(log_id) -> History         of one log; it costs nothing and asks nobody
    depot.sender, depot.fetcher              workers for whatever may have to wait for a network
    depot.throttle                           how much may be sent, for all logs together

Promises that a depot makes
  * What `add` was given can be read when it has returned, whatever becomes of this process; twice does no harm.
  * What cannot be done is a `TidelogError`, and has changed nothing that counts.
  * One call of `add`, `check`, `trim` or `remove` of a history at a time, and beside it any number of `rows`.
"""

from dataclasses import dataclass
from typing import Protocol

from tidelog.base.limits import COLD_WARM_SIZE
from tidelog.base.record import Record
from tidelog.base.work import Worker
from tidelog.log.columns import Columns

NS = 1_000_000_000


class History(Protocol):
    """The history of one log. Every call may take long, and is made in a thread of a worker of the depot."""

    def end_seq(self) -> int:
        """One behind the last sequence that is there; 0: nothing was ever sent."""

    def add(self, start_seq: int, end_seq: int, columns: Columns) -> int:
        """Keep all messages of [start_seq, end_seq), which is next. Returns how many bytes were sent.

        If somebody else has put a stretch there meanwhile, it is looked at as by `check`.
        """

    def check(self, start_seq: int, end_seq: int, columns: Columns) -> None:
        """Raise ColdForeign unless all these messages are there, the same byte for byte."""

    def rows(self, start_seq: int, end_seq: int) -> list[Columns]:
        """The messages of [start_seq, end_seq), and perhaps some around them, in order."""

    def trim(self, start_seq: int, before_ns: int | None, end_seq: int) -> None:
        """Forget what ends before `start_seq`, if all of it is older than `before_ns`.

        Raises ColdError if what is there does not end before `end_seq`: somebody else may have gone on with it.
        """

    def remove(self, end_seq: int) -> None:
        """Forget everything, likewise."""


class Throttle:
    """So many bytes in a second, on average; 0: as many as there are. It belongs to the thread that owns the logs."""

    def __init__(self, bytes_per_second: int = 0) -> None:
        self.bytes_per_second = bytes_per_second
        self.ready_ns = 0  # when more may be sent, in monotonic time

    def spend(self, now_ns: int, size: int) -> None:
        if self.bytes_per_second:
            self.ready_ns = max(self.ready_ns, now_ns) + size * NS // self.bytes_per_second


class Depot(Protocol):
    @property
    def url(self) -> str:
        """Where it is, for people and for others who read it."""

    @property
    def sender(self) -> Worker: ...

    @property
    def fetcher(self) -> Worker: ...

    @property
    def throttle(self) -> Throttle: ...

    def history(self, log_id: bytes) -> History: ...


@dataclass(frozen=True, eq=False, repr=False)
class Tiering(Record):
    """What of a log stays here, and what becomes of the rest."""

    depot: Depot
    sends: bool = True  # False: what has gone is still read, and nothing more goes
    # Complete segments are reduced to husks while all are larger together, or once they are older; None: no bound.
    local_size: int | None = None
    local_age_ns: int | None = None
    least_age_ns: int = 0  # nothing younger goes: it may be looked into at any time
    # How long the depot keeps what the log has let go of: 0 not at all, None for ever.
    keep_ns: int | None = 0
    warm_size: int = COLD_WARM_SIZE  # of segments that have come back
