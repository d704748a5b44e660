"""Websocket as a filter: HTTP handshake (`serve.upgrade`), then NATS bytes in binary frames.

Framing, masking rules, pings and the closing handshake are those of the `websockets` library, used without
its I/O (2 us per frame received, 1 us per frame sent). Frames mean nothing to NATS: a message may span or
share them, and both text and binary frames are taken.

Out: one binary frame per `send`. Browsers get frames of at most `WEBSOCKET_BROWSER_FRAME_SIZE`. With
compression every message stands alone (no context is kept between messages in either direction, so none
costs memory), and small ones stay as they are. A message is deflated as a whole and then cut into frames.

In: a frame is handed on when complete, so messages are bounded (`message_size`); the peer streams
uncompressed frames of any size, and bounds only compressed ones.

Imports websockets and h11, which takes longer than all of start-up: import this module only when a
websocket listener is wanted, after the listening sockets are bound.
"""

import zlib
from collections.abc import Sequence

from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from tidelog.base.limits import (
    WEBSOCKET_BROWSER_FRAME_SIZE,
    WEBSOCKET_COMPRESS_ABOVE_SIZE,
    WEBSOCKET_MESSAGE_PAYLOADS,
    WEBSOCKET_MESSAGE_SIZE_LEAST,
    WEBSOCKET_MESSAGE_SIZE_MOST,
)
from tidelog.serve.filter import CLIENT_CLOSED, PROTOCOL_VIOLATION, READ_ERROR, Bytes, FilterError
from tidelog.serve.upgrade import Opening, Refused, Upgrade, UpgradeRules

_CODE_BY_REASON = {
    CLIENT_CLOSED: CloseCode.NORMAL_CLOSURE,
    "Authentication Timeout": CloseCode.POLICY_VIOLATION,
    "Authentication Failure": CloseCode.POLICY_VIOLATION,
    "Authentication Expired": CloseCode.POLICY_VIOLATION,
    "Credentials Revoked": CloseCode.POLICY_VIOLATION,
    "Missing Account": CloseCode.POLICY_VIOLATION,
    "Slow Consumer (Pending Bytes)": CloseCode.POLICY_VIOLATION,
    "Slow Consumer (Write Deadline)": CloseCode.POLICY_VIOLATION,
    "Maximum Account Connections Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Connections Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Control Line Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Subscriptions Exceeded": CloseCode.POLICY_VIOLATION,
    "Parse Error": CloseCode.PROTOCOL_ERROR,
    PROTOCOL_VIOLATION: CloseCode.PROTOCOL_ERROR,
    "Bad Client Protocol Version": CloseCode.PROTOCOL_ERROR,
    "Maximum Message Payload Exceeded": CloseCode.MESSAGE_TOO_BIG,
    "Write Error": CloseCode.GOING_AWAY,
    READ_ERROR: CloseCode.GOING_AWAY,
    "Stale Connection": CloseCode.GOING_AWAY,
    "Server Shutdown": CloseCode.GOING_AWAY,
}

# The tail of a deflate block that a message leaves out (RFC 7692 §7.2.1).
_SYNC_TAIL_SIZE = 4


def close_code(reason: str) -> CloseCode:
    """Status code of the close frame for a closed reason of /connz."""
    return _CODE_BY_REASON.get(reason, CloseCode.INTERNAL_ERROR)


def message_size(max_payload: int) -> int:
    """The largest message taken from a client, before and after decompression."""
    wanted = max(max_payload * WEBSOCKET_MESSAGE_PAYLOADS, WEBSOCKET_MESSAGE_SIZE_LEAST)
    # A payload of the greatest allowed size must pass, whatever it is.
    return max(min(wanted, WEBSOCKET_MESSAGE_SIZE_MOST), max_payload + WEBSOCKET_MESSAGE_SIZE_LEAST)


class _Deflate(PerMessageDeflate):
    """Inflates what comes in. What goes out is deflated already: its first frame only has to say so."""

    def __init__(self) -> None:
        super().__init__(True, True, zlib.MAX_WBITS, zlib.MAX_WBITS)
        self.deflated = False

    def encode(self, frame: Frame) -> Frame:
        if self.deflated and frame.opcode is Opcode.BINARY:
            return Frame(frame.opcode, frame.data, frame.fin, rsv1=True)
        return frame


