"""How fast Spark reads history, and what the limit is: the body of `tidelog bench spark --case cold`.

Each figure is the best of some rounds, warm, and each round checks the number of rows, the sum of their sequences, and
their bytes; before them, a checksum of every payload is compared with what was published.

    scan      one task's work without Spark: Parquet to Arrow, with the server asked for what was deleted
    spark     the same rows through Spark
    alone     the same without a server (`readFrom=cold`)
    channel   as many rows of the same shape from a Python source that makes them up: what Spark takes at most
    parquet   the same files through Spark's own reader, which needs no Python
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from tidelog.base.errors import TidelogError
from tidelog.spark.link import Link
from tidelog.spark.measure import NEAR, MadeUp, best
from tidelog.spark.option import read_options
from tidelog.spark.plan import Piece
from tidelog.spark.survey import survey_of
from tidelog.spark.task import read_piece

Act = Callable[[], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ColdFigures:
    """Rates are rows a second, times seconds."""

    rows: int
    size: int
    scan: float
    spark: float
    alone: float
    channel: float
    parquet: float
    server_cpu_s: float
    spark_cpu_s: float

    @property
    def limit(self) -> str:
        if self.spark >= NEAR * self.channel:
            return "Spark's channel from the Python workers to the JVM"
        if self.spark >= NEAR * self.scan:
            return "Parquet, as one task reads it"
        return "the processors: Python workers and JVM share them"


def measure_cold(
    spark: Any,
    options: Mapping[str, str],
    server_pid: int,
    *,
    checksum: int,
    size: int,
    tasks: int,
    rounds: int,
    tell: Callable[[str], None],
) -> ColdFigures:
    """`options` have `coldUrl`, below which all of the stream is. Raises TidelogError when rows are missing."""
    piece = plan(options)
    assert piece.cold is not None
    entries = piece.cold.manifest.entries
    rows = sum(entry.messages for entry in entries)
    expected = (rows, (piece.start_seq + piece.end_seq - 1) * rows // 2)
    spark.dataSource.register(MadeUp)
    tell("checksum")
    found = load(spark, "tidelog", options, tasks).selectExpr("sum(crc32(value))").first()[0]
    if found != checksum:
        raise TidelogError(f"the payloads have the checksum {found}, and were published with {checksum}")
    folder = Path(piece.cold.url.removeprefix("file://")) / piece.cold.place.folder / "data"
    made_up = {"rows": str(rows), "size": str(size), "tasks": str(tasks)}
    acts: dict[str, tuple[Act, tuple[int, int] | None]] = {
        "scan": (scanned(options, piece), expected),
        "spark": (summed(lambda: load(spark, "tidelog", options, tasks), rows * size), expected),
        "alone": (
            summed(lambda: load(spark, "tidelog", {**options, "readFrom": "cold"}, tasks), rows * size),
            expected,
        ),
        "channel": (summed(lambda: load(spark, MadeUp.name(), made_up, tasks), 0), None),
        "parquet": (
            summed(
                lambda: spark.read.parquet(str(folder)).withColumnRenamed("payload", "value"), rows * size
            ),
            expected,
        ),
    }
    rates, spent = {}, {}
    for name, (act, wanted) in acts.items():
        tell(name)
        seconds, spent[name] = best(act, rounds, wanted, server_pid)
        rates[name] = rows / seconds
    server_s, spark_s = spent["spark"]
    stored = sum(entry.size for entry in entries)
    return ColdFigures(
        rows=rows, size=stored, server_cpu_s=server_s / rows, spark_cpu_s=spark_s / rows, **rates
    )


def plan(options: Mapping[str, str]) -> Piece:
    """All of the stream as one piece."""
    read = read_options(options, streaming=False)
    link = Link(read.connect, read.connect.plan_patience_s)
    try:
        survey = survey_of(read, link)
        (state,) = survey.states().values()
        (piece,) = survey.attached([Piece(state.name, state.created, state.first_seq, state.end_seq)])
    finally:
        link.close()
    if piece.cold is None or piece.cold.end_seq != piece.end_seq:
        raise TidelogError(f"not all of {state.name!r} is history")
    return piece


def load(spark: Any, name: str, options: Mapping[str, str], tasks: int) -> Any:
    return spark.read.format(name).options(**{**options, "minPartitions": str(tasks)}).load()


def summed(frame: Callable[[], Any], size: int) -> Act:
    """Through Spark. `size`: how many bytes all payloads have; 0: it does not matter."""

    def run() -> tuple[int, int]:
        found = frame().selectExpr("count(*) AS n", "sum(seq) AS s", "sum(length(value)) AS v").first()
        if size and found.v != size:
            raise TidelogError(f"read {found.v:,} bytes of payloads, and not {size:,}")
        return found.n, found.s

    return run


def scanned(options: Mapping[str, str], piece: Piece) -> Act:
    read = read_options(options, streaming=False)

    def run() -> tuple[int, int]:
        found = [(batch.num_rows, pc.sum(batch.column("seq")).as_py()) for batch in read_piece(read, piece)]
        return sum(count for count, _ in found), sum(total for _, total in found)

    return run
