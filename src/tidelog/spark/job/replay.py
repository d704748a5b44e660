"""A table into a stream: what an archive has, in its order, each message once.

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
class Replay:
    """`options` are the sink's; `where` is a condition in SQL, such as `seq >= 1000`."""

    table: str
    options: Mapping[str, str]
    table_format: str = PARQUET
    prefix: str = ""
    where: str = ""
    tasks: int = 1

    def run(self, spark: Any) -> int:
        """How many rows were given to the stream."""
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
