"""Object stores (ADR-20): files of any size as chunks in a stream, each with a description.

store = ObjectStore(js, "images")
with open("logo.png", "rb") as file:
    store.put("logo.png", file)
store.get("logo.png", sys.stdout.buffer)

What it promises: the same streams, subjects and documents as other clients. An object appears when all of it is there;
`get` compares size and digest with what was put, and raises ObjectDamaged when they differ. Putting a name again takes
the old chunks away behind the new description.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec

from tidelog.base.errors import ApiError, ClientError
from tidelog.base.limits import KIB
from tidelog.client.jetstream.answer import Document, StreamInfo
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.direct import NOT_FOUND
from tidelog.client.jetstream.ordered import OrderedReader
from tidelog.client.jetstream.publish import Publisher
from tidelog.client.jetstream.read import find_message
from tidelog.client.jetstream.stored import StoredMessage

CHUNK_SIZE = 128 * KIB
# Chunks on their way: some MiB.
CHUNKS_WINDOW = 32
LINKS_MAX = 8
DIGEST = "SHA-256="
ROLLUP = {"Nats-Rollup": "sub"}
_NAME = re.compile(r"[a-zA-Z0-9_-]+")

Progress = Callable[[int], None]


class ObjectNotFound(ClientError):
    """The store has no such object, or it was deleted."""


class ObjectDamaged(ClientError):
    """What came is not what was put."""


class Link(msgspec.Struct, omit_defaults=True):
    bucket: str
    name: str = ""


class Options(msgspec.Struct, omit_defaults=True):
    max_chunk_size: int = 0
    link: Link | None = None


class ObjectInfo(msgspec.Struct, omit_defaults=True):
    name: str
    bucket: str = ""
    nuid: str = ""
    size: int = 0
    mtime: str = ""
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    description: str = ""
    headers: dict[str, list[str]] | None = None
    metadata: dict[str, str] | None = None
    options: Options | None = None

    def as_document(self) -> Document:
        # These are always told, as other clients do.
        told = {"bucket": self.bucket, "nuid": self.nuid, "size": self.size, "mtime": self.mtime}
        return {**msgspec.to_builtins(self), **told, "chunks": self.chunks}


def stream_of(bucket: str) -> str:
    if not _NAME.fullmatch(bucket):
        raise ClientError(f"object store {bucket!r}: a name has letters, digits, `-` and `_` only")
    return f"OBJ_{bucket}"


def store_config(bucket: str, **fields: Any) -> Document:
    """The stream's configuration; `fields` are the API's."""
    config: Document = {
        "name": stream_of(bucket),
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "num_replicas": 1,
    }
    return config | fields


class ObjectStore:
    """Raises ApiError (10059) when there is no such store."""

    def __init__(self, js: JetStream, name: str) -> None:
        self.name = name
        self.stream = stream_of(name)
        self.status: StreamInfo = js.stream_info(self.stream)
        self._js = js

    def put(
        self,
        name: str,
        source: IO[bytes],
        *,
        description: str = "",
        headers: dict[str, list[str]] | None = None,
        chunk_size: int = CHUNK_SIZE,
        progress: Progress = lambda _: None,
    ) -> ObjectInfo:
        if not name:
            raise ClientError("an object has a name")
        before = self._described(name)
        object_id = self._js.connection.new_inbox().rpartition(".")[2]
        subject = f"$O.{self.name}.C.{object_id}"
        publisher = Publisher(self._js.connection, window=CHUNKS_WINDOW, timeout_s=self._js.timeout_s)
        digest, size, chunks = hashlib.sha256(), 0, 0
        try:
            while chunk := source.read(chunk_size):
                digest.update(chunk)
                size, chunks = size + len(chunk), chunks + 1
                publisher.publish(subject, chunk)
                progress(size)
            publisher.flush()
        except ClientError:
            self._js.purge_stream(self.stream, subject=subject)
            raise
        finally:
            publisher.close()
        info = ObjectInfo(
            name,
            bucket=self.name,
            nuid=object_id,
            size=size,
            chunks=chunks,
            digest=DIGEST + urlsafe_b64encode(digest.digest()).decode(),
            description=description,
            headers=headers,
            options=Options(max_chunk_size=chunk_size),
        )
        self._describe(info)
        if before is not None and not before.deleted and before.nuid:
            self._js.purge_stream(self.stream, subject=f"$O.{self.name}.C.{before.nuid}")
        return info

    def get(self, name: str, target: IO[bytes], *, progress: Progress = lambda _: None) -> ObjectInfo:
        """Links are followed."""
        info = self.info(name)
        store = self
        for _ in range(LINKS_MAX):
            if info.options is None or info.options.link is None:
                break
            link = info.options.link
            if not link.name:
                raise ClientError(f"{name!r} is a link to the store {link.bucket!r}, and no object")
            store = self if link.bucket == store.name else ObjectStore(self._js, link.bucket)
            info = store.info(link.name)
        store._read_chunks(info, target, progress)
        return info

    def info(self, name: str) -> ObjectInfo:
        found = self._described(name)
        if found is None or found.deleted:
            raise ObjectNotFound(f"{self.name} has no object {name!r}")
        return found

    def delete(self, name: str) -> None:
        info = self.info(name)
        gone = ObjectInfo(name, bucket=self.name, nuid=info.nuid, deleted=True)
        self._describe(gone)
        self._js.purge_stream(self.stream, subject=f"$O.{self.name}.C.{info.nuid}")

    def objects(self) -> Iterator[ObjectInfo]:
        """What is there now."""
        for info in self.watch():
            if info is None:
                return
            if not info.deleted:
                yield info

    def watch(self) -> Iterator[ObjectInfo | None]:
        """What is there, deletions among it; None when that was all; and then what comes, for ever."""
        subject = f"$O.{self.name}.M.>"
        reader = OrderedReader(
            self._js, self.stream, filter_subject=subject, deliver_policy="last_per_subject"
        )
        try:
            told = reader.initial_count == 0
            if told:
                yield None
            for message in reader.messages():
                yield _read_info(message)
                if message.pending == 0 and not told:
                    told = True
                    yield None
        finally:
            reader.close()

    def seal(self) -> StreamInfo:
        """Nothing is put or deleted any more."""
        config = self._js.stream_info(self.stream).config
        return self._js.update_stream({**config, "sealed": True})

    # -- within ---

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self.name}.M.{urlsafe_b64encode(name.encode()).decode()}"

    def _described(self, name: str) -> ObjectInfo | None:
        try:
            return _read_info(find_message(self._js, self.stream, last_for=self._meta_subject(name)))
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _describe(self, info: ObjectInfo) -> None:
        document = msgspec.json.encode({**info.as_document(), "mtime": "0001-01-01T00:00:00Z"})
        self._js.publish(self._meta_subject(info.name), document, headers=ROLLUP)

    def _read_chunks(self, info: ObjectInfo, target: IO[bytes], progress: Progress) -> None:
        digest, size, chunks = hashlib.sha256(), 0, 0
        if info.chunks:
            subject = f"$O.{self.name}.C.{info.nuid}"
            reader = OrderedReader(self._js, self.stream, filter_subject=subject, deliver_policy="all")
            try:
                for message in reader.messages(idle_s=self._js.timeout_s):
                    digest.update(message.payload)
                    target.write(message.payload)
                    size, chunks = size + len(message.payload), chunks + 1
                    progress(size)
                    if chunks == info.chunks:
                        break
            finally:
                reader.close()
        if size != info.size or chunks != info.chunks:
            raise ObjectDamaged(f"{info.name!r} has {info.size} bytes in {info.chunks} chunks; {size} came")
        said = info.digest.removeprefix(DIGEST).rstrip("=")
        if said and said != urlsafe_b64encode(digest.digest()).decode().rstrip("="):
            raise ObjectDamaged(f"{info.name!r}: its digest is {info.digest}, that of what came differs")


def stores(js: JetStream) -> Iterator[StreamInfo]:
    return (info for info in js.streams("$O.*.C.>") if info.name.startswith("OBJ_"))


def _read_info(message: StoredMessage) -> ObjectInfo:
    try:
        info = msgspec.json.decode(message.payload, type=ObjectInfo)
    except msgspec.MsgspecError as error:
        raise ClientError(f"{message.subject}: not the description of an object: {error}") from error
    # Written by the server's clock, not by the client's.
    info.mtime = message.time
    return info
