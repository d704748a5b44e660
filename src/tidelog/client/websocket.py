"""The client's bytes in the binary frames of a websocket, one frame per write.

How it works: framing is the `websockets` library used without its I/O, on top of a SocketTransport. Its pings
and closes are answered while reading. No compression is offered: what is behind it is usually compressed or
small.
"""

import contextlib
import socket

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from tidelog.base.errors import Disconnected, Timeout
from tidelog.client.address import Address
from tidelog.client.transport import SocketTransport, left

_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class WebSocketTransport:
    """The same bytes in binary frames. Made by `open_websocket`."""

    def __init__(self, below: SocketTransport, protocol: ClientProtocol) -> None:
        self._below = below
        self._protocol = protocol
        self._unsent = b""
        # How many of the caller's bytes stand, framed, in `_unsent`: they may be called sent when it is
        # empty.
        self._framed_size = 0
        # What came in one burst with the end of the handshake.
        self._early = b""

    def read(self) -> bytes | None:
        self._push()
        if self._early:
            early, self._early = self._early, b""
            return early
        data = self._below.read()
        return None if data is None else self._take(data)

    def write(self, data: memoryview) -> int:
        if not self._framed_size:
            if self._protocol.state is not State.OPEN:
                raise Disconnected("the server closed the websocket")
            self._protocol.send_binary(data)
            self._collect()
            self._framed_size = len(data)
        if not self._push():
            return 0
        size, self._framed_size = self._framed_size, 0
        return size

    def wait(self, timeout_s: float | None, *, for_space: bool = False) -> bool:
        return bool(self._early) or self._below.wait(timeout_s, for_space=for_space or bool(self._unsent))

    def close(self) -> None:
        with contextlib.suppress(Disconnected):
            if self._protocol.state is State.OPEN and not self._unsent:
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
                self._collect()
                self._push()
        self._below.close()

    def open(self, address: Address, deadline: float) -> None:
        """The upgrade from HTTP."""
        self._protocol.send_request(self._protocol.connect())
        self._collect()
        while self._protocol.state is State.CONNECTING:
            self._push()
            if not self.wait(left(deadline)):
                raise Timeout(f"{address}: no websocket handshake in time")
            data = self._below.read()
            if data is not None:
                self._early += self._take(data) or b""
            if self._protocol.handshake_exc is not None:
                raise Disconnected(f"{address}: websocket handshake failed: {self._protocol.handshake_exc}")

    def _take(self, data: bytes | memoryview) -> bytes | None:
        self._protocol.receive_data(bytes(data))
        # Answers to the server's pings and to its close.
        self._collect()
        self._push()
        frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
        payload = b"".join(frame.data for frame in frames if frame.opcode in _DATA)
        if not payload and self._protocol.close_expected() and self._protocol.handshake_exc is None:
            raise Disconnected("the server closed the websocket")
        return payload or None

    def _collect(self) -> None:
        self._unsent += b"".join(self._protocol.data_to_send())

    def _push(self) -> bool:
        """True when everything framed so far has left."""
        if self._unsent:
            sent = self._below.write(memoryview(self._unsent))
            self._unsent = self._unsent[sent:]
        return not self._unsent


def open_websocket(sock: socket.socket, address: Address, deadline: float) -> WebSocketTransport:
    """The upgrade from HTTP. `sock` is closed when it fails."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    uri = parse_uri(f"{address.scheme}://{host}:{address.port}{address.path}")
    # Sizes are limited by NATS itself.
    transport = WebSocketTransport(SocketTransport(sock), ClientProtocol(uri, max_size=None))
    try:
        transport.open(address, deadline)
    except (Timeout, Disconnected):
        sock.close()
        raise
    return transport
