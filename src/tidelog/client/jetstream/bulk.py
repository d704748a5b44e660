"""Many messages of a stream at once, as columns: batched Direct Get without an object for each message.

    connection = connect(url, parser=Columns)
    bulk = BulkGet(connection)
    bulk.read("ORDERS", 1, max_count=1000)
    count, buffers = bulk.columns.take()

What it promises: one request is asked and its whole answer taken in; how it ended is in `columns.status`. What was
collected before an error must not be used: whoever asks again does so on a new connection.

What it does not do: pages, or patience; the caller knows how long to try.
"""

from datetime import datetime

import msgspec

from tidelog.base.errors import ApiError, NoResponders, Timeout
from tidelog.client.connection import DEFAULT_TIMEOUT_S, Connection
from tidelog.client.jetstream.columns import Columns
from tidelog.client.jetstream.direct import END_OF_BATCH, NOT_FOUND
from tidelog.client.message import NO_RESPONDERS

NO_END = (1 << 63) - 1


class BulkGet:
    """On a connection whose parser is a `Columns`. One request at a time."""

    def __init__(self, connection: Connection) -> None:
        assert isinstance(connection.parser, Columns), "connect with parser=Columns"
        self.columns = connection.parser
        self._connection = connection
        self._inbox = connection.new_inbox()
        self.columns.listen(connection.subscribe(self._inbox).sid)

    def read(
        self,
        stream: str,
        start_seq: int,
        *,
        max_count: int,
        max_size: int = 0,
        end_seq: int = NO_END,
        subject: str = "",
        start_time: datetime | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Messages from `start_seq` (or `start_time`) on that match `subject`, up to a count and a size.

        Those at or behind `end_seq` are counted and not collected.

        `timeout_s` is for each piece of the answer. That there are no messages is no error. Raises NoResponders when
        the stream does not allow Direct Get, ApiError, and what the connection raises.
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
        columns.end_seq = end_seq
        self._connection.publish(
            f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), reply=self._inbox
        )
        while not columns.status:
            if not self._connection.take_in(timeout_s):
                raise Timeout(f"stream {stream!r} sent nothing for {timeout_s:g} s")
        if columns.status == NO_RESPONDERS:
            raise NoResponders(f"nobody answers direct gets of stream {stream!r}: set allow_direct")
        if columns.status not in (END_OF_BATCH, NOT_FOUND):
            raise ApiError(columns.status, 0, columns.description)

    def pending(
        self, stream: str, start_seq: int, subject: str = "", *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> int:
        """How many messages from `start_seq` on match. Nothing is collected."""
        columns = self.columns
        self.read(stream, start_seq, max_count=1, end_seq=0, subject=subject, timeout_s=timeout_s)
        return 0 if columns.first_seq == 0 else columns.num_pending + 1
