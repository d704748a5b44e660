"""`$TIDELOG.API.STREAM.COUNT.<stream>`: how many messages there are in ranges of sequences.

    {"ranges": [{"start_seq": 1, "end_seq": 65537}]}      without its end

The answer has `counts`, one for each range. It comes from the index: no message is read, wherever it lies. Who has a
copy of a range, in which nothing can come any more, learns by the count whether something was deleted since.
"""

from typing import Annotated

import msgspec

from tidelog.base.limits import COUNTED_RANGES
from tidelog.broker.desk.cursor import TYPE_PREFIX
from tidelog.broker.desk.request import Entry, Parts, Request
from tidelog.log.filter import Filter
from tidelog.log.log import Log
from tidelog.stream import failure
from tidelog.stream.strict import GoType, Uint64

ALL = Filter()


class CountedRange(msgspec.Struct):
    start_seq: Uint64 = 1
    end_seq: Uint64 = 0


class CountRequest(msgspec.Struct):
    ranges: Annotated[list[CountedRange], GoType("[]server.Range")] = []


class Counts(msgspec.Struct):
    counts: list[int]


def counts(request: Request) -> Parts:
    log = request.stream().log
    asked = request.decode_required(CountRequest)
    if len(asked.ranges) > COUNTED_RANGES:
        raise failure.STREAM_GENERAL(err=f"more than {COUNTED_RANGES} ranges at once")
    return Counts([count_range(log, each.start_seq, each.end_seq) for each in asked.ranges])


def count_range(log: Log, start_seq: int, end_seq: int) -> int:
    start_seq = max(start_seq, 1)
    return log.count(ALL, start_seq) - log.count(ALL, end_seq) if start_seq < end_seq else 0


ENTRIES = (Entry("STREAM.COUNT.*", "stream_count_response", counts, prefix=TYPE_PREFIX),)
