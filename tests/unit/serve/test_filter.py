"""Two filters as one: websocket over TLS, and errors that cross the stack."""

import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from certificate import authority, issue
from tidelog.serve.filter import Bytes, FilterError, Stack
from tidelog.serve.options import CertificatePair, TlsSettings, WebsocketSettings
from tidelog.serve.tls import TlsContext, TlsFilter
from tidelog.serve.upgrade import UpgradeRules
from tidelog.serve.websocket import WebsocketFilter


def test_websocket_over_tls(tmp_path: Path) -> None:
    pair = CertificatePair(*issue().write(tmp_path, "server"))
    rules = UpgradeRules.of(WebsocketSettings(same_origin=True), secure=True)
    server = Stack(TlsFilter(TlsContext(TlsSettings(certificates=(pair,)))), WebsocketFilter(rules, 1 << 20))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().cert_pem.decode())
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(3):
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        server.receive(outgoing.read())
        incoming.write(b"".join(server.take()))
    assert not server.established

    client = ClientProtocol(parse_uri("wss://localhost/"))

    def exchange() -> bytes:
        for part in client.data_to_send():
            tls.write(part)
        try:
            return b"".join(server.receive(outgoing.read()))
        finally:
            incoming.write(b"".join(server.take()))
            try:
                while data := tls.read(1 << 20):
                    client.receive_data(data)
            except ssl.SSLWantReadError:
                pass

    client.send_request(client.connect())
    assert exchange() == b""
    assert server.established
    client.send_binary(b"PING\r\n")
    client.send_ping(b"?")
    server.send([b"PONG\r\n"])
    assert exchange() == b"PING\r\n"
    client.send_binary(b"last words")
    client.send_close(1000)
    with pytest.raises(FilterError) as caught:
        exchange()
    assert caught.value.parts == [b"last words"]
    assert caught.value.reason == "Client Closed"
    server.close("Client Closed")
    exchange()
    assert [getattr(event, "data", None) for event in client.events_received()][1:] == [
        b"PONG\r\n",
        b"?",
        b"\x03\xe8",
    ]


class Scripted:
    """A filter that passes bytes, notes them, and fails at a `!`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.established = True
        self.queued: list[bytes] = []

    def receive(self, data: Bytes) -> list[Bytes]:
        good, bang, _ = bytes(data).partition(b"!" + self.name.encode())
        self.queued.append(b"(" + self.name.encode() + b" heard)")
        if bang:
            raise FilterError(self.name, parts=[good])
        return [good]

    def send(self, parts: Sequence[Bytes]) -> None:
        self.queued += [bytes(part) for part in parts]

    def take(self) -> list[bytes]:
        queued, self.queued = self.queued, []
        return queued

    def close(self, reason: str) -> None:
        self.queued.append(b"(" + self.name.encode() + b" closes: " + reason.encode() + b")")

    def end(self) -> FilterError:
        return FilterError(self.name)


def test_error_of_either_filter_keeps_what_came_before() -> None:
    stack = Stack(Scripted("outer"), Scripted("inner"))
    assert stack.receive(b"hello") == [b"hello"]
    for data, reason in ((b"hello!outer...", "outer"), (b"hello!inner!outer", "inner")):
        with pytest.raises(FilterError) as caught:
            stack.receive(data)
        assert (caught.value.reason, caught.value.parts) == (reason, [b"hello"])
    assert stack.take() == [b"(outer heard)", b"(inner heard)"] * 3


def test_goodbye_from_the_inside_out() -> None:
    stack = Stack(Scripted("outer"), Scripted("inner"))
    stack.close("Kicked")
    assert stack.take() == [b"(inner closes: Kicked)", b"(outer closes: Kicked)"]


def test_end_of_stream_is_judged_by_the_stage_that_was_reached() -> None:
    outer = Scripted("outer")
    stack = Stack(outer, Scripted("inner"))
    assert stack.end().reason == "inner"
    outer.established = False
    assert stack.end().reason == "outer"
