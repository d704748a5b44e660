"""Structured Streaming: from where to where each micro-batch reads.

What it promises
  * Progress is sequences in Spark's checkpoint, and nothing else: no acknowledgements, no consumer on the server. A
    batch that is repeated reads the same range.
  * `latest` is resolved once: Spark asks twice before the first batch.
  * A batch below `minOffsetsPerTrigger` waits for more, but not longer than `maxTriggerDelay` after the one before.
  * With several limits the one that ends a batch first counts; `availableNow` reads to where the streams ended when
    the query began, in batches within the limits, and then ends.

How it works: this object lives in one process on the driver, and asks each stream for its state once per batch.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog.base.errors import TidelogError
from tidelog.spark.link import Link
from tidelog.spark.offset import Mark, Offset, parse
from tidelog.spark.option import ReadOptions
from tidelog.spark.plan import Piece, cut, task_count
from tidelog.spark.state import StreamState
from tidelog.spark.survey import Survey, new_streams, survey_of
from tidelog.spark.task import read_piece


class MicroBatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._link: Link | None = None
        self._planning: Survey | None = None
        self._initial: Offset | None = None
        self._target: dict[str, Mark] | None = None
        self._planned_s = -math.inf

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            survey = self._survey()
            self._initial = Offset({name: survey.start(state) for name, state in survey.states().items()})
        return self._initial.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_rows:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_size:
            return ReadMaxBytes(self._options.max_size)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._survey().ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        survey = self._survey()
        known = parse(start)
        states = survey.states(known.streams)
        begun = {
            name: survey.resumed(state, known.streams[name])
            for name, state in states.items()
            if name in known.streams
        }
        begun = {name: (begun | new_streams(states, known.streams))[name] for name in states}
        ends = self._ends(survey, states, begun, limit)
        if ends == dict(known.streams):
            return start
        if self._is_too_little(survey, begun, ends):
            return start
        total = sum(ends[name].seq - begun[name].seq for name in ends)
        return Offset(ends, task_count(self._options, total)).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        try:
            return Offset(self._survey().ends()).as_json()
        except TidelogError:
            return None  # for display only; what reads will say what is wrong

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = parse(start), parse(end)
        ranges = []
        for name, mark in ended.streams.items():
            # One that was not there, or was another stream, is read from the beginning.
            known = begun.streams.get(name)
            start_seq = known.seq if known is not None and known.created == mark.created else 1
            ranges.append(Piece(name, mark.created, start_seq, mark.seq))
        pieces = cut(ranges, ended.tasks, self._options.max_records_per_partition)
        return [InputPartition(piece) for piece in self._survey().attached(pieces)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where there is nothing to read, Spark reads None.
        if partition.value is None:
            return iter(())
        return read_piece(self._options, partition.value)

    def stop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = self._planning = None

    def _survey(self) -> Survey:
        if self._link is None or self._planning is None:
            self._link = Link(self._options.connect, self._options.connect.plan_patience_s)
            self._planning = survey_of(self._options, self._link)
        return self._planning

    def _is_too_little(self, survey: Survey, begun: Mapping[str, Mark], ends: Mapping[str, Mark]) -> bool:
        """Whether a batch can wait for more messages. Not when all that was there is to be read, as with Kafka."""
        options, now_s = self._options, time.monotonic()
        if options.min_rows and self._target is None and now_s - self._planned_s < options.max_delay_s:
            rows = sum(survey.matches(name, begun[name].seq, end.seq) for name, end in ends.items())
            if rows < options.min_rows:
                return True
        self._planned_s = now_s
        return False

    def _ends(
        self, survey: Survey, states: Mapping[str, StreamState], begun: Mapping[str, Mark], limit: ReadLimit
    ) -> dict[str, Mark]:
        ends = {}
        backlog = {}
        for name, state in states.items():
            end = state.end_seq
            if self._target is not None:
                pinned = self._target.get(name)
                # One that has come since, or is another by now, waits for the next query.
                end = min(end, pinned.seq) if pinned is not None and pinned.created == state.created else 0
            ends[name] = max(end, begun[name].seq)
            backlog[name] = ends[name] - begun[name].seq
        total = sum(backlog.values())
        if isinstance(limit, ReadAllAvailable) or not total:
            return {name: Mark(ends[name], states[name].created) for name in states}
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        max_size = self._options.max_size
        return {
            name: Mark(
                survey.limited(
                    states[name],
                    begun[name].seq,
                    ends[name],
                    # Each stream has its share of the limits, as much as it has waiting.
                    max_rows and max(1, max_rows * backlog[name] // total),
                    max_size and max(1, max_size * backlog[name] // total),
                ),
                states[name].created,
            )
            for name in states
        }
