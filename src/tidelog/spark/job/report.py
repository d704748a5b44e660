"""What is in a stream: messages and bytes by subject and by minute, as tables and as one picture.

    <directory>/by_subject/   subject, messages, bytes, first_seq, last_seq, first_time, last_time
    <directory>/by_minute/    minute, messages, bytes, subjects
    <directory>/report.png

The picture shows the messages of each minute, and the subjects that have most.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tidelog.base.errors import TidelogError

# Subjects in the picture and in what is shown; the tables have all.
SHOWN = 12
# Minutes in the picture: more than it has points.
MINUTES = 10_000
MINUTE = timedelta(minutes=1)
# What the picture shows at least.
LEAST = 12 * MINUTE


@dataclass(frozen=True, slots=True)
class Summary:
    """`subjects` are those that have most: name, messages, bytes."""

    messages: int
    size: int
    subject_count: int
    minute_count: int
    subjects: list[tuple[str, int, int]]
    plot: Path


@dataclass(frozen=True, slots=True)
class Report:
    """`options` are the source's."""

    directory: Path
    options: Mapping[str, str]

    def run(self, spark: Any) -> Summary:
        frame = spark.read.format("tidelog").options(**self.options).load()
        frame.createOrReplaceTempView("tidelog_report")
        # Once over the stream: what both tables need, by subject and minute.
        spark.sql(
            """
            SELECT subject, date_trunc('minute', timestamp) AS minute, count(*) AS messages,
                   sum(length(value)) AS bytes, min(seq) AS first_seq, max(seq) AS last_seq,
                   min(timestamp) AS first_time, max(timestamp) AS last_time
            FROM tidelog_report GROUP BY 1, 2
            """
        ).cache().createOrReplaceTempView("tidelog_report_cells")
        try:
            by_subject = self._write(
                spark,
                "by_subject",
                """
                SELECT subject, sum(messages) AS messages, sum(bytes) AS bytes, min(first_seq) AS first_seq,
                       max(last_seq) AS last_seq, min(first_time) AS first_time, max(last_time) AS last_time
                FROM tidelog_report_cells GROUP BY 1 ORDER BY messages DESC, subject
                """,
            )
            by_minute = self._write(
                spark,
                "by_minute",
                """
                SELECT minute, sum(messages) AS messages, sum(bytes) AS bytes, count(DISTINCT subject) AS subjects
                FROM tidelog_report_cells GROUP BY 1 ORDER BY minute
                """,
            )
            return self._summary(by_subject, by_minute)
        finally:
            spark.catalog.uncacheTable("tidelog_report_cells")

    def _write(self, spark: Any, name: str, query: str) -> Any:
        place = str(self.directory / name)
        spark.sql(query).coalesce(1).write.mode("overwrite").parquet(place)
        return spark.read.parquet(place)

    def _summary(self, by_subject: Any, by_minute: Any) -> Summary:
        total = by_subject.selectExpr(
            "count(*) AS n", "sum(messages) AS messages", "sum(bytes) AS bytes"
        ).first()
        most = by_subject.orderBy("messages", "subject", ascending=[False, True]).limit(SHOWN).collect()
        minutes = by_minute.orderBy("minute", ascending=False).limit(MINUTES).collect()[::-1]
        plot = self.directory / "report.png"
        _draw(
            plot,
            [(row.minute, row.messages) for row in minutes],
            [(row.subject, row.messages) for row in most],
        )
        return Summary(
            messages=int(total.messages or 0),
            size=int(total.bytes or 0),
            subject_count=int(total.n),
            minute_count=int(by_minute.count()),
            subjects=[(row.subject, int(row.messages), int(row.bytes)) for row in most],
            plot=plot,
        )


def _draw(path: Path, minutes: list[tuple[Any, int]], subjects: list[tuple[str, int]]) -> None:
    try:
        from matplotlib import dates
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TidelogError(f"matplotlib is not installed ({error}); pip install 'tidelog[report]'") from error
    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1)
    shape = list(steps(minutes))
    above.fill_between([minute for minute, _ in shape], [count for _, count in shape], step="post")
    above.set_title("Messages per minute")
    above.set_ylim(bottom=0)
    if minutes:
        # One minute alone would be a point in years.
        first, last = minutes[0][0], minutes[-1][0] + MINUTE
        above.set_xlim(first - MINUTE, max(last + MINUTE, first + LEAST))
    locator = dates.AutoDateLocator()
    above.xaxis.set_major_locator(locator)
    above.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    names = [subject for subject, _ in subjects][::-1]
    below.barh(names, [count for _, count in subjects][::-1])
    below.set_title(f"Messages by subject (the {len(names)} that have most)")
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=110)


def steps(minutes: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Each count holds for its minute; nothing came in those that are not there."""
    for (minute, count), following in zip_longest(minutes, minutes[1:]):
        yield minute, count
        if following is None or following[0] != minute + MINUTE:
            yield minute + MINUTE, 0
