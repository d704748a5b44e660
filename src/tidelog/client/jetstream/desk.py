"""Requests to the JetStream API: streams and consumers are made, described, changed and removed.

js = JetStream(connection)
js.create_stream({"name": "ORDERS", "subjects": ["orders.>"]})
js.publish("orders.new", b"42").seq

What it promises: every call is one request and its answer (lists are as many as there are pages). A refusal is
raised as ApiError with the server's code and words; a server without JetStream as NoResponders that says so.
Configurations are documents as the API has them, so that fields which this client has never heard of go through.

What it does not do: retry. Whoever repeats a request knows whether it may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.base.errors import NoResponders
from tidelog.client.connection import DEFAULT_TIMEOUT_S, Connection
from tidelog.client.jetstream.answer import (
    Answer,
    ConsumerInfo,
    Document,
    Kind,
    PauseAnswer,
    PubAck,
    PurgeAnswer,
    StreamInfo,
    convert,
    read_document,
)
from tidelog.client.jetstream.publish import Outgoing, publish, publish_batch
from tidelog.wire.header import HeadersLike


class JetStream:
    """JetStream of one account, through one connection. `domain` is another server's, reached through ours."""

    def __init__(
        self, connection: Connection, *, domain: str = "", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.connection = connection
        self.timeout_s = timeout_s
        self.prefix = f"$JS.{domain}.API" if domain else "$JS.API"
        # Whether direct gets can go backwards here; None until somebody wanted to know.
        self.reverses: bool | None = None

    # -- the desk ---

    def ask_document(self, name: str, request: Document | None = None) -> Document:
        """`name` is the subject without its prefix."""
        body = msgspec.json.encode(request) if request else b""
        try:
            answer = self.connection.request(f"{self.prefix}.{name}", body, timeout_s=self.timeout_s)
        except NoResponders:
            raise NoResponders(
                "the server has no JetStream for this account: start it with -js, or enable it in its configuration"
            ) from None
        return read_document(answer.payload)

    def ask(self, name: str, kind: type[Kind], request: Document | None = None) -> Kind:
        return convert(self.ask_document(name, request), kind)

    def _pages(self, name: str, key: str, request: Document) -> Iterator[Any]:
        """All entries of a list that comes in pages."""
        offset = 0
        while True:
            page = self.ask_document(name, {**request, "offset": offset})
            entries = page.get(key) or []
            yield from entries
            offset += len(entries)
            if not entries or offset >= page.get("total", 0):
                return

    def account_info(self) -> Document:
        return self.ask_document("INFO")

    # -- streams ---

    def create_stream(self, config: Document) -> StreamInfo:
        """A stream that exists with the same configuration is no error."""
        return self.ask(f"STREAM.CREATE.{config['name']}", StreamInfo, config)

    def update_stream(self, config: Document) -> StreamInfo:
        return self.ask(f"STREAM.UPDATE.{config['name']}", StreamInfo, config)

    def stream_info(
        self, name: str, *, subjects_filter: str = "", deleted_details: bool = False
    ) -> StreamInfo:
        """With a filter also how many messages each matching subject has, from all pages."""
        request: Document = {"subjects_filter": subjects_filter} if subjects_filter else {}
        if deleted_details:
            request["deleted_details"] = True
        info = self.ask(f"STREAM.INFO.{name}", StreamInfo, request)
        subjects = info.state.subjects
        while subjects and len(subjects) < info.total:
            more = self.ask(f"STREAM.INFO.{name}", StreamInfo, {**request, "offset": len(subjects)})
            if not more.state.subjects:
                break
            subjects |= more.state.subjects
        return info

    def stream_names(self, subject: str = "") -> Iterator[str]:
        """Of all streams, or of those that could store a message of a subject that `subject` matches."""
        return self._pages("STREAM.NAMES", "streams", {"subject": subject} if subject else {})

    def streams(self, subject: str = "") -> Iterator[StreamInfo]:
        request = {"subject": subject} if subject else {}
        return (convert(each, StreamInfo) for each in self._pages("STREAM.LIST", "streams", request))

    def delete_stream(self, name: str) -> None:
        self.ask_document(f"STREAM.DELETE.{name}")

    def purge_stream(self, name: str, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """How many messages went: all, those of `subject`, those before `seq`, or all but the last `keep`."""
        request: Document = {}
        for key, value in (("filter", subject), ("seq", seq), ("keep", keep)):
            if value:
                request[key] = value
        return self.ask(f"STREAM.PURGE.{name}", PurgeAnswer, request).purged

    def delete_message(self, stream: str, seq: int, *, erase: bool = True) -> None:
        self.ask_document(f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": not erase})

    # -- consumers ---

    def create_consumer(self, stream: str, config: Document, *, action: str = "") -> ConsumerInfo:
        """`action`: "create" refuses a consumer that exists, "update" one that does not."""
        request: Document = {"stream_name": stream, "config": config, "action": action}
        name = config.get("name") or config.get("durable_name")
        if not name:
            return self.ask(f"CONSUMER.CREATE.{stream}", ConsumerInfo, request)
        place = f"CONSUMER.CREATE.{stream}.{name}"
        if config.get("filter_subject"):
            place += f".{config['filter_subject']}"
        return self.ask(place, ConsumerInfo, request)

    def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        return self.ask(f"CONSUMER.INFO.{stream}.{name}", ConsumerInfo)

    def consumer_names(self, stream: str) -> Iterator[str]:
        return self._pages(f"CONSUMER.NAMES.{stream}", "consumers", {})

    def consumers(self, stream: str) -> Iterator[ConsumerInfo]:
        return (
            convert(each, ConsumerInfo) for each in self._pages(f"CONSUMER.LIST.{stream}", "consumers", {})
        )

    def delete_consumer(self, stream: str, name: str) -> None:
        self.ask_document(f"CONSUMER.DELETE.{stream}.{name}")

    def pause_consumer(self, stream: str, name: str, until: str = "") -> PauseAnswer:
        """`until` is RFC 3339; empty resumes."""
        request = {"pause_until": until} if until else None
        return self.ask(f"CONSUMER.PAUSE.{stream}.{name}", PauseAnswer, request)

    def reset_consumer(self, stream: str, name: str, seq: int = 0) -> Answer:
        """Deliver from `seq` on once more; 0: from the first that is not acknowledged."""
        return self.ask(f"CONSUMER.RESET.{stream}.{name}", Answer, {"seq": seq} if seq else None)

    # -- messages in ---

    def publish(
        self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None, msg_id: str = ""
    ) -> PubAck:
        """One message, and the stream's acknowledgement. `msg_id` makes a repetition harmless."""
        return publish(self.connection, Outgoing(subject, payload, headers, msg_id), self.timeout_s)

    def publish_batch(self, messages: list[Outgoing], batch_id: str = "") -> PubAck:
        """All of them or none (a stream with `allow_atomic`)."""
        return publish_batch(self.connection, messages, batch_id, self.timeout_s)
