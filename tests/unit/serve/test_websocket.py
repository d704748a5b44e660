"""Websocket as a filter, against the client side of the `websockets` library in memory."""

import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from tidelog.base.limits import WEBSOCKET_BROWSER_FRAME_SIZE, WEBSOCKET_COMPRESS_ABOVE_SIZE
from tidelog.serve.filter import FilterError
from tidelog.serve.options import WebsocketSettings
from tidelog.serve.upgrade import UpgradeRules
from tidelog.serve.websocket import WebsocketFilter, close_code, message_size

MAX_PAYLOAD = 1 << 20
MIB = 1 << 20


def rules(compression: bool = False) -> UpgradeRules:
    return UpgradeRules.of(WebsocketSettings(compression=compression), secure=False)


class Client:
    """A client of any kind; bytes go by hand."""

    def __init__(self, *, compression: bool = False, agent: str = "test") -> None:
        extensions = [ClientPerMessageDeflateFactory()] if compression else []
        self.protocol = ClientProtocol(parse_uri("ws://localhost/"), extensions=extensions, max_size=None)
        self.request = self.protocol.connect()
        self.request.headers["User-Agent"] = agent

    def connect(self, server: WebsocketFilter, chunk: int = 1 << 20) -> "Client":
        self.protocol.send_request(self.request)
        assert self.deliver(server, chunk) == b""
        (response,) = self.hear(server)
        assert isinstance(response, Response)
        assert self.protocol.handshake_exc is None
        assert self.protocol.state is State.OPEN
        assert server.established
        return self

    def deliver(self, server: WebsocketFilter, chunk: int = 1 << 20) -> bytes:
        data = b"".join(self.protocol.data_to_send())
        return b"".join(
            part
            for start in range(0, len(data), chunk)
            for part in server.receive(data[start : start + chunk])
        )

    def hear(self, server: WebsocketFilter) -> Sequence[object]:
        for part in server.take():
            self.protocol.receive_data(part)
        return self.protocol.events_received()

    def frames(self, server: WebsocketFilter) -> list[Frame]:
        frames = [event for event in self.hear(server) if isinstance(event, Frame)]
        assert self.protocol.parser_exc is None
        return frames


def connect(
    *, compression: bool = False, agent: str = "test", max_payload: int = MAX_PAYLOAD
) -> tuple[WebsocketFilter, Client]:
    server = WebsocketFilter(rules(compression), max_payload)
    return server, Client(compression=compression, agent=agent).connect(server)


def payload(frames: Sequence[Frame]) -> bytes:
    return b"".join(frame.data for frame in frames)


@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 20])
def test_bytes_pass_both_ways_however_they_are_cut(compression: bool, chunk: int) -> None:
    server = WebsocketFilter(rules(compression), MAX_PAYLOAD)
    client = Client(compression=compression).connect(server, chunk)
    sent = bytes(range(256)) * 300
    client.protocol.send_binary(b"CONNECT {}\r\n")
    client.protocol.send_text(b"PUB a 3\r\n", fin=False)
    client.protocol.send_ping(b"")
    client.protocol.send_continuation(b"abc\r\n", fin=True)
    client.protocol.send_binary(sent)
    assert client.deliver(server, chunk) == b"CONNECT {}\r\nPUB a 3\r\nabc\r\n" + sent
    server.send([b"INFO {}\r\n", memoryview(sent), bytearray(b"PING\r\n")])
    frames = client.frames(server)
    assert [frame.opcode for frame in frames] == [Opcode.PONG, Opcode.BINARY]
    assert payload(frames) == b"INFO {}\r\n" + sent + b"PING\r\n"
    assert server.take() == []


MESSAGES = st.lists(st.tuples(st.binary(max_size=300), st.booleans(), st.booleans()), max_size=8)


