"""Totals per minute and subject: a stream of events into a stream of totals, and into a table. `tidelog demo` runs it.

    events    {"at": milliseconds since 1970, "value": a whole number, ...} on any subject
    totals    {"subject": ..., "minute": ..., "events": ..., "sum": ..., "most": ...} on `totals.<subject>`
    table     subject, minute, events, sum, most; as Parquet

The minute is that of the event, not of its arrival. The stream gets a total once, when its minute is over; the table
has the minute that still goes on as well.

It is written as anybody would write it with PySpark; nothing in it knows how the stream is read.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

PREFIX = "totals"
# How much later than a younger one an event may come. A minute is over when none of it can come any more.
LATE = "10 seconds"


@dataclass(frozen=True, slots=True)
class Ran:
    rows: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def per_minute(events: Any) -> Any:
    """One row for each subject and minute."""
    from pyspark.sql.functions import col, count, from_json, max, sum, timestamp_millis, window

    read = from_json(col("value").cast("string"), "at bigint, value bigint").alias("event")
    timed = events.select("subject", read).select(
        "subject", timestamp_millis(col("event.at")).alias("at"), col("event.value").alias("value")
    )
    found = timed.withWatermark("at", LATE).groupBy("subject", window("at", "1 minute"))
    figures = count("*").alias("events"), sum("value").alias("sum"), max("value").alias("most")
    return found.agg(*figures).select("subject", col("window.start").alias("minute"), "events", "sum", "most")


def follow(
    spark: Any, options: Mapping[str, str], *, source: str, target: str, checkpoint: Path, batch_rows: int
) -> Ran:
    """What there is in `source`, micro-batch by micro-batch, as totals of the minutes that are over into `target`."""
    from pyspark.sql.functions import concat_ws, lit, struct, to_json

    events = (
        spark.readStream.format("tidelog")
        .options(stream=source, startingOffsets="earliest", maxOffsetsPerTrigger=batch_rows, **options)
        .load()
    )
    query = (
        per_minute(events)
        .select(
            concat_ws(".", lit(PREFIX), "subject").alias("subject"),
            to_json(struct("subject", "minute", "events", "sum", "most")).alias("value"),
        )
        .writeStream.format("tidelog")
        .options(stream=target, checkpointLocation=str(checkpoint), **options)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [each for each in query.recentProgress if each["numInputRows"]]
    spent_ms = sum(each["durationMs"]["triggerExecution"] for each in done)
    return Ran(sum(each["numInputRows"] for each in done), spent_ms / 1000)


def tabulate(spark: Any, options: Mapping[str, str], *, source: str, table: Path) -> Ran:
    """All that is in `source`, in one go, as a table that anything opens."""
    events = spark.read.format("tidelog").options(stream=source, **options).load()
    start_s = time.perf_counter()
    found = per_minute(events)
    found.sort("subject", "minute").coalesce(1).write.mode("overwrite").parquet(str(table))
    seconds = time.perf_counter() - start_s
    return Ran(int(spark.read.parquet(str(table)).selectExpr("sum(events)").first()[0] or 0), seconds)


def read_table(table: Path) -> Iterator[tuple[str, datetime, int, int, int]]:
    """Without Spark, as anybody opens it."""
    for row in pq.read_table(table).to_pylist():
        yield row["subject"], row["minute"], row["events"], row["sum"], row["most"]
