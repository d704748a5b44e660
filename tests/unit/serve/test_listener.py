"""Sockets that listen: which addresses they answer on, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.listener import Listener, address, bind


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_answers_on_both_families(host: str) -> None:
    with bind(host, -1) as sock:
        port = address(sock)[1]
        assert connects("127.0.0.1", port)
        assert connects("::1", port)


def test_a_named_address_answers_there_only() -> None:
    with bind("127.0.0.1", -1) as sock:
        port = address(sock)[1]
        assert connects("127.0.0.1", port)
        assert not connects("::1", port)


def test_a_peer_over_ipv4_is_named_by_its_ipv4_address() -> None:
    async def first_peer() -> str:
        loop = asyncio.get_running_loop()
        peer: asyncio.Future[str] = loop.create_future()

        def on_accept(fd: int, host: str, _port: int) -> None:
            socket.close(fd)
            peer.set_result(host)

        sock = bind("0.0.0.0", -1)
        listener = Listener(loop, sock, on_accept, log=None)  # type: ignore[arg-type]
        with socket.create_connection(("127.0.0.1", address(sock)[1]), 1):
            host = await asyncio.wait_for(peer, 5)
        listener.close()
        return host

    assert asyncio.run(first_peer()) == "127.0.0.1"


def test_a_port_in_use_is_refused_in_the_peers_words() -> None:
    with bind("0.0.0.0", -1) as sock:
        port = address(sock)[1]
        text = f'Error listening on port: 0.0.0.0:{port}, "listen tcp 0.0.0.0:{port}: bind: address already in use"'
        with pytest.raises(ConfigError) as caught:
            bind("0.0.0.0", port)
        assert str(caught.value) == text