@given(messages=MESSAGES, cuts=st.lists(st.integers(1, 400), min_size=1), compression=st.booleans())
def test_any_chunking_gives_the_same_bytes(
    messages: list[tuple[bytes, bool, bool]], cuts: list[int], compression: bool
) -> None:
    server, client = connect(compression=compression)
    for data, split, ping in messages:
        client.protocol.send_binary(data[: len(data) // 2] if split else data, fin=not split)
        if ping:
            client.protocol.send_ping(b"?")
        if split:
            client.protocol.send_continuation(data[len(data) // 2 :], fin=True)
    stream, heard, pos, turn = b"".join(client.protocol.data_to_send()), b"", 0, 0
    while pos < len(stream):
        cut = cuts[turn % len(cuts)]
        heard += b"".join(server.receive(memoryview(stream)[pos : pos + cut]))
        pos, turn = pos + cut, turn + 1
    assert heard == b"".join(data for data, _, _ in messages)
    pongs = [frame.opcode for frame in client.frames(server)]
    assert pongs == [Opcode.PONG] * sum(ping for _, _, ping in messages)


def test_one_frame_for_each_flush_however_large() -> None:
    server, client = connect()
    server.send([b"a" * 100_000, b"b" * 100_000])
    server.send([b"c"])
    server.send([])
    server.send([b""])
    assert [len(frame.data) for frame in client.frames(server)] == [200_000, 1]


def test_small_messages_stay_uncompressed() -> None:
    server, client = connect(compression=True)
    server.send([b"a" * WEBSOCKET_COMPRESS_ABOVE_SIZE])
    (plain,) = server.take()
    assert plain == bytes([0x82, WEBSOCKET_COMPRESS_ABOVE_SIZE]) + b"a" * WEBSOCKET_COMPRESS_ABOVE_SIZE
    server.send([b"a" * WEBSOCKET_COMPRESS_ABOVE_SIZE, b"a"])
    (packed,) = server.take()
    assert packed[0] == 0x82 | 0x40
    assert len(packed) < WEBSOCKET_COMPRESS_ABOVE_SIZE
    client.protocol.receive_data(plain + packed)
    assert [frame.data for frame in client.frames(server)] == [b"a" * 64, b"a" * 65]


def noise(size: int) -> bytes:
    """Hardly compressible and always the same."""
    return b"".join((number * 2_654_435_761 % (1 << 32)).to_bytes(4, "big") for number in range(size // 4))


def test_browsers_get_small_messages() -> None:
    server, client = connect(agent="Mozilla/5.0 Chrome/120.0")
    sent = noise(3 * WEBSOCKET_BROWSER_FRAME_SIZE) + b"rest"
    server.send([sent])
    frames = client.frames(server)
    assert [len(frame.data) for frame in frames] == [4096, 4096, 4096, 4]
    assert all(frame.fin and frame.opcode is Opcode.BINARY for frame in frames)
    assert payload(frames) == sent


def test_browsers_get_compressed_messages_in_small_frames() -> None:
    server, client = connect(agent="Mozilla/5.0 Chrome/120.0", compression=True)
    sent = noise(5 * WEBSOCKET_BROWSER_FRAME_SIZE)
    for _ in range(2):
        server.send([sent])
    parts = server.take()
    assert max(map(len, parts)) == WEBSOCKET_BROWSER_FRAME_SIZE + 4
    assert [part[0] for part in parts[:2]] == [0x42, 0x00]
    assert parts[-1][0] == 0x80
    client.protocol.receive_data(b"".join(parts))
    assert payload(client.frames(server)) == sent * 2


def test_safari_gets_compressed_messages_whole() -> None:
    server, _ = connect(agent="Mozilla/5.0 Version/17.1 Safari/605.1.15", compression=True)
    server.send([noise(5 * WEBSOCKET_BROWSER_FRAME_SIZE)])
    (part,) = server.take()
    assert part[0] == 0x82 | 0x40


def test_client_says_goodbye_after_its_last_words() -> None:
    server, client = connect()
    client.protocol.send_binary(b"PUB a 0\r\n\r\n")
    client.protocol.send_close(1000, "done")
    with pytest.raises(FilterError) as caught:
        client.deliver(server)
    assert (caught.value.reason, caught.value.quiet, caught.value.parts) == (
        "Client Closed",
        True,
        [b"PUB a 0\r\n\r\n"],
    )
    server.send([b"unheard"])
    server.close("Client Closed")
    (echo,) = client.frames(server)
    assert (echo.opcode, echo.data) == (Opcode.CLOSE, b"\x03\xe8done")
    assert server.receive(b"more") == []


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Client Closed", 1000),
        ("Server Shutdown", 1001),
        ("Stale Connection", 1001),
        ("Parse Error", 1002),
        ("Protocol Violation", 1002),
        ("Authentication Failure", 1008),
        ("Authentication Timeout", 1008),
        ("Slow Consumer (Pending Bytes)", 1008),
        ("Maximum Connections Exceeded", 1008),
        ("Maximum Message Payload Exceeded", 1009),
        ("Kicked", 1011),
    ],
)
def test_server_says_goodbye_with_the_code_of_its_reason(reason: str, code: int) -> None:
    assert close_code(reason) == code
    server, client = connect()
    server.send([b"-ERR 'x'\r\n"])
    server.close(reason)
    server.close(reason)
    server.send([b"unheard"])
    words, goodbye = client.frames(server)
    assert words.data == b"-ERR 'x'\r\n"
    assert goodbye.data == code.to_bytes(2, "big") + reason.encode()
    assert client.deliver(server) == b""


def masked(*head: int, data: bytes = b"") -> bytes:
    """A frame with an all-zero mask."""
    return bytes(head) + bytes(4) + data


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (masked(0x83, 0x80), 1002),  # unknown opcode
        (masked(0xC2, 0x80), 1002),  # compressed, which was not agreed on
        (masked(0x80, 0x80), 1002),  # continues nothing
        (masked(0x09, 0x80), 1002),  # ping in parts
        (masked(0x89, 0xFE, 0, 126, data=bytes(126)), 1002),  # long ping
        (masked(0x88, 0x81, data=b"x"), 1002),  # half a close code
        (masked(0x88, 0x82, data=b"\x03\xed"), 1002),  # close code 1005
        (masked(0x88, 0x83, data=b"\x03\xe8\xff"), 1007),  # close text that is not UTF-8
    ],
)
def test_broken_frame_ends_the_connection_after_what_was_whole(frame: bytes, code: int) -> None:
    server, client = connect()
    client.protocol.send_binary(b"whole")
    good = b"".join(client.protocol.data_to_send())
    with pytest.raises(FilterError) as caught:
        server.receive(good + frame + good)
    assert caught.value.parts == [b"whole"]
    assert caught.value.reason == "Read Error"
    assert caught.value.text.startswith("read error: ")
    (goodbye,) = client.frames(server)
    assert goodbye.data[:2] == code.to_bytes(2, "big")


def test_size_of_messages_is_bounded() -> None:
    limit = message_size(100)
    for size, fits in ((limit, True), (limit + 1, False)):
        server, client = connect(max_payload=100)
        client.protocol.send_binary(bytes(size))
        if fits:
            assert client.deliver(server) == bytes(size)
            continue
        with pytest.raises(FilterError, match="exceeds limit"):
            client.deliver(server)
        (goodbye,) = client.frames(server)
        assert goodbye.data[:2] == (1009).to_bytes(2, "big")


def test_bound_grows_with_the_payload_limit() -> None:
    assert message_size(100) == 8 * MIB + 100
    assert message_size(4 * MIB) == 32 * MIB
    assert message_size(16 * MIB) == 64 * MIB
    assert message_size(64 * MIB) == 72 * MIB


def test_size_of_messages_is_bounded_after_decompression() -> None:
    server, client = connect(compression=True, max_payload=100)
    client.protocol.send_binary(bytes(message_size(100) + 1))
    with pytest.raises(FilterError, match="exceeds limit"):
        client.deliver(server)


def test_refused_handshake_is_answered() -> None:
    server = WebsocketFilter(rules(), MAX_PAYLOAD)
    with pytest.raises(FilterError) as caught:
        server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert caught.value.text == "websocket handshake error: invalid value for header 'Upgrade'"
    (answer,) = server.take()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert not server.established
    assert server.receive(b"more") == []
    server.close("Server Shutdown")
    assert server.take() == []


def test_end_of_stream() -> None:
    error = WebsocketFilter(rules(), MAX_PAYLOAD).end()
    assert (error.text, error.quiet) == ("websocket handshake error: EOF", True)
    error = connect()[0].end()
    assert (error.reason, error.text, error.quiet) == ("Client Closed", "", True)


def test_nothing_heavy_is_imported_without_a_websocket_listener() -> None:
    """Importing these takes longer than start-up may."""
    code = (
        "import sys, tidelog.serve.tls, tidelog.serve.filter;"
        "print([name for name in ('websockets', 'h11', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "[]\n"
