"""How connections begin, where somebody tries to be served before anybody asked who they are."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

import certificate
from tidelog.broker.settings import Authorization, BrokerSettings
from tidelog.serve.log import Logger
from tidelog.serve.options import CertificatePair, Options, TlsSettings
from tidelog.serve.server import Server
from unit.serve.test_server import Lines

GUARDED = BrokerSettings(authorization=Authorization(user="ann", password="p", timeout_ns=200_000_000))


def with_tls_server(folder: Path, work: Callable[[Server], Awaitable[None]], **changes: bool) -> None:
    pair = CertificatePair(*certificate.issue().write(folder, "server"))
    tls = TlsSettings(certificates=(pair,), timeout_s=0.3)

    async def run() -> None:
        options = replace(Options(), host="127.0.0.1", port=-1, tls=tls, broker=GUARDED, **changes)
        server = Server(options, Logger(Lines()))
        await server.start()
        try:
            async with asyncio.timeout(10):
                await work(server)
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_comes_and_goes_in_one_breath_is_asked_like_anybody(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """The end of the handshake, operations, and the end of the stream, received together."""
    heard: list[bytes] = []

    async def work(server: Server) -> None:
        server.broker.account("$G").listen(b">", lambda subject, *_: heard.append(subject))
        trust = ssl.create_default_context(cadata=certificate.authority().cert_pem.decode())
        trust.maximum_version = version
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert b"auth_required" in await reader.readline()
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        client.write(b"PUB stolen 0\r\n\r\n")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.unwrap()
        writer.write(outgoing.read())
        await reader.read()
        writer.close()
        assert [session.in_msgs for session in server.broker.closed_sessions()] == [0]

    with_tls_server(tmp_path, work)
    assert heard == []


def test_who_says_nothing_where_tls_is_optional_has_as_much_time_as_others(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.readline()
        async with asyncio.timeout(3):
            assert await reader.read() == b"-ERR 'Authentication Timeout'\r\n"
        writer.close()

    with_tls_server(tmp_path, work, allow_non_tls=True)
