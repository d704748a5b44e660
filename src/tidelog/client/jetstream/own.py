"""What a Tidelog server says of a stream beyond stream info: `$TIDELOG.API.STREAM.`, INFO and COUNT.

Any other server has nobody who answers: that is NoResponders.
"""

from collections.abc import Sequence

import msgspec

from tidelog.base.limits import COUNTED_RANGES
from tidelog.client.jetstream.answer import Answer, convert, read_document
from tidelog.client.jetstream.desk import JetStream


class ColdSource(msgspec.Struct):
    """Where the server keeps history itself (empty: it does not), and how much is there only."""

    url: str = ""
    messages: int = 0
    bytes: int = 0
    lag_bytes: int = 0
    failing: str = ""


class LogInfo(Answer, kw_only=True):
    account: str
    log_id: str
    first_seq: int = 0
    last_seq: int = 0
    cold: ColdSource | None = None

    @property
    def cold_url(self) -> str:
        return self.cold.url if self.cold is not None else ""


def log_info(js: JetStream, stream: str) -> LogInfo:
    """Raises ApiError when there is no such stream, and NoResponders when this is another server."""
    answer = js.connection.request(f"$TIDELOG.API.STREAM.INFO.{stream}", b"", timeout_s=js.timeout_s)
    return convert(read_document(answer.payload), LogInfo)


class Counts(Answer, kw_only=True):
    counts: list[int]


def count_ranges(js: JetStream, stream: str, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many messages there are in each of them, without its end. Raises as `log_info` does."""
    found: list[int] = []
    for start in range(0, len(ranges), COUNTED_RANGES):
        part = ranges[start : start + COUNTED_RANGES]
        asked = msgspec.json.encode({"ranges": [{"start_seq": first, "end_seq": end} for first, end in part]})
        answer = js.connection.request(f"$TIDELOG.API.STREAM.COUNT.{stream}", asked, timeout_s=js.timeout_s)
        found += convert(read_document(answer.payload), Counts).counts
    return found
