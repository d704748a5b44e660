"""Where the history of streams lies, as the planning sees it: manifests, read once and pinned.

What it promises
  * A history is that of the very stream: it is found by the id of its log, which the server says, never by name alone.
  * What a plan reads from files is one version of a manifest, however long its tasks take.
  * Where the server says by itself where its history is, and that cannot be opened from here, it is told in the log,
    and everything is read from the server.

What it does not do: open files of data.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidelog.base.errors import ApiError, ColdError, ConfigError, NoResponders, ServerError
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.own import LogInfo, log_info
from tidelog.cold.archive import Place
from tidelog.cold.bucket import StoreBucket, open_bucket
from tidelog.cold.history import History, find_history, places, read_history
from tidelog.cold.manifest import Manifest
from tidelog.cold.scan import first_at
from tidelog.spark.link import Link, is_forbidden
from tidelog.spark.option import OptionError, ReadFrom, ReadOptions
from tidelog.spark.plan import Piece
from tidelog.spark.state import STREAM_NOT_FOUND, StreamState

# In front of the id of a log, where other checkpoints have the time at which a stream was made.
LOG_ID = "log "
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LOG = logging.getLogger("tidelog.spark")


@dataclass(frozen=True, slots=True)
class _Known:
    """Of a stream that was made at `created`; without a bucket there is no history to be had."""

    created: str
    bucket: StoreBucket | None
    place: Place | None


class Shelf:
    def __init__(self, options: ReadOptions, link: Link) -> None:
        self._options = options
        self._link = link
        self._known: dict[str, _Known] = {}
        self._histories: dict[str, History] = {}

    def pinned(self, stream: str, created: str) -> History | None:
        """As it was when it was last read; read now, if it never was."""
        known = self._known.get(stream)
        if known is None or known.created != created:
            return self.fresh(stream, created)
        return self._histories.get(stream)

    def fresh(self, stream: str, created: str) -> History | None:
        """As it is now; None: there is none."""
        if self._options.read_from not in (ReadFrom.AUTO, ReadFrom.COLD):
            return None
        known = self._known.get(stream)
        if known is None or known.created != created:
            known = self._known[stream] = self._find(stream, created)
        self._histories.pop(stream, None)
        if known.bucket is None or known.place is None:
            return None
        try:
            history = read_history(known.bucket, known.place)
        except ColdError as error:
            if self._options.cold_url:
                raise
            LOG.warning("the history of %s cannot be read now (%s): the server is asked", stream, error)
            return None
        if not history.manifest.entries:
            return None
        self._histories[stream] = history
        return history

    def part(self, piece: Piece) -> History | None:
        """What the files have of a piece."""
        history = self.pinned(piece.stream, piece.created)
        if history is None:
            return None
        entries = history.within(piece.start_seq, piece.end_seq)
        if not entries:
            return None
        return History(
            history.url, history.place, Manifest(version=history.manifest.version, entries=entries)
        )

    def first_at(self, history: History, time: datetime) -> int:
        """The first sequence at or after a time; 0: history has none."""
        bucket = open_bucket(history.url, make=False)
        return first_at(bucket, history.manifest.entries, (time - EPOCH) // MICROSECOND * 1000)

    def _find(self, stream: str, created: str) -> _Known:
        info = self._link.attempt(lambda: self._ask(stream))
        url = self._options.cold_url or (info.cold_url if info is not None else "")
        if not url:
            return _Known(created, None, None)
        if info is None:
            raise OptionError(
                "coldUrl",
                f"the server does not say which log {stream!r} has, as it is no Tidelog, or this user may not ask "
                "$TIDELOG.API.STREAM.INFO; with option 'readFrom' at cold the history is read without it",
            )
        try:
            bucket = open_bucket(url, make=False)
        except ConfigError as error:
            if self._options.cold_url:
                raise OptionError("coldUrl", str(error)) from None
            LOG.warning("the history of %s cannot be read from here (%s): the server is asked", stream, error)
            return _Known(created, None, None)
        return _Known(created, bucket, Place(info.account, stream, bytes.fromhex(info.log_id)))

    def _ask(self, stream: str) -> LogInfo | None:
        """None: nobody answers, as this is another server, or who asks may not."""
        try:
            return log_info(JetStream(self._link.connection()), stream)
        except NoResponders:
            return None
        except ServerError as error:
            if not is_forbidden(error):
                raise
            return None
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise
            return None


class ColdShelf(Shelf):
    """Without a server: what is below the URL is all there is. Streams are told apart by the ids of their logs."""

    def state(self, name: str) -> StreamState:
        bucket = self._open()
        try:
            history = find_history(bucket, name, self._options.cold_log)
        except ColdError as error:
            raise OptionError("coldLog", f"{error}; say which, as <account>/<stream>/<log id>") from None
        created = created_of(history.place)
        self._known[name] = _Known(created, bucket, history.place)
        self._histories[name] = history
        return state_of(name, created, history)

    def names(self) -> list[str]:
        return sorted({place.stream for place in places(self._open())})

    def _open(self) -> StoreBucket:
        try:
            return open_bucket(self._options.cold_url, make=False)
        except ConfigError as error:
            raise OptionError("coldUrl", str(error)) from None

    def _find(self, stream: str, created: str) -> _Known:
        history = find_history(self._open(), stream, self._options.cold_log)
        if created != created_of(history.place):
            raise OptionError(
                "coldLog", f"{stream!r} was read as {created}, and now is {history.place.folder}"
            )
        return _Known(created, self._open(), history.place)


def created_of(place: Place) -> str:
    """What tells it from another of its name, in place of the time when it was made."""
    return LOG_ID + place.log_id.hex()


def state_of(name: str, created: str, history: History) -> StreamState:
    entries = history.manifest.entries
    return StreamState(
        name=name,
        created=created,
        first_seq=history.start_seq or 1,
        end_seq=history.end_seq or 1,
        messages=sum(entry.messages for entry in entries),
        size=sum(entry.size for entry in entries),
        config={},
        held_seq=history.end_seq or 1,
        history=history,
    )
