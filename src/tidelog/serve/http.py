"""HTTP/1.1 for the monitor: GET and HEAD, kept connections, nothing else.

Promises: a handler sees whole requests only, one per connection and loop turn, and may answer in slices, so
that neither a burst of pipelined requests nor a large document holds up the broker; size, time and number of
connections are bounded by the `HTTP_*` limits; a handler that raises answers 500 and is logged; answers carry
no more than the handler gave, a date and a length.

How it works: `HttpServer` listens with `loop.create_server` on a socket that is bound already, one `HttpPeer`
per connection turns bytes into requests with h11 and answers into bytes. While the peer does not read, it is
not read from either.

It knows no routes, no compression, no uploads and no streaming: documents are built whole.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, unquote

from tidelog.base import limits
from tidelog.base.clock import Clock
from tidelog.serve.log import Logger

if TYPE_CHECKING:
    from h11 import Request as RequestHead

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """`query` holds the first value of each option, as Go's `Query().Get` reads them."""

    method: str
    path: str
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


# An answer that takes long is made in slices: it yields where others may have the loop, and returns the
# response.
Work = Generator[None, None, Response]
Handler = Callable[[Request], Response | Work]

REASONS = {
    200: b"OK",
    307: b"Temporary Redirect",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def read_target(method: bytes, target: bytes) -> Request:
    """The target as the request line has it: a path, or a whole URL when a proxy is talked to."""
    text = target.decode("latin-1")
    if not text.startswith("/") and "://" in text:
        text = "/" + text.split("://", 1)[1].partition("/")[2]
    path, _, query = text.partition("?")
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        options.setdefault(key, value)
    return Request(method.decode("latin-1"), unquote(path), options)


class HttpPeer(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: "HttpServer") -> None:
        import h11  # not needed before somebody looks

        self.h11 = h11
        self.server = server
        self.connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HTTP_HEAD_SIZE)
        self.request: RequestHead | None = None
        self.body_size = 0
        self.transport: asyncio.Transport | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.idle = False
        self.blocked = False
        self.scheduled = False
        self.work: Work | None = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if len(self.server.peers) >= self.server.connections_max:
            self.transport.write(BUSY)
            self.transport.close()
            return
        self.server.peers.add(self)
        self.arm(limits.HTTP_HEAD_TIME_S)

    def connection_lost(self, _error: Exception | None) -> None:
        self.disarm()
        self.transport = None
        self.server.peers.discard(self)
        if self.work is not None:
            self.work.close()

    def data_received(self, data: bytes) -> None:
        if self not in self.server.peers:
            return
        if self.idle:
            self.idle = False
            self.arm(limits.HTTP_HEAD_TIME_S)
        self.connection.receive_data(data)
        self.advance()

    def eof_received(self) -> bool:
        if self in self.server.peers:
            self.connection.receive_data(b"")
            self.advance()
        return False

    def pause_writing(self) -> None:
        self.blocked = True
        if self.transport is not None:
            self.transport.pause_reading()
        self.arm(limits.HTTP_WRITE_TIME_S)

    def resume_writing(self) -> None:
        self.blocked = False
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            self.arm(limits.HTTP_IDLE_TIME_S)
            self.schedule()

    # What it does with it.

    def advance(self) -> None:
        """Take events until more bytes are needed or one request is answered."""
        self.scheduled = False
        if self.work is not None:
            self.go_on()
            return
        while self.transport is not None and not self.blocked and not self.transport.is_closing():
            try:
                event = self.connection.next_event()
            except self.h11.RemoteProtocolError as error:
                self.refuse(error.error_status_hint, str(error))
                return
            if event is self.h11.NEED_DATA or event is self.h11.PAUSED:
                return
            if isinstance(event, self.h11.Request):
                self.request = event
                self.body_size = 0
            elif isinstance(event, self.h11.Data):
                self.body_size += len(event.data)
                if self.body_size > limits.HTTP_BODY_SIZE:
                    self.refuse(413, "request body too large")
                    return
            elif isinstance(event, self.h11.EndOfMessage):
                self.answer()
                return
            else:  # the peer has closed its side
                self.transport.close()
                return

    def answer(self) -> None:
        assert self.request is not None
        request = read_target(self.request.method, self.request.target)
        if request.method not in ("GET", "HEAD"):
            self.finish(Response(405, b"method not allowed\n", headers=(("Allow", "GET, HEAD"),)))
            return
        answer = self.server.respond(request)
        if isinstance(answer, Response):
            self.finish(answer)
            return
        self.work = answer
        self.disarm()
        self.go_on()

    def go_on(self) -> None:
        """One slice of the answer."""
        assert self.work is not None
        if self.transport is None or self.transport.is_closing():
            return
        response = self.server.slice(self.work)
        if response is None:
            self.schedule()
            return
        self.work = None
        self.finish(response)

    def finish(self, response: Response) -> None:
        assert self.request is not None
        self.send(response, head_only=self.request.method == b"HEAD")
        if self.connection.our_state is not self.h11.DONE or self.connection.their_state is not self.h11.DONE:
            self.close()
            return
        self.connection.start_next_cycle()
        self.idle = not self.connection.trailing_data[0]
        if not self.blocked:
            self.arm(limits.HTTP_IDLE_TIME_S if self.idle else limits.HTTP_HEAD_TIME_S)
            self.schedule()

    def refuse(self, status: int, text: str) -> None:
        """A request that cannot be understood ends the connection."""
        if self.connection.our_state in (self.h11.IDLE, self.h11.SEND_RESPONSE):
            self.send(Response(status, text.encode() + b"\n", headers=(("Connection", "close"),)))
        self.close()

    def send(self, response: Response, head_only: bool = False) -> None:
        headers = [
            ("Content-Type", response.content_type),
            ("Date", self.server.date()),
            ("Content-Length", str(len(response.body))),
            *response.headers,
        ]
        reason = REASONS.get(response.status, b"")
        head = self.h11.Response(status_code=response.status, headers=headers, reason=reason)
        parts = [self.connection.send(head)]
        if not head_only:
            parts.append(self.connection.send(self.h11.Data(data=response.body)))
        parts.append(self.connection.send(self.h11.EndOfMessage()))
        assert self.transport is not None
        self.transport.write(b"".join(part for part in parts if part))

    def schedule(self) -> None:
        """The next request, if it is here already, gets its own loop turn."""
        if not self.scheduled:
            self.scheduled = True
            self.server.loop.call_soon(self.advance)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
            self.arm(limits.HTTP_WRITE_TIME_S)

    def arm(self, after_s: float) -> None:
        self.disarm()
        self.timer = self.server.loop.call_later(after_s, self.expire)

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def expire(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class HttpServer:
    """Listens, and answers with what `handler` says."""

    def __init__(
        self, handler: Handler, log: Logger, clock: Clock, *, connections_max: int = limits.HTTP_CONNECTIONS
    ) -> None:
        self.handler = handler
        self.log = log
        self.clock = clock
        self.connections_max = connections_max
        self.peers: set[HttpPeer] = set()
        self.listeners: list[asyncio.Server] = []
        self.loop: asyncio.AbstractEventLoop = cast(asyncio.AbstractEventLoop, None)
        self.date_second = -1
        self.date_text = ""

    async def listen(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a bound socket; may be called for more than one (http and https)."""
        self.loop = asyncio.get_running_loop()
        listener = await self.loop.create_server(
            lambda: HttpPeer(self),
            sock=sock,
            ssl=tls,
            ssl_handshake_timeout=limits.HTTP_HEAD_TIME_S if tls is not None else None,
        )
        self.listeners.append(listener)

    def close(self) -> None:
        """Stop listening and drop whoever is connected."""
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()
        for peer in list(self.peers):
            peer.expire()

    def respond(self, request: Request) -> Response | Work:
        try:
            return self.handler(request)
        except Exception as error:  # noqa: BLE001 - the supervisor of a connection
            return self.failed(error)

    def slice(self, work: Work) -> Response | None:
        """None: there is more to do."""
        try:
            next(work)
        except StopIteration as done:
            response: Response = done.value
            return response
        except Exception as error:  # noqa: BLE001 - the supervisor of a connection
            return self.failed(error)
        return None

    def failed(self, error: Exception) -> Response:
        self.log.error(f"Monitoring request failed: {type(error).__name__}: {error}")
        return Response(500, b"internal server error\n")

    def date(self) -> str:
        second = self.clock.now_ns() // 1_000_000_000
        if second != self.date_second:
            self.date_second = second
            self.date_text = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(second))
        return self.date_text
