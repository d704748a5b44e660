"""Direct gets: messages of a stream as they are, without the API's documents, one or a batch of them.

What it promises: messages come in the order of the request; a batch that cannot be told from a whole one (no end in
time) raises. A stream without `allow_direct` has nobody who answers: that is NoResponders.

What it does not do: more than one page. `read` walks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import msgspec

from tidelog.base.errors import ApiError, NoResponders, Timeout
from tidelog.client.jetstream.answer import Document, MessageAnswer
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.stored import PENDING, StoredMessage, from_direct, from_form
from tidelog.client.message import Message

END_OF_BATCH = 204
NOT_FOUND = 404
# Error code of "no message found", also given to what a direct get does not find.
NO_MESSAGE = 10037


@dataclass(slots=True)
class Page:
    """`pending`: how many more match behind the last one; -1 when the server does not say."""

    messages: list[StoredMessage] = field(default_factory=list)
    pending: int = -1


def get_one(js: JetStream, stream: str, request: Document) -> StoredMessage:
    """By `{"seq": n}`, `{"last_by_subj": s}` or the like. Raises ApiError (404) when there is none."""
    answer = js.connection.request(
        f"{js.prefix}.DIRECT.GET.{stream}", msgspec.json.encode(request), timeout_s=js.timeout_s
    )
    return _message_of(answer)


def get_last(js: JetStream, stream: str, subject: str) -> StoredMessage:
    """The last one on a subject; with the subject in the request's own, permissions can be given for it."""
    answer = js.connection.request(f"{js.prefix}.DIRECT.GET.{stream}.{subject}", timeout_s=js.timeout_s)
    return _message_of(answer)


def get_batch(js: JetStream, stream: str, request: Document) -> Page:
    """What `request` (with `batch`) asks for. Nothing found is an empty page."""
    connection = js.connection
    inbox = connection.subscribe(reply := connection.new_inbox())
    connection.publish(f"{js.prefix}.DIRECT.GET.{stream}", msgspec.json.encode(request), reply=reply)
    deadline = time.monotonic() + js.timeout_s
    page = Page()
    try:
        while True:
            for message in inbox.next_batch(1024, deadline - time.monotonic()):
                if not message.payload and (status := message.status):
                    if status == END_OF_BATCH:
                        page.pending = int(message.headers.get(PENDING, ["-1"])[0])
                    elif status == NOT_FOUND:
                        page.pending = 0
                    else:
                        raise _refusal(message)
                    return page
                page.messages.append(from_direct(message))
            # Patience is for the next message, not for all of them.
            deadline = time.monotonic() + js.timeout_s
    except Timeout:
        raise Timeout(
            f"a batch of {stream!r} did not end within {js.timeout_s:g} s of its last message"
        ) from None
    finally:
        inbox.unsubscribe()


def get_slowly(js: JetStream, stream: str, request: Document) -> StoredMessage:
    """The same as `get_one` through the API, which answers for every stream. Knows `next_by_subj`, too."""
    return from_form(js.ask(f"STREAM.MSG.GET.{stream}", MessageAnswer, request).message)


def _message_of(answer: Message) -> StoredMessage:
    if not answer.payload and answer.status:
        raise _refusal(answer)
    return from_direct(answer)


def _refusal(answer: Message) -> ApiError | NoResponders:
    if answer.is_no_responders:
        return NoResponders("nobody answers direct gets of this stream: set allow_direct")
    if answer.status == NOT_FOUND:
        return ApiError(NOT_FOUND, NO_MESSAGE, "no message found")
    return ApiError(answer.status, 0, answer.description)