class WebsocketFilter:
    """The server's side of one websocket connection."""

    def __init__(self, rules: UpgradeRules, max_payload: int) -> None:
        # What the client's request said; None until the handshake is over.
        self.upgrade: Upgrade | None = None
        self._opening = Opening(rules)
        self._answer = b""
        self._refused = False
        self._protocol = ServerProtocol(state=State.OPEN, max_size=message_size(max_payload))
        self._deflate: _Deflate | None = None

    @property
    def established(self) -> bool:
        return self.upgrade is not None

    def receive(self, data: Bytes) -> list[Bytes]:
        if self.upgrade is None:
            self._open(data)
            return []
        protocol = self._protocol
        if protocol.state is not State.OPEN:
            # Goodbye was said; what comes now is for nobody.
            return []
        # Typed as bytes; it appends whatever is a buffer to its own.
        protocol.receive_data(data)  # type: ignore[arg-type]
        parts: list[Bytes] = [
            event.data
            for event in protocol.events_received()
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)
        ]
        if len(parts) > 1:
            parts = [b"".join(parts)]
        if protocol.state is not State.OPEN:
            raise self._ended(parts)
        return parts

    def _open(self, data: Bytes) -> None:
        if self._refused:
            return
        try:
            upgrade = self._opening.receive(data)
        except Refused as refused:
            self._refused = True
            self._answer = refused.answer
            raise FilterError(PROTOCOL_VIOLATION, str(refused)) from refused
        if upgrade is None:
            return
        self._answer = upgrade.answer
        if upgrade.compress:
            self._deflate = _Deflate()
            self._protocol.extensions = [self._deflate]
        self.upgrade = upgrade
        del self._opening

    def _ended(self, parts: list[Bytes]) -> FilterError:
        error = self._protocol.parser_exc
        if error is None:
            return FilterError(CLIENT_CLOSED, quiet=True, parts=parts)
        return FilterError(READ_ERROR, f"read error: {error}", parts=parts)

    def send(self, parts: Sequence[Bytes]) -> None:
        assert self.upgrade is not None, "nothing may be sent before the handshake is over"
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if not data or self._protocol.state is not State.OPEN:
            return
        upgrade = self.upgrade
        if self._deflate is not None and len(data) > WEBSOCKET_COMPRESS_ABOVE_SIZE:
            self._send_deflated(self._deflate, data, cut=upgrade.browser and not upgrade.whole_compressed)
        elif upgrade.browser:
            view = memoryview(data)
            for start in range(0, len(view), WEBSOCKET_BROWSER_FRAME_SIZE):
                self._protocol.send_binary(view[start : start + WEBSOCKET_BROWSER_FRAME_SIZE])
        else:
            self._protocol.send_binary(data)

    def _send_deflated(self, deflate: _Deflate, data: Bytes, *, cut: bool) -> None:
        compressor = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS)
        packed = memoryview(compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[
            :-_SYNC_TAIL_SIZE
        ]
        limit = WEBSOCKET_BROWSER_FRAME_SIZE if cut else len(packed)
        deflate.deflated = True
        self._protocol.send_binary(packed[:limit], fin=len(packed) <= limit)
        for start in range(limit, len(packed), limit):
            end = start + limit
            self._protocol.send_continuation(packed[start:end], fin=end >= len(packed))
        deflate.deflated = False

    def take(self) -> list[bytes]:
        # The library marks the end of the stream by an empty part; closing the socket is the connection's
        # affair.
        parts = [part for part in self._protocol.data_to_send() if part]
        if self._answer:
            parts.insert(0, self._answer)
            self._answer = b""
        return parts

    def close(self, reason: str) -> None:
        if self.upgrade is not None and self._protocol.state is State.OPEN:
            self._protocol.send_close(close_code(reason), reason)

    def end(self) -> FilterError:
        if self.upgrade is None:
            return FilterError(CLIENT_CLOSED, "websocket handshake error: EOF", quiet=True)
        return FilterError(CLIENT_CLOSED, quiet=True)
