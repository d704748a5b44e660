"""What the driver finds out before anything is read: which streams there are, where they begin and end.

What it promises
  * Positions that users name become sequences here, once. A position that cannot be had, because it is not there any
    more or not there yet, is an error that names the option, unless data loss is allowed.
  * A stream that was deleted and made anew is noticed by its creation time, one that lost its beginning by its first
    sequence. Streams that forget on purpose (work queues, by interest, so many messages per subject) do not count as
    lossy when they do.
  * Limits count messages that match. Without a filter that is arithmetic on sequences; with one the sequence that
    ends the n-th match is searched with questions for counts.

What it does not do: read messages.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tidelog.base.errors import ApiError, TidelogError
from tidelog.client.jetstream.bulk import BulkGet
from tidelog.client.jetstream.desk import JetStream
from tidelog.spark.link import Link
from tidelog.spark.offset import Mark
from tidelog.spark.option import OptionError, Position, Positions, ReadFrom, ReadOptions
from tidelog.spark.plan import Piece
from tidelog.spark.shelf import ColdShelf, Shelf
from tidelog.spark.state import STREAM_NOT_FOUND, StreamState, ask_state

LOG = logging.getLogger("tidelog.spark")
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DataLoss(TidelogError):
    """Messages that should be read are gone, or belong to another stream by now."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; set option 'failOnDataLoss' to false to go on with what there is")


