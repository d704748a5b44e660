"""The monitor's HTTP: framing, kept connections, every bound at its edge, and peers that misbehave."""

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from tidelog.base import limits
from tidelog.base.clock import ManualClock
from tidelog.serve.http import JSON, HttpServer, Request, Response, Work, read_target
from tidelog.serve.log import Logger, NullSink

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ListSink(NullSink):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"{level} {text}")


slices: list[str] = []


def sliced(request: Request) -> Work:
    try:
        for number in range(5):
            slices.append(f"{request.query['who']}{number}")
            yield
            if "fail" in request.query:
                raise ValueError("in a slice")
    finally:
        slices.append(f"{request.query['who']} over")
    return Response(200, request.query["who"].encode())


def echo(request: Request) -> Response | Work:
    if request.path == "/fail":
        raise ValueError("secret of the trade")
    if request.path == "/sliced":
        return sliced(request)
    if request.path == "/big":
        return Response(200, b"x" * 4_000_000)
    return Response(200, f"{request.path} {request.query}".encode(), JSON, (("X-Test", "1"),))


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[None]], None]]:
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    yield lambda work: loop.run_until_complete(asyncio.wait_for(work, 20))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@asynccontextmanager
async def serving(
    *, connections_max: int = 8, log: Logger | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[HttpServer, Callable[[], Awaitable[Opened]]]]:
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = HttpServer(echo, log or Logger(NullSink()), ManualClock(0), connections_max=connections_max)
    await server.listen(sock, tls)
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        return reader, writer

    try:
        yield server, connect
    finally:
        server.close()
        for writer in opened:
            writer.close()
        while server.peers:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)


async def read_response(reader: asyncio.StreamReader, head_only: bool = False) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head, b"" if head_only else await reader.readexactly(size)


Run = Callable[[Awaitable[None]], None]


def test_answer_has_the_headers_of_the_handler_and_its_length(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET /varz?a=1&b=&a=2&c=%20 HTTP/1.1\r\nHost: x\r\n\r\n")
            head, body = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"content-type: application/json\r\n" in head.lower()
            assert b"x-test: 1\r\n" in head.lower()
            assert b"date: thu, 01 jan 1970 00:00:00 gmt\r\n" in head.lower()
            assert body == b"/varz {'a': '1', 'b': '', 'c': ' '}"

    run(work())


def test_connection_is_kept_and_pipelined_requests_are_answered_in_order(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(20)))
            for i in range(20):
                assert (await read_response(reader))[1] == b"/%d {}" % i
            writer.write(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await read_response(reader))[1] == b"/last {}"
            assert await reader.read() == b""

    run(work())


def test_request_in_single_bytes_is_the_same_request(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            for byte in b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n":
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await read_response(reader))[1] == b"/slow {}"

    run(work())


