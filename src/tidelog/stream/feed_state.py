"""How far a stream has got with its sources: found again after a restart without reading everything.

    <stream>/sources.json     what came from which source before which of the stream's own sequences

The document is written when the stream is closed, and after many messages, but only when all that it speaks of is on
the medium. What came after it is in the headers of the messages, which are read from the newest one back until every
source was seen.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from tidelog.base import limits
from tidelog.base.errors import StorageError
from tidelog.base.instant import timestamp
from tidelog.stream.catalog import read_document, write_document
from tidelog.stream.publish import header_value

if TYPE_CHECKING:
    from tidelog.stream.stream import Stream

DOCUMENT = "sources.json"
VERSION = 1
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Of one source: the last message that came, and which stream of that name it was (empty: not known)."""

    seq: int
    identity: str = ""


class Document(msgspec.Struct):
    version: int
    next_seq: int
    places: dict[str, Place]


class Places:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.seen: dict[str, Place] = {}
        self.unsaid = 0
        self.said_seq = 0
        self.noted_seq = 0  # of the stream, when something came last
        self.found = False

    def note(self, name: str, place: Place) -> None:
        self.seen[name] = place
        self.noted_seq = self.stream.log.store.last_seq
        self.unsaid += 1

    def path(self) -> str:
        path = self.stream.account.paths.get(self.stream.name)
        return f"{path}/{DOCUMENT}" if path else ""

    def save_if_many(self) -> None:
        synced_seq = self.stream.log.committer.synced_seq
        if self.unsaid > limits.SOURCES_UNSAID or synced_seq - self.said_seq > limits.SOURCES_UNREAD:
            self.save(synced_seq)

    def save(self, synced_seq: int) -> None:
        """Write down how far it is, if all that came is on the medium, as everything up to `synced_seq` is."""
        path = self.path()
        if not path or self.noted_seq > synced_seq:
            return
        self.unsaid = 0
        self.said_seq = synced_seq
        document = Document(VERSION, synced_seq + 1, self.seen)
        try:
            write_document(self.stream.account.engine.disk, path, msgspec.json.encode(document))
        except StorageError as error:
            # Then more headers are read at the next start.
            self.stream.account.engine.log.warn(f"Sources of {self.stream.name} were not written: {error}")

    def find(self, wanted: set[str], *, afresh: bool) -> None:
        """How far those are that are wanted: once, as what comes later is noted.

        `afresh`: nothing has come from sources since the document was written, as the stream had none.
        """
        if self.found:
            return
        self.found = True
        document = self.read()
        self.said_seq = document.next_seq - 1 if document is not None else 0
        missing = wanted - self.seen.keys()
        if missing and not afresh and self.stream.log.store.last_seq > self.said_seq:
            for message in self.stream.with_header(b"\r\nNats-Stream-Source:", self.said_seq + 1, True):
                found = read_source(message.header)
                if found is not None and found[0] in missing:
                    missing.discard(found[0])
                    self.seen[found[0]] = found[1]
                    if not missing:
                        break
        if document is not None:
            self.seen = document.places | self.seen

    def read(self) -> Document | None:
        path = self.path()
        data = read_document(self.stream.account.engine.disk, path) if path else None
        if data is None:
            return None
        try:
            document = msgspec.json.decode(data, type=Document)
        except msgspec.MsgspecError:
            return None
        known = document.version == VERSION and document.next_seq <= self.stream.log.store.last_seq + 1
        return document if known else None


def read_source(header: bytes) -> tuple[str, Place] | None:
    """The name of a source and where it was, of a message that came from one."""
    parts = header_value(header, b"Nats-Stream-Source").decode("utf-8", "replace").split(" ")
    if len(parts) < 5 or not parts[1].isdecimal() or len(parts[1]) > 20:
        return None
    return f"{parts[0]} {parts[2]} {parts[3]}", Place(int(parts[1]), parts[5] if len(parts) > 5 else "")


def identity_of(created_ns: int) -> str:
    """Tells a stream from one of the same name that is made later."""
    return short_hash(timestamp(created_ns))


def short_hash(text: str) -> str:
    """Eight letters that stand for a text, as at the peer."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:8])
