"""What a reader or writer of streams asks a server: their state, and their messages by Direct Get.

    connection = connect(url, parser=Columns)
    state = stream_state(connection, "ORDERS")
    direct = DirectGet(connection, "ORDERS")
    direct.read(state.first_seq, max_count=1000)
    count, buffers = direct.columns.take()

What it promises: a refusal of the server is raised as `ApiError` with the server's codes and words, a stream or a
whole JetStream that is not there as such. Nothing is repeated here; the caller knows what may be.

What it does not do: consumers; they need acknowledgements, and a reader by sequence needs none.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tidelog.base.errors import ClientError, NoResponders, Timeout
from tidelog.client.columns import Columns
from tidelog.client.connection import DEFAULT_TIMEOUT_S, Connection

API = "$JS.API"
# Answers of Direct Get: their end, and what says that there are no messages.
END_OF_BATCH = 204
NOT_FOUND = 404
NO_RESPONDERS = 503
# Err_code of the API: there is no such stream, no such message.
STREAM_NOT_FOUND = 10059
MESSAGE_NOT_FOUND = 10037


class ApiError(ClientError):
    """The server refused; `code` and `err_code` are its own."""

    def __init__(self, what: str, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{what}: {description} (error {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


@dataclass(frozen=True, slots=True)
class StreamState:
    """`created` tells a stream from another one of its name. `first_seq` is that of the next message when empty."""

    name: str
    created: str
    first_seq: int
    last_seq: int
    messages: int
    size: int
    config: dict[str, Any]

    @property
    def end_seq(self) -> int:
        """The sequence that the next message will have."""
        return self.last_seq + 1


def call(connection: Connection, subject: str, request: object = None, *, domain: str = "") -> dict[str, Any]:
    """A request to the JetStream API. Raises ApiError, and what the connection raises."""
    prefix = f"$JS.{domain}.API" if domain else API
    payload = b"" if request is None else msgspec.json.encode(request)
    try:
        message = connection.request(f"{prefix}.{subject}", payload)
    except NoResponders:
        raise ApiError(subject, NO_RESPONDERS, 0, "the server has no JetStream for this account") from None
    answer: dict[str, Any] = msgspec.json.decode(message.payload, type=dict[str, Any])
    if error := answer.get("error"):
        raise ApiError(subject, error["code"], error.get("err_code", 0), error.get("description", ""))
    return answer


def stream_state(connection: Connection, name: str) -> StreamState:
    return as_state(call(connection, f"STREAM.INFO.{name}"))


def as_state(info: dict[str, Any]) -> StreamState:
    state = info["state"]
    return StreamState(
        name=info["config"]["name"],
        created=info["created"],
        first_seq=max(1, state["first_seq"]),
        last_seq=state["last_seq"],
        messages=state["messages"],
        size=state["bytes"],
        config=info["config"],
    )


def stream_names(connection: Connection, subject: str = "") -> list[str]:
    """All streams, or those that take `subject`."""
    found: list[str] = []
    while True:
        request = {"offset": len(found)} | ({"subject": subject} if subject else {})
        answer = call(connection, "STREAM.NAMES", request)
        names = answer.get("streams") or []
        found += names
        if not names or len(found) >= answer.get("total", 0):
            return found


class DirectGet:
    """Batched Direct Get on one connection, whose parser is a `Columns`. One request at a time.

    After `read`, `columns` has what came; `columns.status` says how it ended.
    """

    def __init__(self, connection: Connection, stream: str) -> None:
        assert isinstance(connection.parser, Columns), "connect with parser=Columns"
        self.stream = stream
        self.columns = connection.parser
        self._connection = connection
        self._inbox = connection.new_inbox()
        self.columns.listen(connection.subscribe(self._inbox).sid)

    def read(
        self,
        start_seq: int,
        *,
        max_count: int,
        max_size: int = 0,
        subject: str = "",
        start_time: datetime | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Messages from `start_seq` (or `start_time`) on that match `subject`, up to a count and a size.

        `timeout_s` is for each piece of the answer. Raises Timeout, Disconnected, ServerError, or ApiError when the
        stream does not allow Direct Get; that there are no messages is no error.
        """
        request: dict[str, object] = {"batch": max_count}
        if start_time is None:
            request["seq"] = start_seq
        else:
            request["start_time"] = start_time
        if max_size:
            request["max_bytes"] = max_size
        # By time, a server wants to be told of which subjects.
        if subject or start_time is not None:
            request["next_by_subj"] = subject or ">"
        columns = self.columns
        columns.expect()
        target = f"{API}.DIRECT.GET.{self.stream}"
        self._connection.publish(target, msgspec.json.encode(request), reply=self._inbox)
        while not columns.status:
            if not self._connection.take_in(timeout_s):
                raise Timeout(f"stream {self.stream!r} sent nothing for {timeout_s:g} s")
        if columns.status not in (END_OF_BATCH, NOT_FOUND):
            words = columns.description
            if columns.status == NO_RESPONDERS:
                words = "nobody answers to Direct Get; is there such a stream, and does it have allow_direct?"
            raise ApiError(f"direct get from {self.stream!r}", columns.status, 0, words)

    def pending(self, start_seq: int, subject: str = "", *, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
        """How many messages from `start_seq` on match. `columns` must be empty, and are empty again."""
        columns = self.columns
        end_seq, columns.end_seq = columns.end_seq, 0
        try:
            self.read(start_seq, max_count=1, subject=subject, timeout_s=timeout_s)
        finally:
            columns.end_seq = end_seq
        return 0 if columns.first_seq == 0 else columns.num_pending + 1
