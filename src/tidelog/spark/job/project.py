"""A project of Spark's Declarative Pipelines, wired to a server; and how it is run.

    <directory>/spark-pipeline.yml          what Spark reads: name, storage, where the transformations are
    <directory>/transformations/events.py   the stream as a table, and messages per minute and subject
    <directory>/storage/                    checkpoints

Where the server is and who asks stands in the environment when the pipeline runs (NATS_URL, and what it says in
`events.py`), so nothing secret is in the project.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tidelog.base.errors import TidelogError
from tidelog.spark.local import prepare

SPEC_FILE = "spark-pipeline.yml"
SPEC = """\
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.session.timeZone: UTC
  spark.sql.shuffle.partitions: "4"
"""
EVENTS = '''\
"""The stream {stream} as a table, and what came of it per minute."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, date_trunc, length, sum

spark = SparkSession.active()
SERVER = os.environ.get("NATS_URL", "{server}")


@dp.table
def {table}() -> DataFrame:
    """Every message once. What can be set: docs/reference/spark.md of Tidelog."""
    return (
        spark.readStream.format("tidelog")
        .option("servers", SERVER)
        .option("stream", "{stream}")
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def {table}_per_minute() -> DataFrame:
    minute = date_trunc("minute", col("timestamp")).alias("minute")
    figures = count("*").alias("messages"), sum(length("value")).alias("bytes")
    return spark.read.table("{table}").groupBy("subject", minute).agg(*figures)
'''


def create(directory: Path, *, stream: str, server: str) -> list[Path]:
    """The files that were made. Raises TidelogError when there is something already."""
    if directory.exists() and any(directory.iterdir()):
        raise TidelogError(f"{directory} is there already, and not empty")
    table = "".join(letter.lower() if letter.isalnum() and letter.isascii() else "_" for letter in stream)
    if not table[0].isalpha():
        table = f"stream_{table}"
    storage = directory.resolve() / "storage"
    (directory / "transformations").mkdir(parents=True)
    storage.mkdir()
    spec, events = directory / SPEC_FILE, directory / "transformations" / "events.py"
    spec.write_text(SPEC.format(name=directory.resolve().name, storage=storage.as_uri()))
    events.write_text(EVENTS.format(stream=stream, server=server, table=table))
    return [spec, events]


def run_command(directory: Path, *, master: str, dry: bool = False) -> Sequence[str]:
    """What starts the pipeline, in an environment that is made ready for it."""
    if not (directory / SPEC_FILE).is_file():
        raise TidelogError(f"{directory} has no {SPEC_FILE}; `tidelog pipeline init` makes one")
    prepare(local=master.startswith("local"))
    beside = Path(sys.executable).with_name("spark-pipelines")
    program = str(beside) if beside.exists() else shutil.which("spark-pipelines")
    if program is None:
        raise TidelogError("spark-pipelines is not installed; pip install 'tidelog[spark]'")
    os.environ.setdefault("SPARK_MASTER", master)
    return [program, "dry-run" if dry else "run", "--spec", str(directory / SPEC_FILE)]