def test_head_sends_the_length_and_no_body(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _ = await read_response(reader, head_only=True)
            assert b"content-length: 5\r\n" in head.lower()
            assert (await read_response(reader))[1] == b"/y {}"

    run(work())


def test_http_1_0_is_closed_after_the_answer(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET /old HTTP/1.0\r\n\r\n")
            assert (await read_response(reader))[1] == b"/old {}"
            assert await reader.read() == b""

    run(work())


def test_other_methods_are_refused_and_the_connection_stays(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            head, _ = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 405 ")
            assert b"allow: get, head\r\n" in head.lower()
            writer.write(b"GET /y HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_response(reader))[1] == b"/y {}"

    run(work())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * limits.HTTP_HEAD_SIZE, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"b" * 70000, 413),
    ],
)
def test_bad_requests_get_an_answer_and_end_the_connection(run: Run, sent: bytes, status: int) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(sent)
            head, _ = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert b"connection: close\r\n" in head.lower()
            await reader.read()

    run(work())


@pytest.mark.parametrize(
    ("body_size", "status"), [(limits.HTTP_BODY_SIZE, 200), (limits.HTTP_BODY_SIZE + 1, 413)]
)
def test_body_is_skipped_up_to_its_bound(run: Run, body_size: int, status: int) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(
                b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % body_size + b"b" * body_size
            )
            head, _ = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 %d " % status)

    run(work())


def test_handler_that_raises_answers_500_and_is_logged_once(run: Run) -> None:
    sink = ListSink()

    async def work() -> None:
        async with serving(log=Logger(sink)) as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET /fail HTTP/1.1\r\nHost: x\r\n\r\n")
            head, body = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 500 ")
            assert b"secret" not in body

    run(work())
    assert sink.lines == ["ERR Monitoring request failed: ValueError: secret of the trade"]


def test_long_answers_are_made_in_turns(run: Run) -> None:
    async def work() -> None:
        async with serving() as (server, connect):
            slices.clear()
            (one, to_one), (other, to_other) = await connect(), await connect()
            while len(server.peers) < 2:
                await asyncio.sleep(0)
            to_one.write(
                b"GET /sliced?who=a HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            to_other.write(b"GET /sliced?who=b HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_response(one))[1] == b"a"
            assert (await read_response(one))[1] == b"/next {}"
            assert (await read_response(other))[1] == b"b"
            assert len(slices) == 12
            assert slices.index("b0") < slices.index("a over")

    run(work())


def test_slice_that_raises_answers_500(run: Run) -> None:
    sink = ListSink()

    async def work() -> None:
        async with serving(log=Logger(sink)) as (_, connect):
            reader, writer = await connect()
            writer.write(
                b"GET /sliced?who=a&fail HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            assert (await read_response(reader))[0].startswith(b"HTTP/1.1 500 ")
            assert (await read_response(reader))[1] == b"/y {}"

    run(work())
    assert sink.lines == ["ERR Monitoring request failed: ValueError: in a slice"]


def test_slices_end_when_nobody_waits_for_them(run: Run) -> None:
    async def work() -> None:
        async with serving() as (server, connect):
            slices.clear()
            _, writer = await connect()
            writer.write(b"GET /sliced?who=c HTTP/1.1\r\nHost: x\r\n\r\n")
            while not slices:
                await asyncio.sleep(0)
            next(iter(server.peers)).expire()
            while server.peers:
                await asyncio.sleep(0)
            assert slices[-1] == "c over"

    run(work())


def test_connections_beyond_the_bound_are_told_so(run: Run) -> None:
    async def work() -> None:
        async with serving(connections_max=2) as (server, connect):
            await connect()
            await connect()
            while len(server.peers) < 2:
                await asyncio.sleep(0)
            reader, _ = await connect()
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
            assert len(server.peers) == 2

    run(work())


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_silent_and_slow_peers_are_dropped(run: Run, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_TIME_S", 0.05)
    monkeypatch.setattr(limits, "HTTP_IDLE_TIME_S", 0.05)

    async def work() -> None:
        async with serving() as (server, connect):
            reader, writer = await connect()
            writer.write(sent)
            with suppress(ConnectionResetError):
                await reader.read()
            assert not server.peers

    run(work())


def test_peer_that_does_not_read_is_not_read_from_and_dropped(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_WRITE_TIME_S", 0.1)

    async def work() -> None:
        async with serving() as (server, connect):
            _, writer = await connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            while not server.peers:
                await asyncio.sleep(0)
            peer = next(iter(server.peers))
            assert peer.transport is not None
            while not peer.blocked:
                await asyncio.sleep(0)
            assert peer.transport.get_write_buffer_size() < 3 * 4_000_000
            while server.peers:
                await asyncio.sleep(0.01)

    run(work())


def test_slow_reader_gets_every_answer(run: Run) -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            for _ in range(3):
                assert len((await read_response(reader))[1]) == 4_000_000

    run(work())


def test_close_drops_everybody(run: Run) -> None:
    async def work() -> None:
        async with serving() as (server, connect):
            reader, _ = await connect()
            while not server.peers:
                await asyncio.sleep(0)
            server.close()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""

    run(work())


def test_tls(run: Run, tmp_path: Path) -> None:
    pair = tmp_path / "pair.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
         "/CN=localhost", "-keyout", str(pair), "-out", str(tmp_path / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", pair)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    trusting.check_hostname = False

    async def work() -> None:
        async with serving(tls=context) as (server, _):
            port = server.listeners[0].sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_response(reader))[1] == b"/x {}"
            writer.close()
            await writer.wait_closed()

    run(work())


def test_tls_handshake_that_does_not_come_is_dropped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_TIME_S", 0.05)

    async def work() -> None:
        async with serving(tls=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)) as (_, connect):
            reader, _ = await connect()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""

    run(work())


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/connz?subs=1&subs=2", "/connz", {"subs": "1"}),
        (b"/a%2Fb?x", "/a/b", {"x": ""}),
        (b"http://host:1/varz?y=%C3%A4", "/varz", {"y": "ä"}),
        (b"/accountz?acc=$G", "/accountz", {"acc": "$G"}),
        (b"*", "*", {}),
        (b"/%ff?%zz=%", "/\ufffd", {"%zz": "%"}),
    ],
)
def test_target(target: bytes, path: str, query: dict[str, str]) -> None:
    assert read_target(b"GET", target) == Request("GET", path, query)


def test_h11_is_not_imported_before_somebody_connects() -> None:
    code = "import sys, tidelog.serve.http; print('h11' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
