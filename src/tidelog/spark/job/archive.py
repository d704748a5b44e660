"""A stream into a table: every message once, however often the job is stopped.

The table is a directory that anything opens, with its checkpoint inside:

    <table>/date=2026-11-19/batch=12/part-*.parquet
    <table>/_checkpoint/

What it promises: after a run the table has every message that the stream had when the run began, once, whatever
killed the job or the server before. How it works: each micro-batch has a directory of its own, and a batch that is
repeated replaces what it had written. In a Delta table, a batch and the note that it is written are one commit.

A table without its checkpoint is not written to: where it ends is not known then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.base.errors import TidelogError

PARQUET, DELTA = "parquet", "delta"
CHECKPOINT = "_checkpoint"
# Of one micro-batch, so that a long stream is archived in steps that show progress; a Delta batch passes the driver.
BATCH_ROWS = 1_000_000
DELTA_BATCH_ROWS = 250_000


@dataclass(frozen=True, slots=True)
class Archive:
    """`options` are the source's; `follow`: go on when the end is reached."""

    table: str
    options: Mapping[str, str]
    table_format: str = PARQUET
    follow: bool = False
    trigger: str = "10 seconds"

    def start(self, spark: Any) -> Any:
        """The running query."""
        self._check()
        rows = DELTA_BATCH_ROWS if self.table_format == DELTA else BATCH_ROWS
        defaults = {
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(rows),
            "includeHeaders": "true",
        }
        frame = spark.readStream.format("tidelog").options(**defaults | dict(self.options)).load()
        dated = frame.selectExpr("*", "date_format(timestamp, 'yyyy-MM-dd') AS date")
        write = self._write_delta if self.table_format == DELTA else self._write_parquet
        writer = dated.writeStream.foreachBatch(write).option(
            "checkpointLocation", f"{self.table}/{CHECKPOINT}"
        )
        writer = (
            writer.trigger(processingTime=self.trigger) if self.follow else writer.trigger(availableNow=True)
        )
        return writer.start()

    def _check(self) -> None:
        """Only for tables on this machine: what a store far away has, is not asked."""
        path = Path(self.table)
        if "://" in self.table or not path.exists() or (path / CHECKPOINT).exists():
            return
        if any(path.iterdir()):
            raise TidelogError(
                f"{self.table} is not empty and has no {CHECKPOINT}: where the archive ends is not known; "
                "name a new directory"
            )

    def _write_parquet(self, frame: Any, batch: int) -> None:
        from pyspark.sql.functions import lit

        (
            frame.withColumn("batch", lit(batch))
            .sortWithinPartitions("stream", "seq")
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy("date", "batch")
            .parquet(self.table)
        )

    def _write_delta(self, frame: Any, batch: int) -> None:
        try:
            from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        except ImportError as error:
            raise TidelogError(f"Delta is not installed ({error}); pip install 'tidelog[delta]'") from error
        name = "tidelog-archive"
        if DeltaTable.is_deltatable(self.table):
            written = DeltaTable(self.table).transaction_version(name)
            if written is not None and written >= batch:
                return
        write_deltalake(
            self.table,
            frame.sort("stream", "seq").toArrow(),
            mode="append",
            partition_by=["date"],
            commit_properties=CommitProperties(app_transactions=[Transaction(name, batch)]),
        )


def read_table(spark: Any, table: str, table_format: str) -> Any:
    """What an archive has written, as a frame."""
    if table_format == DELTA:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise TidelogError(f"Delta is not installed ({error}); pip install 'tidelog[delta]'") from error
        return spark.createDataFrame(DeltaTable(table).to_pyarrow_table())
    return spark.read.parquet(table)
