"""Reading a range once: `spark.read.format("tidelog")`, and SQL over it.

The range is fixed when a frame or view is first used: rows that come later are not in it, however often it is used.

Filters that Spark offers are not taken (docs/decisions/0034-no-filter-pushdown.md): what to read is said by options.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark.link import Link
from tidelog.spark.option import ReadOptions
from tidelog.spark.plan import Piece, cut, task_count
from tidelog.spark.survey import survey_of
from tidelog.spark.task import read_piece


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        link = Link(options.connect, options.connect.plan_patience_s)
        try:
            survey = survey_of(options, link)
            ranges = [
                Piece(name, state.created, survey.start(state).seq, survey.end(state).seq)
                for name, state in survey.states().items()
            ]
            total = sum(max(0, piece.end_seq - piece.start_seq) for piece in ranges)
            pieces = cut(ranges, task_count(options, total), options.max_records_per_partition)
            return [InputPartition(piece) for piece in survey.attached(pieces)]
        finally:
            link.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where there is nothing to read, Spark reads None.
        if partition.value is None:
            return iter(())
        return read_piece(self._options, partition.value)
