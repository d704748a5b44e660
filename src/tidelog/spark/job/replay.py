"""A table, or a range of a history, into a stream: what it has, in its order, each message once.

Messages have ids made of the stream that they come from and their sequence there, so a replay that is run again
within the stream's duplicate window stores nothing twice. They keep their subjects, or get other ones by a prefix;
headers that were conditions on the stream of then (`Nats-Expected-...`) stay behind.

With one task, the default, the order is that of the archive; several are faster, and keep it within each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.spark.job.archive import PARQUET, read_table


@dataclass(frozen=True, slots=True)
class Range:
    """Of a history below a URL; 0: from its beginning, to its end. No server is asked for it."""

    url: str
    stream: str
    start_seq: int = 0
    end_seq: int = 0
    # Which of several of that name: `<account>/<stream>/<log id>`.
    log: str = ""

    def load(self, spark: Any) -> Any:
        options = {"readFrom": "cold", "coldUrl": self.url, "stream": self.stream, "includeHeaders": "true"}
        for name, value in (
            ("startingOffsets", self.start_seq),
            ("endingOffsets", self.end_seq),
            ("coldLog", self.log),
        ):
            if value:
                options[name] = str(value)
        return spark.read.format("tidelog").options(**options).load()


@dataclass(frozen=True, slots=True)
class Replay:
    """`options` are the sink's; `where` is a condition in SQL, such as `seq >= 1000`.

    `table` is a table of an archive, or a `Range` of the cold tier.
    """

    table: "str | Range"
    options: Mapping[str, str]
    table_format: str = PARQUET
    prefix: str = ""
    where: str = ""
    tasks: int = 1

    def run(self, spark: Any) -> int:
        """How many rows were given to the stream."""
        if isinstance(self.table, Range):
            frame = self.table.load(spark)
        else:
            frame = read_table(spark, self.table, self.table_format)
        if self.where:
            frame = frame.where(self.where)
        columns = ["concat('replay:', stream, ':', seq) AS msgId", "value", "stream AS from_stream", "seq"]
        columns.append("concat(:prefix, subject) AS subject" if self.prefix else "subject")
        if "headers" in frame.columns:
            columns.append("filter(headers, h -> NOT startswith(lower(h.key), 'nats-expected-')) AS headers")
        chosen = _select(frame, columns, self.prefix)
        if self.tasks == 1:
            ordered = chosen.sort("from_stream", "seq").coalesce(1)
        else:
            ordered = chosen.repartitionByRange(self.tasks, "from_stream", "seq").sortWithinPartitions(
                "from_stream", "seq"
            )
        count = int(ordered.count())
        ordered.write.format("tidelog").mode("append").options(
            **{"dedupe": "column"} | dict(self.options)
        ).save()
        return count


def _select(frame: Any, columns: list[str], prefix: str) -> Any:
    quoted = "'" + prefix.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return frame.selectExpr(*[column.replace(":prefix", quoted) for column in columns])
