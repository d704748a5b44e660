"""Key-value buckets (ADR-8): a stream whose subjects are keys, with the last values of each.

bucket = Bucket(js, "settings")
revision = bucket.put("color", b"red")
bucket.update("color", b"blue", revision)

What it promises: the same streams, subjects and headers as other clients, so that a bucket is shared with them.
`create` and `update` store only if nobody else was faster, and raise WrongRevision otherwise. A key that was deleted is
one that is not there: `get` raises KeyNotFound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidelog.base.errors import ApiError, ClientError
from tidelog.client.jetstream.answer import Document, StreamInfo
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.direct import NOT_FOUND
from tidelog.client.jetstream.ordered import OrderedReader
from tidelog.client.jetstream.pull import SECOND_NS
from tidelog.client.jetstream.read import StreamReader, find_message
from tidelog.client.jetstream.stored import StoredMessage
from tidelog.wire.header import HeadersLike

OPERATION = "KV-Operation"
ROLLUP = "Nats-Rollup"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"
MARKER_REASON = "Nats-Marker-Reason"
PUT, DELETE, PURGE = "PUT", "DEL", "PURGE"

WRONG_SEQUENCE = frozenset({10071, 10164})
DUPLICATES_NS = 120 * SECOND_NS
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")


class KeyNotFound(ClientError):
    """The bucket has no value for the key: it was never put, or is deleted."""


class WrongRevision(ClientError):
    """Somebody else has changed the key meanwhile."""


@dataclass(frozen=True, slots=True)
class Entry:
    bucket: str
    key: str
    value: bytes
    revision: int
    created: str
    # How many entries of the same listing follow.
    delta: int
    operation: str


def stream_of(bucket: str) -> str:
    if not _NAME.fullmatch(bucket):
        raise ClientError(f"bucket {bucket!r}: a name has letters, digits, `-` and `_` only")
    return f"KV_{bucket}"


def bucket_config(bucket: str, **fields: Any) -> Document:
    """The stream's configuration; `fields` are the API's, such as `max_msgs_per_subject` for the history."""
    max_age = fields.get("max_age", 0)
    config: Document = {
        "name": stream_of(bucket),
        "subjects": [f"$KV.{bucket}.>"],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        "duplicate_window": min(max_age or DUPLICATES_NS, DUPLICATES_NS),
        "num_replicas": 1,
    }
    return config | fields


class Bucket:
    """Raises ApiError (10059) when there is no such bucket."""

    def __init__(self, js: JetStream, name: str) -> None:
        self.name = name
        self.stream = stream_of(name)
        self._js = js
        self.info: StreamInfo = js.stream_info(self.stream)
        # Where keys stand, and where they are put: a mirror has those of its origin, and puts go there.
        origin = self.info.config.get("mirror") or {}
        key_bucket = str(origin.get("name", self.stream)).removeprefix("KV_")
        self._prefix = f"$KV.{key_bucket}."
        api = (origin.get("external") or {}).get("api", "")
        self._put_prefix = f"{api}.{self._prefix}" if api else self._prefix

    # -- one key ---

    def get(self, key: str, revision: int = 0) -> Entry:
        subject = self._prefix + check_key(key)
        try:
            found = find_message(self._js, self.stream, seq=revision, last_for="" if revision else subject)
        except ApiError as error:
            if error.code == NOT_FOUND:
                raise KeyNotFound(f"{self.name} has no key {key!r}") from None
            raise
        entry = self._entry(found)
        if found.subject != subject or entry.operation != PUT:
            raise KeyNotFound(f"{self.name} has no key {key!r}" + (f" at {revision}" if revision else ""))
        return entry

    def put(self, key: str, value: bytes) -> int:
        """The revision."""
        return self._publish(key, value, None)

    def create(self, key: str, value: bytes, *, ttl: str = "") -> int:
        """Only if there is no such key, or it was deleted."""
        headers = {EXPECTED: "0"} | ({TTL: ttl} if ttl else {})
        try:
            return self._publish(key, value, headers)
        except WrongRevision:
            last = self._last_of(key)
            if last is None or last.operation == PUT:
                raise WrongRevision(f"{self.name} has a key {key!r} already") from None
            return self._publish(key, value, headers | {EXPECTED: str(last.revision)})

    def update(self, key: str, value: bytes, revision: int) -> int:
        """Only if the key is still at that revision."""
        return self._publish(key, value, {EXPECTED: str(revision)})

    def delete(self, key: str, *, revision: int = 0) -> None:
        """What was there stays in the history."""
        self._publish(key, b"", {OPERATION: DELETE} | ({EXPECTED: str(revision)} if revision else {}))

    def purge(self, key: str, *, ttl: str = "") -> None:
        """The history goes, too."""
        self._publish(key, b"", {OPERATION: PURGE, ROLLUP: "sub"} | ({TTL: ttl} if ttl else {}))

    # -- many ---

    def keys(self, pattern: str = ">") -> Iterator[str]:
        for entry in self.entries(pattern, headers_only=True):
            if entry.operation == PUT:
                yield entry.key

    def history(self, key: str) -> list[Entry]:
        """Oldest first, with deletions."""
        return list(self.entries(check_key(key), policy="all"))

    def entries(
        self, pattern: str = ">", *, policy: str = "last_per_subject", headers_only: bool = False
    ) -> Iterator[Entry]:
        """What is there now."""
        reader = self._reader(pattern, policy, headers_only=headers_only)
        try:
            if not reader.initial_count:
                return
            for message in reader.messages():
                yield self._entry(message)
                if message.pending == 0:
                    return
        finally:
            reader.close()

    def watch(
        self, pattern: str = ">", *, policy: str = "last_per_subject", revision: int = 0
    ) -> Iterator[Entry | None]:
        """What is there, None when that was all, and then what comes, for ever.

        `policy`: "last_per_subject", "all" with history, "new" without what is there. `revision`: from there on.
        """
        reader = self._reader(pattern, policy, revision=revision)
        try:
            told = reader.initial_count == 0
            if told:
                yield None
            for message in reader.messages():
                yield self._entry(message)
                if message.pending == 0 and not told:
                    told = True
                    yield None
        finally:
            reader.close()

    def compact(self) -> int:
        """Take away what is left of deleted keys: history and markers. How many keys."""
        gone = [entry.key for entry in self.entries(headers_only=True) if entry.operation != PUT]
        for key in gone:
            self._js.purge_stream(self.stream, subject=self._prefix + key)
        return len(gone)

    def newest(self, pattern: str = ">") -> Iterator[Entry]:
        """All entries, newest first."""
        reader = StreamReader(self._js, self.stream, subject=self._prefix + pattern)
        return map(self._entry, reader.backward())

    # -- within ---

    def _reader(
        self, pattern: str, policy: str, *, headers_only: bool = False, revision: int = 0
    ) -> OrderedReader:
        config: Document = {"filter_subject": self._prefix + pattern, "deliver_policy": policy}
        if headers_only:
            config["headers_only"] = True
        if revision:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": revision}
        return OrderedReader(self._js, self.stream, **config)

    def _last_of(self, key: str) -> Entry | None:
        try:
            return self._entry(find_message(self._js, self.stream, last_for=self._prefix + key))
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _publish(self, key: str, value: bytes, headers: HeadersLike | None) -> int:
        try:
            return self._js.publish(self._put_prefix + check_key(key), value, headers=headers).seq
        except ApiError as error:
            if error.err_code in WRONG_SEQUENCE:
                raise WrongRevision(f"{self.name}, key {key!r}: {error.description}") from None
            raise

    def _entry(self, message: StoredMessage) -> Entry:
        operation = message.headers.get(OPERATION, [""])[0]
        if not operation and MARKER_REASON in message.headers:
            # Left by the server where a value ended by its age.
            operation = DELETE if message.headers[MARKER_REASON][0] == "Remove" else PURGE
        return Entry(
            self.name,
            message.subject.removeprefix(self._prefix),
            message.payload,
            message.seq,
            message.time,
            max(0, message.pending),
            operation or PUT,
        )


def buckets(js: JetStream) -> Iterator[StreamInfo]:
    return (info for info in js.streams("$KV.*.>") if info.name.startswith("KV_"))


def check_key(key: str) -> str:
    if not _KEY.fullmatch(key) or key.startswith(".") or key.endswith("."):
        raise ClientError(f"key {key!r}: letters, digits, `-/_=.` only, and no dot at an end")
    return key
