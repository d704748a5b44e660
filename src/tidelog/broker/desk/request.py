"""One request to the API, and how handlers describe what they answer.

A handler takes a `Request` and returns the parts of its answer, structs that are put into one JSON object behind its
type; or it raises `ApiFailure`; or it returns `LATER` and calls `request.answer` or `request.refuse` when it knows.

An `Entry` says which requests a handler takes: `pattern` is what stands behind `$JS.API.` (or `$TIDELOG.API.`), `kind`
the type of the answer, and `zero` the parts that stand in a refusal, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from tidelog.broker.session import Session
from tidelog.stream import failure
from tidelog.stream.account import AccountStreams
from tidelog.stream.failure import ApiError, ApiFailure
from tidelog.stream.stream import Stream
from tidelog.stream.strict import InvalidJson, decode, is_empty

if TYPE_CHECKING:
    from tidelog.broker.desk.desk import AccountDesk, Desk

TYPE_PREFIX = "io.nats.jetstream.api.v1."

S = TypeVar("S", bound=msgspec.Struct)
Parts = msgspec.Struct | tuple[msgspec.Struct, ...]


class Later:
    """The answer comes later."""


LATER: Final = Later()
Handler = Callable[["Request"], Parts | Later]


@dataclass(frozen=True, slots=True)
class Entry:
    pattern: str
    kind: str
    handler: Handler
    zero: tuple[msgspec.Struct, ...] = ()
    noted: bool = True  # is counted and told of, when it succeeds
    prefix: str = TYPE_PREFIX  # of `kind`


class Head(msgspec.Struct, omit_defaults=True):
    """What every answer begins with."""

    type: str = msgspec.field(default_factory=str)
    error: ApiError | None = None


class Done(msgspec.Struct, omit_defaults=True):
    """It was done as asked."""

    success: bool = False


DONE: Final = Done(success=True)


def joined(*parts: msgspec.Struct) -> bytes:
    """Several structs as one JSON object."""
    inner = [msgspec.json.encode(part)[1:-1] for part in parts]
    return b"{" + b",".join(text for text in inner if text) + b"}"


class Request:
    def __init__(
        self,
        account: AccountDesk,
        entry: Entry,
        subject: str,
        reply: bytes | None,
        header: bytes,
        body: bytes,
        session: Session | None,
    ) -> None:
        self.account = account
        self.entry = entry
        self.subject = subject
        # What stands behind `$JS.API.`.
        self.tokens = subject.split(".")[2:]
        self.reply = reply
        self.header = header
        self.body = body
        self.session = session

    @property
    def desk(self) -> Desk:
        return self.account.desk

    @property
    def streams(self) -> AccountStreams:
        """The streams of the account. Raises ApiFailure if it may have none."""
        if self.account.streams is None:
            raise failure.NOT_ENABLED_FOR_ACCOUNT()
        return self.account.streams

    # ---- what is asked ----

    def decode(self, kind: type[S]) -> S:
        """The body, strictly."""
        try:
            return decode(self.body, kind, strict=self.desk.settings.strict)
        except InvalidJson as error:
            self.desk.tell_invalid(self.account.account.name, self.subject, str(error))
            raise failure.INVALID_JSON(err=str(error)) from None

    def decode_if_any(self, kind: type[S]) -> S:
        """The same where a body that is no JSON object counts as none."""
        return self.decode(kind) if self.body.lstrip()[:1] in (b"{", b"[") else kind()

    def decode_required(self, kind: type[S]) -> S:
        if is_empty(self.body):
            raise failure.BAD_REQUEST()
        return self.decode(kind)

    def expect_empty(self) -> None:
        if not is_empty(self.body):
            raise failure.NOT_EMPTY_REQUEST()

    def stream(self, place: int = 2) -> Stream:
        """The stream that is named at this place of the tokens."""
        return self.streams.find(self.tokens[place])

    # ---- what is answered ----

    def answer(self, parts: Parts) -> None:
        parts = parts if isinstance(parts, tuple) else (parts,)
        self.account.send(self, joined(Head(self.entry.prefix + self.entry.kind), *parts), failed=False)

    def refuse(self, refused: ApiFailure) -> None:
        head = Head(self.entry.prefix + self.entry.kind, refused.error)
        self.account.send(self, joined(head, *self.entry.zero), failed=True)
