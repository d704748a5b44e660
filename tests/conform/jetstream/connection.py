"""Raw connections of one script, and the inboxes that messages come to.

Every inbox is a subscription of one connection and keeps its messages in the order in which they came. All
connections are read whenever one is waited for, so an inbox notices the time at which something came.
"""

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from conform.protocol.frame import split


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    reply: str
    header: bytes
    payload: bytes

    def value_of(self, name: str) -> str:
        """A header, or what else of the message has a name."""
        if name == "reply":
            return self.reply
        for line in self.header.decode("utf-8", "replace").split("\r\n"):
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        return ""


@dataclass
class Inbox:
    name: str
    messages: list[Message] = field(default_factory=list)
    shown: bool = True
    ordered: bool = True


class Connection:
    """One connection, greeted and logged in."""

    def __init__(self, port: int, connect: bytes, patience_s: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.patience_s = patience_s
        self.unsent = bytearray(b"CONNECT %b\r\n" % connect)
        self.inboxes = dict[str, Inbox]()  # by subscription id
        self.sids = dict[str, str]()  # by the name of the inbox
        self.pongs = 0
        self.errors: list[str] = []
        self.closed = False
        self.rest = b""

    def send(self, data: bytes) -> None:
        self.unsent += data

    def flush(self) -> None:
        data, self.unsent = bytes(self.unsent), bytearray()
        if data and not self.closed:
            try:
                self.socket.sendall(data)
            except OSError:
                self.closed = True

    def subscribe(self, inbox: Inbox, subject: bytes, queue: bytes = b"") -> None:
        sid = str(len(self.inboxes) + 1)
        self.inboxes[sid] = inbox
        self.sids[inbox.name] = sid
        self.send(b"SUB %b%b %b\r\n" % (subject, b" " + queue if queue else b"", sid.encode()))

    def publish(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        words = subject + (b" " + reply if reply else b"")
        if header:
            size = b"%d %d" % (len(header), len(header) + len(payload))
            self.send(b"HPUB %b %b\r\n%b%b\r\n" % (words, size, header, payload))
        else:
            self.send(b"PUB %b %d\r\n%b\r\n" % (words, len(payload), payload))

    def receive(self) -> None:
        """Take in what is there; the socket is readable."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        frames, self.rest = split(self.rest + data)
        for frame in frames:
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        head, _, body = frame.partition(b"\r\n")
        words = head.decode("utf-8", "replace").split(" ")
        match words[0]:
            case "MSG":
                self.inboxes[words[2]].messages.append(
                    Message(words[1], words[3] if len(words) == 5 else "", b"", body[:-2])
                )
            case "HMSG":
                size = int(words[-2])
                reply = words[3] if len(words) == 6 else ""
                self.inboxes[words[2]].messages.append(Message(words[1], reply, body[:size], body[size:-2]))
            case "PING":
                self.send(b"PONG\r\n")
            case "PONG":
                self.pongs += 1
            case "-ERR":
                self.errors.append(head.decode("utf-8", "replace"))


def wait(connections: list[Connection], enough: Callable[[], bool], until: float) -> bool:
    """Read all connections until it is enough, or until that time; whether it was enough."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.flush()
            if not connection.closed:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
        while not enough():
            remaining = until - time.monotonic()
            if remaining <= 0 or not selector.get_map():
                return enough()
            for key, _ in selector.select(remaining):
                connection = key.data
                connection.receive()
                connection.flush()
                if connection.closed:
                    selector.unregister(key.fileobj)
    return True
