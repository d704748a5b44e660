"""Sockets that listen: which addresses they answer on, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.listener import ACCEPT_BURST, ACCEPT_PAUSE_S, COMPLAINT_S, Listener, address, bind, shown
from unit.broker.house import Lines


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


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Error listening on port: no\.such\.host\.invalid:4222, "):
        bind("no.such.host.invalid", 4222)


def test_addresses_are_shown_as_in_urls() -> None:
    assert (shown("127.0.0.1", 1), shown("::1", 2)) == ("127.0.0.1:1", "[::1]:2")


class Loop:
    """A loop that is turned by hand."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.later.append((delay_s, callback))

    def pass_pause(self) -> None:
        delay_s, callback = self.later.pop()
        self.now_s += delay_s
        callback()


class Socket:
    """A listening socket whose backlog is a list: of errors, and of descriptors to hand out."""

    def __init__(self, *backlog: OSError | int) -> None:
        self.backlog = list(backlog)
        self.closed = False

    def fileno(self) -> int:
        return 99

    def close(self) -> None:
        self.closed = True

    def _accept(self) -> tuple[int, tuple[str, int]]:
        if not self.backlog:
            raise BlockingIOError
        what = self.backlog.pop(0)
        if isinstance(what, OSError):
            raise what
        return what, ("10.0.0.1", 1234)


def listening(sock: Socket) -> tuple[Loop, Lines, list[int], Listener]:
    loop, log, accepted = Loop(), Lines(), []
    listener = Listener(loop, sock, lambda fd, _host, _port: accepted.append(fd), log)  # type: ignore[arg-type]
    return loop, log, accepted, listener


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_without_descriptors_accepting_pauses_and_says_so_now_and_then(number: int) -> None:
    lack = OSError(number, os.strerror(number))
    reader, writer = os.pipe()
    rounds = round(COMPLAINT_S / ACCEPT_PAUSE_S) + 2
    loop, log, accepted, _ = listening(sock := Socket(*[lack] * rounds, reader))
    for _ in range(rounds):
        loop.readers[99]()
        assert 99 not in loop.readers
        loop.pass_pause()
    assert len(log.of("error")) == 2
    assert log.of("error")[0] == (
        f"Error accepting a connection, trying again in {ACCEPT_PAUSE_S:g}s: {os.strerror(number)}"
    )
    loop.readers[99]()
    assert (accepted, sock.backlog) == ([reader], [])
    assert not os.get_blocking(reader)
    os.close(reader)
    os.close(writer)


def test_who_has_gone_before_being_accepted_is_nobody() -> None:
    loop, log, accepted, _ = listening(Socket(ConnectionAbortedError(), InterruptedError()))
    loop.readers[99]()
    loop.readers[99]()
    assert (accepted, log.lines, loop.later) == ([], [], [])
    assert 99 in loop.readers


def test_other_errors_are_faults() -> None:
    loop, *_ = listening(Socket(OSError(errno.EBADF, "bad")))
    with pytest.raises(OSError, match="bad"):
        loop.readers[99]()


def test_a_storm_of_connections_is_taken_in_bursts() -> None:
    reader, writer = os.pipe()
    loop, _, accepted, _ = listening(Socket(*[reader] * (ACCEPT_BURST + 1)))
    loop.readers[99]()
    assert len(accepted) == ACCEPT_BURST
    loop.readers[99]()
    assert len(accepted) == ACCEPT_BURST + 1
    os.close(reader)
    os.close(writer)


def test_a_closed_listener_does_not_go_on_after_its_pause() -> None:
    loop, _, _, listener = listening(sock := Socket(OSError(errno.EMFILE, "")))
    loop.readers[99]()
    listener.close()
    listener.close()
    loop.pass_pause()
    assert (loop.readers, sock.closed) == ({}, True)
