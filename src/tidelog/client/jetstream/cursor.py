"""Cursors: named positions in a stream that Tidelog keeps durably (docs/reference/beyond-nats.md).

cursors = Cursors(js, "ORDERS")
cursors.set("billing", 42)
cursors.get("billing").seq

What it promises: when `set` returns, the position is on the medium. With `expected_revision` it changes only what
nobody else has changed meanwhile. Refusals are ApiErrors with the codes below. Other servers have no cursors:
NoResponders.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidelog.base.errors import ApiError, NoResponders
from tidelog.client.jetstream.answer import Answer, Document, convert, read_document
from tidelog.client.jetstream.desk import JetStream

NOT_FOUND, CONFLICT, BACKWARDS = 20002, 20003, 20004
PREFIX = "$TIDELOG.API.CURSOR"


class Cursor(msgspec.Struct):
    """`doubtful`: damage may have taken a newer value."""

    name: str
    seq: int
    revision: int
    stream: str = ""
    ts: str = ""
    doubtful: bool = False


class CursorAnswer(Answer, kw_only=True):
    cursor: Cursor


class CursorPage(Answer, kw_only=True):
    total: int = 0
    cursors: list[Cursor] | None = None


class Cursors:
    """Of one stream."""

    def __init__(self, js: JetStream, stream: str) -> None:
        self._js = js
        self._stream = stream

    def set(
        self, name: str, seq: int, *, expected_revision: int | None = None, rewind: bool = False
    ) -> Cursor:
        """`expected_revision` 0: there is none yet. Only with `rewind` it moves back."""
        request: Document = {"seq": seq}
        if expected_revision is not None:
            request["expected_revision"] = expected_revision
        if rewind:
            request["rewind"] = True
        return convert(self._ask(f"SET.{self._stream}.{name}", request), CursorAnswer).cursor

    def get(self, name: str) -> Cursor | None:
        try:
            return convert(self._ask(f"GET.{self._stream}.{name}"), CursorAnswer).cursor
        except ApiError as error:
            if error.err_code == NOT_FOUND:
                return None
            raise

    def all(self) -> Iterator[Cursor]:
        offset = 0
        while True:
            page = convert(self._ask(f"LIST.{self._stream}", {"offset": offset}), CursorPage)
            found = page.cursors or []
            yield from found
            offset += len(found)
            if not found or offset >= page.total:
                return

    def delete(self, name: str, *, expected_revision: int | None = None) -> None:
        request: Document = {} if expected_revision is None else {"expected_revision": expected_revision}
        self._ask(f"DELETE.{self._stream}.{name}", request)

    def _ask(self, place: str, request: Document | None = None) -> Document:
        body = msgspec.json.encode(request) if request else b""
        try:
            answer = self._js.connection.request(f"{PREFIX}.{place}", body, timeout_s=self._js.timeout_s)
        except NoResponders:
            raise NoResponders("the server keeps no cursors: Tidelog does") from None
        return read_document(answer.payload)
