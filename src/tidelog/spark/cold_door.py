"""History, read from Parquet by the task itself: no server sends these rows.

What it promises
  * The rows are those that the other doors give. What was deleted since it was archived is not among them: where the
    server has fewer messages in a stretch than a file, that stretch is read from the server.
  * What the server has let go of is shown as the archive has it, if `earlier` says so; everything is, where no server
    is asked.
  * Files that compaction has replaced meanwhile are looked for in the newest manifest; what was handed on does not
    come again.
  * A store that is away, or a file that is damaged, costs nothing where the server has the same: the rest is its.

How it works: row groups are the unit. One question for each file compares how many messages its row groups and the
server have; a copy in which nothing can come any more is the same if it has the same number. Columns go on as
Parquet's reader makes them; subjects are matched by regular expressions over the distinct ones.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from tidelog.base.errors import ColdError, ColdMissing, ConfigError
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.own import count_ranges
from tidelog.cold.bucket import StoreBucket, open_bucket
from tidelog.cold.history import History, read_history
from tidelog.cold.scan import Group, groups
from tidelog.spark.door import Door, Watch
from tidelog.spark.link import Link
from tidelog.spark.plan import Piece
from tidelog.spark.row import MessageColumns, from_cold
from tidelog.spark.state import ask_state

LOG = logging.getLogger("tidelog.spark")
COLUMNS = ("seq", "ts", "subject", "payload")


class Server:
    """Who knows what was deleted, and has it all: `held_seq` is the first sequence that it has."""

    def __init__(self, link: Link, door: Door, stream: str, held_seq: int, *, earlier: bool) -> None:
        self.door = door
        self.held_seq = held_seq
        self.earlier = earlier
        self._link = link
        self._stream = stream

    def differing(self, found: list[Group]) -> list[Group]:
        """Those of which it has another number of messages."""
        ranges = [(group.start_seq, group.end_seq) for group in found]
        counts = self._link.attempt(
            lambda: count_ranges(JetStream(self._link.connection()), self._stream, ranges)
        )
        return [group for group, count in zip(found, counts, strict=True) if group.count != count]

    def look_again(self) -> bool:
        """Whether its beginning has moved."""
        before, self.held_seq = self.held_seq, ask_state(self._link, self._stream).first_seq
        return self.held_seq != before


class ColdDoor:
    """`reached`: in front of it everything was handed on. Without a server the archive is all there is."""

    def __init__(
        self, history: History, subjects: tuple[str, ...], *, headers: bool, server: Server | None
    ) -> None:
        self.reached = 0
        self._history = history
        self._opened: StoreBucket | None = None
        self._server = server
        self._headers = headers
        self._columns = (*COLUMNS, "headers") if headers else COLUMNS
        self._matcher = SubjectMatcher(subjects) if subjects else None

    @property
    def _bucket(self) -> StoreBucket:
        """Opened when it is used: a folder of the driver need not be here, too."""
        if self._opened is None:
            try:
                self._opened = open_bucket(self._history.url, make=False)
            except ConfigError as error:
                raise ColdError(str(error)) from None
        return self._opened

    def read(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        self.reached = piece.start_seq
        try:
            yield from self._read_newest(piece, watch)
        except ColdError as error:
            if self._server is None or self.reached < self._server.held_seq:
                raise
            LOG.warning("%s; the server is asked for what is behind %d", error, self.reached - 1)

    def _read_newest(self, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        """By another manifest, if this one is too old."""
        history = self._history
        while True:
            try:
                yield from self._read(history, piece, watch)
            except ColdMissing:
                newest = read_history(self._bucket, history.place)
                if newest.manifest.version == history.manifest.version:
                    raise
                history = newest
            else:
                return

    def _read(self, history: History, piece: Piece, watch: Watch) -> Iterator[MessageColumns]:
        while self.reached < piece.end_seq and (entries := history.within(self.reached, piece.end_seq)):
            entry, held_seq = entries[0], self._server.held_seq if self._server is not None else piece.end_seq
            if entry.start_seq > self.reached:
                return  # what is in front of it was removed: the task says what that means
            if self.reached < held_seq:
                if self._server is not None and not self._server.earlier:
                    return
                end_seq = min(held_seq, entry.end_seq, piece.end_seq)
                for group in groups(self._bucket, entry, self.reached, end_seq):
                    yield from self._rows(piece.stream, group)
            else:
                end_seq = min(entry.end_seq, piece.end_seq)
                found = list(groups(self._bucket, entry, self.reached, end_seq))
                yield from self._compared(piece, found, watch)
                if self._server is not None and self._server.held_seq > self.reached:
                    continue
            self.reached = end_seq

    def _compared(self, piece: Piece, found: list[Group], watch: Watch) -> Iterator[MessageColumns]:
        """The rows of these, from where they are right. Ends early when the server's beginning has overtaken them."""
        assert self._server is not None
        differing = self._server.differing(found) if found else []
        for group in found:
            if group not in differing:
                yield from self._rows(piece.stream, group)
                continue
            if self._server.look_again() and self._server.held_seq > self.reached:
                return
            part = replace(piece, start_seq=group.start_seq, end_seq=group.end_seq, cold=None)
            yield from self._server.door.read(part, watch)
            self.reached = group.end_seq

    def _rows(self, stream: str, group: Group) -> Iterator[MessageColumns]:
        for batch in group.batches(self._columns, self._matcher):
            yield from_cold(stream, batch, headers=self._headers)
            self.reached = batch.column("seq")[batch.num_rows - 1].as_py() + 1
        self.reached = group.end_seq


class SubjectMatcher:
    """Any of some subjects and wildcards."""

    def __init__(self, subjects: tuple[str, ...]) -> None:
        self._pattern = "|".join(f"(?:{expression(subject)})" for subject in subjects)

    def wanted(self, subjects: Any) -> Any:
        coded = subjects.dictionary_encode()
        found = pc.match_substring_regex(coded.dictionary, f"^(?:{self._pattern})$")
        return found.take(coded.indices)


def expression(subject: str) -> str:
    """For RE2: `*` is a token, a `>` at the end one or more."""
    tokens = subject.split(".")
    said = [r"[^.]+" if token == "*" else re.escape(token) for token in tokens]
    if tokens[-1] == ">":
        said[-1] = r"(?s:.+)"
    return r"\.".join(said)
