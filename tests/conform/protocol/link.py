"""One raw connection to a server: bytes out, bytes in, nothing understood but where a frame ends.

A `Link` never waits without a deadline, and never waits for time: only for frames, for the close, or until
the other side has read what was sent.
"""

import base64
import contextlib
import os
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Callable

from conform.protocol import frame

WEBSOCKET_KEY = base64.b64encode(bytes(range(16))).decode()
MASK = b"\x01\x02\x03\x04"
TCP_TABLE = "/proc/net/tcp"


class Link:
    """`speaks` is what received bytes are taken for: `nats`, `raw`, or after its handshake `websocket`."""

    def __init__(self, port: int, speaks: str, patience_s: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = port
        self.speaks = speaks
        self.patience_s = patience_s
        self.unsent = bytearray()
        self.handshake = b""
        self.controls: list[str] = []
        self.frames: list[bytes] = []
        self.awaited = 0
        self.closed = False
        self.given_up = False
        self._rest = b""
        self._envelope = b""
        self._compressed = b""

    # Out

    def send(self, data: bytes) -> None:
        """Add to what goes out with the next flush."""
        self.unsent += data

    def flush(self) -> None:
        data, self.unsent = bytes(self.unsent), bytearray()
        if data:
            self.send_now(masked(0x82, data) if self.speaks == "websocket" else data)

    def send_now(self, data: bytes) -> None:
        # When the other side has closed, what it said before is still to be read.
        with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
            self.socket.sendall(data)

    def wait_until_read(self) -> bool:
        """Whether the server has taken out of its socket all that was sent, within the deadline."""
        here = self.socket.getsockname()[1]
        return self._poll(lambda: _unread(self.port, here) == 0)

    # In

    def wait_for(self, enough: Callable[[], bool]) -> bool:
        """Receive until `enough()`, the close, or the deadline; whether it was enough."""
        deadline = time.monotonic() + self.patience_s
        while not enough():
            if self.closed or not self._receive(deadline):
                return enough()
        return True

    def wait_for_close(self) -> bool:
        return self.wait_for(lambda: self.closed)

    def count(self, start: bytes) -> int:
        return sum(received.startswith(start) for received in self.frames)

    @property
    def info(self) -> bytes:
        """The first INFO, or nothing."""
        return next((received for received in self.frames if received.startswith(b"INFO ")), b"INFO {}")

    @property
    def rest(self) -> bytes:
        """Bytes that make no whole frame."""
        return self._rest

    # Changes of state

    def upgrade_to_websocket(self, headers: str) -> bool:
        """Ask for a websocket and read the answer; whether it was granted."""
        request = (
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        )
        self.send_now(request.encode())
        self.wait_for(lambda: b"\r\n\r\n" in self._rest)
        head, end, after = self._rest.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            return False
        self.handshake, self._rest, self.speaks = head + end, b"", "websocket"
        self._take(after)
        return True

    def upgrade_to_tls(self) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            self.socket = context.wrap_socket(self.socket)
        except (OSError, ssl.SSLError):
            return False
        return True

    def quit(self) -> bool:
        """Say that nothing more comes, and read what the server still has to say; whether it then closed."""
        if self.given_up or self.closed:
            return True
        self.given_up = True
        if isinstance(self.socket, ssl.SSLSocket):
            return True  # TLS knows no half-closed connection
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        return self.wait_for_close()

    def abandon(self) -> None:
        self.socket.close()

    # Within

    def _poll(self, done: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + self.patience_s
        while not done():
            if time.monotonic() > deadline:
                return False
            os.sched_yield()
        return True

    def _receive(self, deadline: float) -> bool:
        """Take in what comes next; False when the deadline passes first."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        self.socket.settimeout(remaining)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            data = b""
        if data:
            self._take(data)
        else:
            self.closed = True
        return True

    def _take(self, data: bytes) -> None:
        if self.speaks == "websocket":
            self._envelope += data
            data = self._unwrap()
        self._rest += data
        if self.speaks != "raw":
            whole, self._rest = frame.split(self._rest)
            self.frames += whole

    def _unwrap(self) -> bytes:
        """Cut websocket frames out of the envelope; answer what the data frames carried."""
        carried = b""
        while (cut := _cut_websocket_frame(self._envelope)) is not None:
            first, payload, size = cut
            self._envelope = self._envelope[size:]
            if first & 0x08:
                self._note_control(first & 0x0F, payload)
                continue
            if first & 0x40 or self._compressed:
                self._compressed += payload
                if first & 0x80:
                    carried += zlib.decompressobj(-15).decompress(self._compressed + b"\x00\x00\xff\xff")
                    self._compressed = b""
            else:
                carried += payload
        return carried

    def _note_control(self, opcode: int, payload: bytes) -> None:
        if opcode == 8 and len(payload) >= 2:
            code = int.from_bytes(payload[:2], "big")
            self.controls.append(f"websocket close {code} {payload[2:].decode('utf-8', 'replace')}".rstrip())
        else:
            name = {8: "close", 9: "ping", 10: "pong"}.get(opcode, str(opcode))
            self.controls.append(f"websocket {name} {frame.printable(payload)}".rstrip())


def masked(first: int, payload: bytes) -> bytes:
    """A websocket frame as a client sends it."""
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 65_536:
        head = bytes([first, 0x80 | 126]) + struct.pack(">H", size)
    else:
        head = bytes([first, 0x80 | 127]) + struct.pack(">Q", size)
    return head + MASK + bytes(byte ^ MASK[i % 4] for i, byte in enumerate(payload))


def _cut_websocket_frame(data: bytes) -> tuple[int, bytes, int] | None:
    """First byte, payload and whole size of the first frame; None if it is not complete."""
    if len(data) < 2:
        return None
    size, start = data[1] & 0x7F, 2
    if size >= 126:
        start = 4 if size == 126 else 10
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size:
        return None
    return data[0], data[start : start + size], start + size


def _unread(local_port: int, remote_port: int) -> int:
    """Bytes that the owner of `local_port` has not read from its connection with `remote_port`."""
    try:
        with open(TCP_TABLE) as table:
            for line in table:
                words = line.split()
                if words[1].endswith(f":{local_port:04X}") and words[2].endswith(f":{remote_port:04X}"):
                    return int(words[4].partition(":")[2], 16)
    except FileNotFoundError:
        time.sleep(0.005)  # no such table on this system: long enough on loopback
    return 0
