"""What a log says of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogState:
    messages: int
    size: int  # bytes of the messages' records, less what the settings leave out
    first_seq: int  # of the oldest message; last_seq + 1 when there is none
    last_seq: int
    committed_seq: int
    synced_seq: int
    first_ts_ns: int
    last_ts_ns: int
    subjects: int
    deleted: int  # sequences between first and last that are no messages on purpose
    lost: tuple[tuple[int, int], ...]  # ranges (start, end) that fell to damage
    segments: int
    refusal: str  # why nothing is taken now; empty: it is
