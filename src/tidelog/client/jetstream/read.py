"""Reading what a stream holds, from any point, in both directions, without a consumer.

reader = StreamReader(js, "ORDERS", subject="orders.*.created")
reader.page(seq=1, count=100)                  # a page, oldest first
reader.backward(count=10)                      # the newest ten, newest first
reader.backward(seq=5_000, stop_seq=4_000)

What it promises: messages come in order, each once, and only those that match. A backward read covers what was
stored when it began: messages that come later are not in it. Both kinds of read work on every server with
JetStream; Tidelog reads backwards from an index, so that a page costs the same wherever it lies.

How it works: forwards, batched direct gets, or STREAM.MSG.GET one by one where the stream has no `allow_direct`.
Backwards on Tidelog, batched direct gets with `reverse`. On other servers, windows of sequences before the point, each
read forwards and turned round; windows grow where few messages match.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.base.errors import ApiError, NoResponders
from tidelog.base.instant import instant_ns, read_instant, timestamp
from tidelog.client.jetstream.answer import Document
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.direct import NOT_FOUND, Page, get_batch, get_one, get_slowly
from tidelog.client.jetstream.stored import StoredMessage

# Messages of one request: a few hundred of usual size stay below what a server sends without a pause.
PAGE_COUNT = 256
# Windows of the fallback: the first one, and by how much one grows in which little was found.
WINDOW_COUNT = 256
WINDOW_GROWTH = 8
BAD_REQUEST = 408


class StreamReader:
    def __init__(self, js: JetStream, stream: str, *, subject: str = "") -> None:
        self._js = js
        self._stream = stream
        self._subject = subject
        # None until the first read has shown it.
        self._direct: bool | None = None

    # -- forwards ---

    def page(self, *, seq: int = 1, start_time: str = "", count: int = PAGE_COUNT) -> Page:
        """Up to `count` messages from a sequence, or from a time, on."""
        request = self._place(seq, start_time)
        if self._direct is not False:
            try:
                page = get_batch(self._js, self._stream, {**request, "batch": count})
            except NoResponders:
                # Also what a stream that does not exist says; the API tells the two apart.
                self._js.stream_info(self._stream)
                self._direct = False
            else:
                self._direct = True
                return page
        return Page(list(self._one_by_one(request, count)))

    def forward(
        self,
        *,
        seq: int = 1,
        start_time: str = "",
        count: int | None = None,
        stop_seq: int | None = None,
        page_count: int = PAGE_COUNT,
    ) -> Iterator[StoredMessage]:
        """All that is there from a point on, oldest first; what comes meanwhile is read, too."""
        while count is None or count > 0:
            wanted = page_count if count is None else min(count, page_count)
            page = self.page(seq=seq, start_time=start_time, count=wanted)
            for message in page.messages:
                if stop_seq is not None and message.seq > stop_seq:
                    return
                yield message
            if not page.messages or page.pending == 0:
                return
            seq, start_time = page.messages[-1].seq + 1, ""
            count = None if count is None else count - len(page.messages)

    def _place(self, seq: int, start_time: str) -> Document:
        request: Document = {"start_time": start_time} if start_time else {"seq": max(1, seq)}
        if self._subject:
            request["next_by_subj"] = self._subject
        return request

    def _one_by_one(self, request: Document, count: int) -> Iterator[StoredMessage]:
        request = {"next_by_subj": ">", **request}
        for _ in range(count):
            try:
                message = get_slowly(self._js, self._stream, request)
            except ApiError as error:
                if error.code == NOT_FOUND:
                    return
                raise
            yield message
            request = {"next_by_subj": request["next_by_subj"], "seq": message.seq + 1}

    # -- backwards ---

    def backward(
        self,
        *,
        seq: int | None = None,
        end_time: str = "",
        count: int | None = None,
        stop_seq: int = 1,
        page_count: int = PAGE_COUNT,
    ) -> Iterator[StoredMessage]:
        """Newest first: from the end, from the greatest sequence up to `seq`, or from what came up to `end_time`."""
        if self._js.reverses is None and self._direct is not False:
            self._probe()
        if self._js.reverses and self._direct is not False:
            yield from self._reversed(seq, end_time, count, stop_seq, page_count)
        else:
            yield from self._by_windows(seq, end_time, count, stop_seq)

    def _probe(self) -> None:
        """Other servers call the fields of a reverse read a contradiction. Without `allow_direct` nobody answers."""
        try:
            get_batch(self._js, self._stream, {"last_by_subj": ">", "batch": 1, "reverse": True})
            self._js.reverses = True
        except NoResponders:
            self._js.stream_info(self._stream)
            self._direct = False
        except ApiError as error:
            if error.code != BAD_REQUEST:
                raise
            self._js.reverses = False

    def _reversed(
        self, seq: int | None, end_time: str, count: int | None, stop_seq: int, page_count: int
    ) -> Iterator[StoredMessage]:
        request: Document = {"reverse": True, "stop_seq": max(1, stop_seq)}
        if seq is not None:
            # There is one anchor for each request.
            request["seq"] = min(seq, self._last_up_to(end_time)) if end_time else seq
        elif end_time:
            request["end_time"] = end_time
        else:
            request["last_by_subj"] = self._subject or ">"
        while count is None or count > 0:
            wanted = page_count if count is None else min(count, page_count)
            if self._subject and "last_by_subj" not in request:
                request["prev_by_subj"] = self._subject
            if request.get("seq") == 0:
                return
            page = get_batch(self._js, self._stream, {**request, "batch": wanted})
            yield from page.messages
            if not page.messages or page.pending == 0 or page.messages[-1].seq <= stop_seq:
                return
            request = {"reverse": True, "stop_seq": request["stop_seq"], "seq": page.messages[-1].seq - 1}
            count = None if count is None else count - len(page.messages)

    def _by_windows(
        self, seq: int | None, end_time: str, count: int | None, stop_seq: int
    ) -> Iterator[StoredMessage]:
        state = self._js.stream_info(self._stream).state
        upper = state.last_seq if seq is None else min(seq, state.last_seq)
        if end_time:
            upper = min(upper, self._last_up_to(end_time))
        lower, size, given = max(1, stop_seq, state.first_seq), WINDOW_COUNT, 0
        while upper >= lower and (count is None or given < count):
            start = max(lower, upper - size + 1)
            found = list(self.forward(seq=start, stop_seq=upper))
            for message in reversed(found):
                yield message
                given += 1
                if given == count:
                    return
            upper = start - 1
            size = size * WINDOW_GROWTH if len(found) < WINDOW_COUNT // 2 else WINDOW_COUNT

    def _last_up_to(self, end_time: str) -> int:
        """The last sequence that was stored up to a time; many may have been at that very time."""
        behind = timestamp(instant_ns(read_instant(end_time)) + 1)
        later = StreamReader(self._js, self._stream).page(start_time=behind, count=1).messages
        return later[0].seq - 1 if later else self._js.stream_info(self._stream).state.last_seq


def find_message(js: JetStream, stream: str, *, seq: int = 0, last_for: str = "") -> StoredMessage:
    """One message by its sequence, or the last one on a subject; works on every stream. ApiError 404: none."""
    request: Document = {"last_by_subj": last_for} if last_for else {"seq": seq}
    try:
        return get_one(js, stream, request)
    except NoResponders:
        return get_slowly(js, stream, request)
