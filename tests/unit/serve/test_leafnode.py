"""The leafnode listener: greets, refuses, and hangs up, on the loop that the program uses."""

import asyncio

import pytest
import uvloop

from tidelog.serve import leafnode
from tidelog.serve.leafnode import REFUSAL, LeafnodeRefusal
from tidelog.serve.log import Logger
from unit.serve.test_server import Lines

GREETING = b"INFO {}\r\n"


def said_to(words: bytes) -> tuple[bytes, list[str]]:
    """What somebody is told who says `words`, and what is logged."""
    sink = Lines()

    async def visit() -> bytes:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: LeafnodeRefusal(GREETING, Logger(sink)), "127.0.0.1", 0)
        async with server, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.readline() == GREETING
            writer.write(words)
            said = await reader.read()
            writer.close()
            return said

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(visit()), sink.lines


def test_who_speaks_is_refused() -> None:
    said, lines = said_to(b"CONNECT {}\r\nPING\r\n")
    assert said == REFUSAL
    assert [line.partition(" from ")[0] for line in lines] == ["[WRN] Leafnode connection"]


def test_who_says_nothing_is_refused_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leafnode, "PATIENCE_S", 0.01)
    assert said_to(b"")[0] == REFUSAL
