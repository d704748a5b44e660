"""What a server does when its own parts fail."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tidelog.serve.log import Logger
from tidelog.serve.options import Options
from tidelog.serve.server import Server


class Lines:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        pass


def with_server(work: Callable[[Server, Lines], Awaitable[None]]) -> None:
    async def run() -> None:
        sink = Lines()
        server = Server(replace(Options(), host="127.0.0.1", port=-1), Logger(sink))
        await server.start()
        try:
            async with asyncio.timeout(10):
                await work(server, sink)
        finally:
            await server.stop()

    asyncio.run(run())


async def said_until_the_end(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    said = await reader.read()
    writer.close()
    return said


def test_a_fault_of_ours_ends_the_connection_that_met_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server, sink: Lines) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.readline()
        with monkeypatch.context() as patch:
            patch.setattr(server.broker.admission, "connect_received", fail)
            assert (await said_until_the_end(server.port, b"CONNECT {}\r\n")).startswith(b"INFO ")
        assert any(
            "[ERR]" in line and "Internal error, closing the connection" in line for line in sink.lines
        )
        assert [session.reason for session in server.broker.closed_sessions()] == ["Internal Error"]
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"PONG\r\n"
        writer.close()
        await writer.wait_closed()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with_server(work)


def test_a_check_that_fails_is_a_no() -> None:
    async def work(server: Server, sink: Lines) -> None:
        answers: asyncio.Queue[bool] = asyncio.Queue()

        def fail() -> bool:
            raise MemoryError

        server.run_elsewhere(fail, answers.put_nowait)
        assert await answers.get() is False
        assert any("Error checking credentials" in line for line in sink.lines)
        server.run_elsewhere(lambda: True, answers.put_nowait)
        assert await answers.get() is True

    with_server(work)


def test_a_fault_while_one_outbox_is_written_keeps_nothing_from_the_others() -> None:
    class Broken:
        established = True

        def take(self) -> list[bytes]:
            raise RuntimeError("a fault")

    async def work(server: Server, _: Lines) -> None:
        streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        for reader, _writer in streams:
            await reader.readline()
        by_cid = {connection.session.cid: connection for connection in server.connections}
        by_cid[min(by_cid)].set_filter(Broken())  # type: ignore[arg-type]
        for cid in sorted(by_cid):
            by_cid[cid].session.say(b"PING\r\n")
        assert await streams[1][0].readline() == b"PING\r\n"
        assert await streams[0][0].read() == b""
        for _reader, writer in streams:
            writer.close()

    with_server(work)


def test_a_timer_that_fails_stops_no_other() -> None:
    async def work(server: Server, _: Lines) -> None:
        ran = asyncio.Event()
        now_ns = server.clock.monotonic_ns()
        complaints: list[object] = []
        server.loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
        server.broker.timers.at(now_ns, fail)
        server.broker.timers.at(now_ns, ran.set)
        await ran.wait()
        assert len(complaints) == 1

    def fail() -> None:
        raise RuntimeError("a fault")

    with_server(work)
