"""One connection to one server, for one thread at a time.

What it promises
  * `publish` puts messages into a buffer; it leaves when it holds WRITE_BUFFER_SIZE bytes, and before any
    call that waits (`flush`, `request`, `next`, iteration, `close`). Whoever publishes and then does
    something else calls `flush`.
  * `flush` returns when the server has handled everything sent before it: a round trip.
  * An error that the server reports is raised as ServerError by the call during which it was read. After most
    of them (permissions, for one) the connection goes on; where the server ends it, later calls raise
    Disconnected, with the server's reason.
  * A lost connection is not opened again. The caller knows best what it must repeat; it connects once more.

How it works: while a write does not fit into the socket, input is read, so that two full pipes never wait for
each other. The server's PING is answered by whichever call reads it. A holder that makes no call for longer
than the server's `ping_interval` times `ping_max` (four minutes by default) is disconnected; a `flush` now
and then prevents that.

What it does not do: threads, callbacks, reconnecting, streams.
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, cast

import msgspec

import tidelog
from tidelog.base.errors import (
    ClientError,
    Disconnected,
    NoResponders,
    ProtocolError,
    ServerError,
    Timeout,
)
from tidelog.base.limits import MIB
from tidelog.client import address as addresses
from tidelog.client.credential import Credential, read_credentials, read_seed
from tidelog.client.encryption import Encryption
from tidelog.client.message import Delivery, Message
from tidelog.client.subscription import Subscription
from tidelog.client.transport import SocketTransport, Transport, left, open_socket
from tidelog.wire import header
from tidelog.wire.parser import Collector

# Large enough that a system call is a small part of the cost of the messages in it, small enough for any
# cache.
WRITE_BUFFER_SIZE = 64 * 1024
# INFO grows with the cluster; nothing else on a control line from a server is long.
CONTROL_LINE_MAX = MIB
# Checked subjects in their wire form, kept so that a repeated one costs a look-up.
SUBJECTS_KEPT = 4096

DEFAULT_TIMEOUT_S = 5.0
_BLANKS = frozenset(" \t\r\n\f")


def connect(
    url: str | Iterable[str] = addresses.DEFAULT_URL,
    *,
    name: str = "",
    user: str = "",
    password: str = "",
    token: str = "",
    jwt: str = "",
    nkey_seed: str = "",
    nkey_file: str = "",
    credentials_file: str = "",
    tls: ssl.SSLContext | None = None,
    tls_ca: str = "",
    tls_cert: str = "",
    tls_key: str = "",
    tls_first: bool = False,
    echo: bool = True,
    inbox_prefix: str = "_INBOX",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    parser: Callable[[], Collector] | None = None,
) -> Connection:
    """Connect to the first of the URLs that answers, in their order.

    `timeout_s` is for each of them, and later for every write that the server does not take. TLS is used when
    the scheme, the server or any `tls` argument asks for it. `tls_first` encrypts before the server's
    greeting. `parser` makes one that keeps some messages for itself; it becomes `Connection.parser`. Raises
    ServerError when a server refuses, otherwise what the last URL ran into.
    """
    credential = Credential(user=user, password=password, token=token, seed=nkey_seed, jwt=jwt)
    if credentials_file:
        credential = read_credentials(credentials_file)
    elif nkey_file:
        credential = Credential(seed=read_seed(nkey_file), jwt=jwt)
    encryption = Encryption(tls, tls_ca, tls_cert, tls_key, tls_first)
    failure: ClientError = ClientError("no server URL given")
    for address in addresses.parse_all(url):
        connection = Connection(
            name=name,
            echo=echo,
            inbox_prefix=inbox_prefix,
            timeout_s=timeout_s,
            parser=parser() if parser else None,
        )
        try:
            connection._open(address, credential, encryption)
        except (Disconnected, Timeout) as error:
            failure = error
        else:
            return connection
    raise failure


class Connection:
    """Made by `connect`. `info` is the server's INFO, as last heard."""

    def __init__(
        self, *, name: str, echo: bool, inbox_prefix: str, timeout_s: float, parser: Collector | None = None
    ) -> None:
        self.name = name
        self.info: dict[str, Any] = {}
        self.url = ""
        self.max_payload = MIB
        self._echo = echo
        self._timeout_s = timeout_s
        self._transport: Transport | None = None
        self.parser = parser or Collector(client_role=True, max_control_line=CONTROL_LINE_MAX)
        self._out = bytearray()
        self._subscriptions: dict[bytes, Subscription] = {}
        self._last_sid = 0
        self._subjects: dict[str, bytes] = {}
        self._pings_sent = 0
        self._pongs_seen = 0
        self._greeted = False
        self._pong_due = False
        self._sending = False
        self._error: ServerError | None = None
        self._last_error = ""
        self._closed_reason = "not connected"
        self._inbox_prefix = inbox_prefix
        self._inbox: Subscription | None = None
        self._inbox_base = ""
        self._requests = 0

    # -- what callers use ---

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: header.HeadersLike | None = None,
    ) -> None:
        """Buffer a message. Raises ClientError when it can never be sent, otherwise as `flush`."""
        target = self._subjects.get(subject) or self._check_subject(subject)
        if reply:
            target = b"%b %b" % (target, self._subjects.get(reply) or self._check_subject(reply))
        block = header.encode(headers) if headers else b""
        size = len(block) + len(payload)
        if size > self.max_payload:
            raise ClientError(f"{size} bytes for {subject!r}: the server takes {self.max_payload} at most")
        if block:
            self._out += b"HPUB %b %d %d\r\n%b%b\r\n" % (target, len(block), size, block, payload)
        else:
            self._out += b"PUB %b %d\r\n%b\r\n" % (target, size, payload)
        if len(self._out) >= WRITE_BUFFER_SIZE:
            self._send()

    def put(self, operations: bytes) -> None:
        """Buffer whole operations that the caller has encoded, and checked as `publish` does. Raises as `flush`."""
        self._out += operations
        if len(self._out) >= WRITE_BUFFER_SIZE:
            self._send()

    def send(self) -> None:
        """Send what is buffered now. `flush` waits for the server, too."""
        if self._out:
            self._send()

    def subscribe(self, subject: str, queue: str = "") -> Subscription:
        """Ask for messages. The server hears of it with the next call that waits, or `flush`."""
        target = self._check_subject(subject)
        if queue:
            target = b"%b %b" % (target, self._check_subject(queue))
        self._last_sid += 1
        sid = b"%d" % self._last_sid
        subscription = Subscription(self, sid, subject, queue)
        self._subscriptions[sid] = subscription
        self._out += b"SUB %b %b\r\n" % (target, sid)
        return subscription

    def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        headers: header.HeadersLike | None = None,
    ) -> Message:
        """The first reply. Raises NoResponders, Timeout, ServerError or Disconnected."""
        if self._inbox is None:
            self._inbox_base = self.new_inbox()
            self._inbox = self.subscribe(f"{self._inbox_base}.*")
        self._requests += 1
        reply = f"{self._inbox_base}.{self._requests}"
        self.publish(subject, payload, reply=reply, headers=headers)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._inbox.next(deadline - time.monotonic())
            except Timeout:
                raise Timeout(f"no reply from {subject!r} within {timeout_s:g} s") from None
            # Replies to requests that were given up are passed over.
            if message.subject == reply:
                break
        if message.is_no_responders:
            raise NoResponders(f"nobody listens to {subject!r}")
        return message

    def new_inbox(self) -> str:
        """A subject that nobody else has."""
        return f"{self._inbox_prefix}.{secrets.token_hex(11)}"

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what is buffered, and wait until the server has handled it.

        Raises Timeout, ServerError or Disconnected.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        self._out += b"PING\r\n"
        self._pings_sent += 1
        awaited = self._pings_sent
        while self._pongs_seen < awaited:
            if not self._pump(deadline - time.monotonic()):
                raise Timeout(f"the server did not answer within {limit_s:g} s")

    def take_in(self, timeout_s: float) -> bool:
        """Send what is buffered and hand out what comes, once; for those with a parser of their own.

        False: nothing came in time. Raises ServerError or Disconnected.
        """
        return self._pump(timeout_s)

    def rtt_s(self, timeout_s: float | None = None) -> float:
        """How long a round trip takes. What is buffered is flushed before."""
        self.flush(timeout_s)
        start = time.perf_counter()
        self.flush(timeout_s)
        return time.perf_counter() - start

    def drain(self, timeout_s: float | None = None) -> None:
        """End all subscriptions, collect what the server had sent for them, and close. They stay readable."""
        for subscription in list(self._subscriptions.values()):
            self._unsubscribe(subscription, 0, keep=True)
        self.flush(timeout_s)
        self.close()

    def close(self) -> None:
        """Send what is buffered, as far as the server takes it in time, and end. May be repeated."""
        if self._transport is None:
            return
        with contextlib.suppress(ClientError):
            self._send()
        self._fail("closed by this side")
        for subscription in list(self._subscriptions.values()):
            self._forget(subscription)

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- opening ---

    def _open(self, address: addresses.Address, credential: Credential, encryption: Encryption) -> None:
        deadline = time.monotonic() + self._timeout_s
        encrypted = encryption.is_asked_for or address.is_encrypted
        self.url = str(address)
        sock = open_socket(address, deadline)
        if encrypted and (address.is_websocket or encryption.first):
            sock = encryption.wrap(sock, address.host, deadline)
        if address.is_websocket:
            # Slow to import, and few connections are websockets.
            from tidelog.client.websocket import open_websocket

            self._transport = open_websocket(sock, address, deadline)
        else:
            self._transport = SocketTransport(sock)
        try:
            self._await_info(deadline)
            required = bool(self.info.get("tls_required"))
            if not isinstance(sock, ssl.SSLSocket) and not address.is_websocket and (encrypted or required):
                if not required and not self.info.get("tls_available"):
                    raise Disconnected(f"{address}: TLS is asked for, and the server has none")
                sock = encryption.wrap(sock, address.host, deadline)
                self._transport = SocketTransport(sock)
            self._greet(address, credential, deadline, encrypted=isinstance(sock, ssl.SSLSocket))
        except ClientError as error:
            self._fail(str(error))
            raise

    def _await_info(self, deadline: float) -> None:
        while not self._greeted:
            if not self._pump(deadline - time.monotonic()):
                raise Timeout(f"{self.url}: no greeting from the server in time")

    def _greet(
        self, address: addresses.Address, credential: Credential, deadline: float, *, encrypted: bool
    ) -> None:
        """CONNECT, and PING so that a refusal is known now and not later."""
        if address.user and not (credential.user or credential.token or credential.seed):
            if address.password:
                credential = Credential(user=address.user, password=address.password)
            else:
                credential = Credential(token=address.user)
        options: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "tls_required": encrypted,
            "name": self.name,
            "lang": "python-tidelog",
            "version": tidelog.__version__,
            "protocol": 1,
            "echo": self._echo,
            "headers": True,
            "no_responders": True,
            **credential.connect_fields(self.info.get("nonce", "")),
        }
        self._out += b"CONNECT " + msgspec.json.encode(options) + b"\r\n"
        try:
            self.flush(left(deadline))
        except Timeout:
            raise Timeout(f"{address}: no answer to CONNECT in time") from None

    # -- input and output ---

    def _check_subject(self, subject: str) -> bytes:
        if not subject or not _BLANKS.isdisjoint(subject):
            raise ClientError(f"subject {subject!r} is empty or has a blank in it")
        if len(self._subjects) >= SUBJECTS_KEPT:
            self._subjects.clear()
        encoded = subject.encode("utf-8", "surrogateescape")
        self._subjects[subject] = encoded
        return encoded

    def _pump(self, timeout_s: float | None) -> bool:
        """Send what is buffered, wait for input and take it in. False: nothing came in time."""
        if self._out and self._send():
            return True
        transport = self._transport
        if transport is None:
            raise Disconnected(self._closed_reason)
        if not transport.wait(timeout_s):
            return False
        self._take_in(transport)
        return True

    def _send(self) -> bool:
        """Everything buffered, reading what comes meanwhile. Whether anything came."""
        transport = self._transport
        if transport is None:
            raise Disconnected(self._closed_reason)
        # Input may append to `_out` (PONG), so what is on its way is a buffer of its own.
        data, self._out = self._out, bytearray()
        sent, came = 0, False
        self._sending = True
        try:
            with memoryview(data) as view:
                while sent < len(data):
                    count = self._write(transport, view[sent:])
                    sent += count
                    if not count:
                        if not transport.wait(self._timeout_s, for_space=True):
                            raise Timeout(f"the server took no data within {self._timeout_s:g} s")
                        came |= self._take_in(transport)
        finally:
            self._sending = False
            if sent < len(data):
                self._out[:0] = data[sent:]
        # A connection that only publishes must notice errors and answer PING, too.
        return self._take_in(transport) or came

    def _write(self, transport: Transport, data: memoryview) -> int:
        try:
            return transport.write(data)
        except Disconnected as error:
            # The server's last words may say why.
            while self._take_in(transport):
                pass
            self._fail(str(error))
            raise

    def _take_in(self, transport: Transport) -> bool:
        """Read once and hand out what came. Whether anything came."""
        try:
            data = transport.read()
            if data is None:
                return False
            found = self.parser.feed(data)
        except Disconnected as error:
            self._fail(str(error))
            raise Disconnected(self._closed_reason) from error
        except ProtocolError as error:
            self._fail(f"the server sent what is not NATS: {error}")
            raise Disconnected(self._closed_reason) from error
        subscriptions = self._subscriptions
        for operation in found:
            if operation[0] == "MSG":
                delivery = cast(Delivery, operation)
                subscription = subscriptions.get(delivery[2])
                if subscription is not None:
                    subscription._take(delivery)
            else:
                self._take_control(cast(tuple[str, bytes], operation))
        if self._error is not None:
            told, self._error = self._error, None
            raise told
        if self._pong_due and not self._sending:
            self._pong_due = False
            self._out += b"PONG\r\n"
            self._send()
        return True

    def _take_control(self, operation: tuple[str, bytes]) -> None:
        verb, argument = operation
        if verb == "PING":
            self._pong_due = True
        elif verb == "PONG":
            self._pongs_seen += 1
        elif verb == "INFO":
            try:
                self.info = msgspec.json.decode(argument, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                self._fail("the server's INFO is not JSON")
                raise Disconnected(self._closed_reason) from error
            self._greeted = True
            self.max_payload = self.info.get("max_payload", self.max_payload)
        elif verb == "-ERR":
            self._last_error = argument.strip().strip(b"'").decode("utf-8", "replace")
            # Of several in one burst the first is told: the others follow from it, or are the same.
            self._error = self._error or ServerError(self._last_error)

    def _fail(self, reason: str) -> None:
        """No further input or output. The first reason counts."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            self._closed_reason = reason
            if self._last_error and self._last_error not in reason:
                self._closed_reason += f" (last error: {self._last_error})"

    def _unsubscribe(self, subscription: Subscription, max_msgs: int, *, keep: bool = False) -> None:
        """`keep`: messages on their way are still taken in."""
        if not subscription._active:
            return
        if max_msgs > subscription._received:
            self._out += b"UNSUB %b %d\r\n" % (subscription._sid, max_msgs)
            subscription._max_msgs = max_msgs
            return
        self._out += b"UNSUB %b\r\n" % subscription._sid
        if not keep:
            self._forget(subscription)

    def _forget(self, subscription: Subscription) -> None:
        subscription._active = False
        self._subscriptions.pop(subscription._sid, None)