class Survey:
    def __init__(self, options: ReadOptions, link: Link) -> None:
        self._options = options
        self._link = link
        self._shelf = Shelf(options, link)

    def states(self, known: Mapping[str, Mark] | None = None) -> dict[str, StreamState]:
        """Of all streams that are to be read, in a fixed order. `known`: how far they were read."""
        return {name: self._with_history(name, (known or {}).get(name)) for name in self._names()}

    def ends(self) -> dict[str, Mark]:
        """Where these streams end."""
        states = {name: self._state(name) for name in self._names()}
        return {name: Mark(state.end_seq, state.created) for name, state in states.items()}

    def attached(self, pieces: Iterable[Piece]) -> list[Piece]:
        """With what of them is in files."""
        return [replace(piece, cold=self._shelf.part(piece)) for piece in pieces]

    def start(self, state: StreamState) -> Mark:
        """Where the options say to begin."""
        options = self._options
        position = options.starting.of(state.name)
        if position.seq:
            seq = position.seq
            if seq < state.first_seq and not state.forgets:
                what = f"option {options.starting.option!r}: {state.name!r} begins at {state.first_seq}, not at {seq}"
                self.tell_loss(what)
            return Mark(max(seq, state.first_seq), state.created)
        if position.time is not None:
            found = self._at_time(state, position, options.starting)
            return Mark(found, state.created)
        return Mark(state.end_seq if position.word == "latest" else state.first_seq, state.created)

    def end(self, state: StreamState) -> Mark:
        """Where the options say to end: the first sequence that is not read."""
        options = self._options
        position = options.ending.of(state.name)
        if position.seq:
            if position.seq > state.end_seq:
                what = f"option 'endingOffsets': {state.name!r} ends before {state.end_seq}, not at {position.seq}"
                self.tell_loss(what)
            return Mark(min(position.seq, state.end_seq), state.created)
        if position.time is not None:
            return Mark(self._at_time(state, position, None), state.created)
        return Mark(state.end_seq, state.created)

    def resumed(self, state: StreamState, mark: Mark) -> Mark:
        """Where to go on from a checkpoint."""
        if mark.created != state.created:
            self.tell_loss(
                f"stream {state.name!r} was deleted and made again (at {state.created}, was {mark.created}), "
                f"and reading had come to {mark.seq} of the one before"
            )
            return Mark(state.first_seq, state.created)
        if state.first_seq > mark.seq and not state.forgets:
            self.tell_loss(
                f"stream {state.name!r} begins at {state.first_seq}; {mark.seq} was to be read next"
            )
        if state.end_seq < mark.seq:
            self.tell_loss(
                f"stream {state.name!r} ends before {state.end_seq}; {mark.seq} was to be read next"
            )
            return Mark(state.end_seq, state.created)
        return Mark(max(mark.seq, state.first_seq), state.created)

    def limited(self, state: StreamState, start_seq: int, end_seq: int, max_rows: int, max_size: int) -> int:
        """Where a batch ends that begins at `start_seq` and may have so many messages and bytes; 0: any number."""
        messages, size = state.figures(start_seq)
        if max_size and messages:
            rows = max(1, max_size * messages // max(1, size))
            max_rows = min(max_rows or rows, rows)
        if not max_rows or end_seq - start_seq <= max_rows:
            return end_seq
        if not self._options.subjects or start_seq < state.held_seq:
            # The server does not count what it does not have.
            return start_seq + max_rows
        target = self.count(state.name, start_seq) - max_rows
        # The least end behind which no more than `target` matches wait.
        low, high = start_seq + max_rows, end_seq
        while low < high:
            middle = (low + high) // 2
            if self.count(state.name, middle) <= target:
                high = middle
            else:
                low = middle + 1
        return low

    def count(self, stream: str, start_seq: int) -> int:
        """Messages from there on that match, those of overlapping filters for each of them."""
        bulk, subjects = self._link.bulk, self._options.subjects or ("",)
        return sum(self._link.attempt(partial(_pending, bulk, stream, start_seq, each)) for each in subjects)

    def matches(self, stream: str, start_seq: int, end_seq: int) -> int:
        """How many in a range; without a filter, what was deleted counts."""
        if not self._options.subjects:
            return end_seq - start_seq
        return self.count(stream, start_seq) - self.count(stream, end_seq)

    def tell_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        LOG.warning("%s; going on, as failOnDataLoss is false", what)

    def _names(self) -> list[str]:
        options = self._options
        if not options.pattern:
            return list(options.streams)
        known = self._link.attempt(lambda: list(JetStream(self._link.connection()).stream_names()))
        return sorted(name for name in known if re.fullmatch(options.pattern, name))

    def _with_history(self, name: str, mark: Mark | None) -> StreamState:
        """A query that follows the end of a stream has no need to look for files every time."""
        state = self._state(name)
        history = self._shelf.pinned(name, state.created)
        if mark is None or mark.seq < state.held_seq or (history is not None and mark.seq < history.end_seq):
            history = self._shelf.fresh(name, state.created)
        return state.with_history(history, earlier=bool(self._options.cold_url))

    def _state(self, name: str) -> StreamState:
        try:
            state = ask_state(self._link, name)
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise OptionError("stream", f"the server has no stream {name!r}") from None
            raise
        if not state.config.get("allow_direct"):
            raise OptionError(
                "stream",
                f"{name!r} does not allow Direct Get, by which it is read; allow it, for example with "
                f"`nats stream edit {name} --allow-direct`",
            )
        return state

    def _at_time(self, state: StreamState, position: Position, strict: Positions | None) -> int:
        """The first sequence at or after a time. `strict`: where the user named it, if it must be there."""
        time, link = position.time, self._link
        assert time is not None
        if state.history is not None and (seq := self._shelf.first_at(state.history, time)):
            return seq

        def ask() -> tuple[int, Any]:
            bulk = link.bulk()
            bulk.read(state.name, 0, max_count=1, start_time=time)
            return bulk.columns.first_seq, bulk.columns.take()

        seq, (_, buffers) = link.attempt(ask)
        if seq:
            micros = int.from_bytes(memoryview(buffers[1])[:8].cast("B"), "little")
            wanted = (time - EPOCH) // MICROSECOND
            if micros >= wanted:
                return max(seq, state.first_seq)
        if strict is not None and not self._options.latest_if_no_time:
            raise OptionError(
                strict.option,
                f"{state.name!r} has nothing at or after {time.isoformat()}; set option "
                "'startingOffsetsByTimestampStrategy' to latest to begin at its end then",
            )
        return state.end_seq


class ColdSurvey(Survey):
    """The same of histories alone: no server is asked, so limits count sequences, and bytes as files have them."""

    def __init__(self, options: ReadOptions, link: Link) -> None:
        super().__init__(options, link)
        self._cold = self._shelf = ColdShelf(options, link)

    def _names(self) -> list[str]:
        options = self._options
        if not options.pattern:
            return list(options.streams)
        return [name for name in self._cold.names() if re.fullmatch(options.pattern, name)]

    def _state(self, name: str) -> StreamState:
        return self._cold.state(name)


def survey_of(options: ReadOptions, link: Link) -> Survey:
    return ColdSurvey(options, link) if options.read_from is ReadFrom.COLD else Survey(options, link)


def _pending(bulk: Callable[[], BulkGet], stream: str, start_seq: int, subject: str) -> int:
    return bulk().pending(stream, start_seq, subject)


def new_streams(states: Mapping[str, StreamState], known: Mapping[str, Mark]) -> dict[str, Mark]:
    """Streams that have come since are read from their beginning, as Kafka's new partitions are."""
    return {name: Mark(state.first_seq, state.created) for name, state in states.items() if name not in known}
