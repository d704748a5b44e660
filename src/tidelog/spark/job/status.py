"""How far queries are: what their checkpoints say, beside where their streams end. No Spark is needed to look.

A checkpoint is found wherever there is a directory `offsets` with a `metadata` beside it, below the place that is
given.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidelog.base.errors import ApiError, TidelogError
from tidelog.spark.link import Link
from tidelog.spark.offset import Mark, Offset, parse
from tidelog.spark.option import ConnectOptions
from tidelog.spark.shelf import LOG_ID
from tidelog.spark.state import STREAM_NOT_FOUND, ask_state


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one stream in one query. `lag` counts sequences; `note` says what is wrong, if anything."""

    checkpoint: Path
    batch: int
    committed: bool
    at: datetime
    stream: str
    seq: int
    end_seq: int
    note: str = ""

    @property
    def lag(self) -> int:
        return max(0, self.end_seq - self.seq)


def find_checkpoints(place: Path) -> Iterator[Path]:
    for offsets in sorted(place.rglob("offsets")):
        if offsets.is_dir() and (offsets.parent / "metadata").is_file():
            yield offsets.parent


def read_progress(place: Path, options: ConnectOptions) -> Iterator[Progress]:
    link = Link(options, options.plan_patience_s)
    try:
        for checkpoint in find_checkpoints(place):
            batch = max(
                (int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()),
                default=None,
            )
            if batch is None:
                continue
            path = checkpoint / "offsets" / str(batch)
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            committed = (checkpoint / "commits" / str(batch)).exists()
            for offset in _offsets(path):
                for stream, mark in offset.streams.items():
                    end_seq, note = _end(link, stream, mark)
                    yield Progress(checkpoint, batch, committed, at, stream, mark.seq, end_seq, note)
    finally:
        link.close()


def _offsets(path: Path) -> Iterator[Offset]:
    """Those of our sources: a line each, behind two of Spark's own."""
    for line in path.read_text("utf-8").splitlines()[2:]:
        try:
            yield parse(json.loads(line))
        except (ValueError, TidelogError):
            continue


def _end(link: Link, stream: str, mark: Mark) -> tuple[int, str]:
    if mark.created.startswith(LOG_ID):
        return mark.seq, "history is read without a server"
    try:
        state = ask_state(link, stream)
    except ApiError as error:
        if error.err_code != STREAM_NOT_FOUND:
            raise
        return mark.seq, "the stream is not there"
    if state.created != mark.created:
        return state.end_seq, "the stream was made anew"
    if state.first_seq > mark.seq:
        return state.end_seq, f"the stream begins at {state.first_seq}: messages were lost"
    return state.end_seq, ""
