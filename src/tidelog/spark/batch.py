"""Reading a range once: `spark.read.format("tidelog")`, and SQL over it.

The range is fixed when the query is planned: rows that come later are not in it. Filters that Spark offers (it does when
`spark.sql.python.filterPushdown.enabled` is set) narrow what is asked of the server; Spark evaluates all of them again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from tidelog.client.stream import StreamState
from tidelog.spark.link import Link
from tidelog.spark.option import ReadOptions
from tidelog.spark.plan import Piece, cut, task_count
from tidelog.spark.survey import Survey
from tidelog.spark.task import read_piece
from tidelog.subject.pattern import is_valid_literal, matches

SEQ_COLUMNS = {("seq",), ("offset",)}
SUBJECT_COLUMNS = {("subject",)}


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._subjects = options.subjects
        # What filters leave of the range, as half-open sequences.
        self._from_seq = 1
        self._to_seq: int | None = None
        self._empty = False

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for wanted in filters:
            self._narrow(wanted)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        if self._empty:
            return []
        options = self._options
        link = Link(options.connect, options.connect.plan_patience_s)
        try:
            survey = Survey(options, link)
            ranges = [self._range(survey, state) for state in survey.states().values()]
        finally:
            link.close()
        total = sum(max(0, piece.end_seq - piece.start_seq) for piece in ranges)
        pieces = cut(ranges, task_count(options, total), options.max_records_per_partition)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_piece(self._options, partition.value, self._subjects)

    def _range(self, survey: Survey, state: StreamState) -> Piece:
        start, end = survey.start(state).seq, survey.end(state).seq
        if self._to_seq is not None:
            end = min(end, self._to_seq)
        return Piece(state.name, state.created, max(start, self._from_seq), end)

    def _narrow(self, wanted: Filter) -> None:
        column, value = getattr(wanted, "attribute", ()), getattr(wanted, "value", None)
        if column in SEQ_COLUMNS and isinstance(value, int):
            if isinstance(wanted, EqualTo | GreaterThan | GreaterThanOrEqual):
                self._from_seq = max(self._from_seq, value + isinstance(wanted, GreaterThan))
            if isinstance(wanted, EqualTo | LessThan | LessThanOrEqual):
                end = value + (not isinstance(wanted, LessThan))
                self._to_seq = end if self._to_seq is None else min(self._to_seq, end)
        elif column in SUBJECT_COLUMNS and isinstance(wanted, EqualTo) and isinstance(value, str):
            subject = value.encode()
            if is_valid_literal(subject) and (
                not self._subjects or any(matches(known.encode(), subject) for known in self._subjects)
            ):
                self._subjects = (value,)
            else:
                self._empty = True
