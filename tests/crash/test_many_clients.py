"""Ten thousand who only sit there, and what happens when no more can come in."""

import resource
import select
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import bcrypt
import pytest

from crash.bystander import Bystander
from crash.conftest import StartServer
from crash.raw import LogTail, Raw, eventually, resident_size
from tidelog.testing.peer import ServerProcess, tidelog_argv

MIB = 1024 * 1024
CROWD = 10_000
# What the rest of the process needs.
SPARE = 200


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Room for the crowd in this process, and in those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CROWD + SPARE:
        pytest.skip(f"only {hard} file descriptors are allowed here")
    wanted = CROWD + SPARE
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def limited_argv(descriptors: int) -> list[str]:
    """What starts a server that may have so many descriptors; exec keeps the pid."""
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *tidelog_argv()]


def test_idle_memory(start: StartServer) -> None:
    server = start(monitor=False)
    with Raw(server.port) as client:
        client.enter()
    size = resident_size(server.pid)
    print(f"\nidle: {size / MIB:.1f} MiB")
    assert size < 60 * MIB


@pytest.mark.usefixtures("many_descriptors")
def test_ten_thousand_idle_connections(start: StartServer) -> None:
    server = start(monitor=False)
    with Raw(server.port) as client:
        client.enter()
    before = resident_size(server.pid)
    with ExitStack() as open_sockets, Bystander(server) as bystander:
        begin = time.monotonic()
        crowd = [open_sockets.enter_context(socket.socket()) for _ in range(CROWD)]
        enter_all(crowd, server.port)
        entered_s = time.monotonic() - begin
        bystander.longest_s = 0.0
        bystander.goes_on(100)
        grown = resident_size(server.pid) - before
        print(
            f"\n{CROWD} connections: {grown / MIB:.0f} MiB more, {grown / CROWD / 1024:.1f} KiB each, "
            f"in after {entered_s:.1f} s; slowest of 100 round trips {bystander.longest_s * 1000:.1f} ms"
        )
        assert grown < 200 * MIB
        tell_all(crowd, server.port)


def enter_all(crowd: list[socket.socket], port: int) -> None:
    """Connect, a few hundred at a time, so that nobody has to knock at a full backlog twice."""
    for start in range(0, len(crowd), 500):
        some = crowd[start : start + 500]
        for sock in some:
            sock.settimeout(10)
            sock.connect(("127.0.0.1", port))
        for sock in some:
            sock.sendall(b'CONNECT {"verbose":false}\r\nSUB crowd 1\r\nPING\r\n')
        for sock in some:
            read_until(sock, b"PONG\r\n")


def tell_all(crowd: list[socket.socket], port: int) -> None:
    """One message to all of them."""
    with selectors.DefaultSelector() as selector, Raw(port) as client:
        for sock in crowd:
            selector.register(sock, selectors.EVENT_READ)
        client.enter()
        client.send(b"PUB crowd 5\r\nhello\r\n")
        assert client.round_trip() == []
        told = 0
        for _ in eventually():
            for key, _events in selector.select(1):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if b"MSG crowd 1 5\r\nhello\r\n" in sock.recv(4096):
                    told += 1
                    selector.unregister(sock)
            if told == len(crowd):
                break


def wait_until_mapped(server: ServerProcess, library: str) -> None:
    """Wait until the server has imported what it may need later."""
    for _ in eventually():
        if library in Path(f"/proc/{server.pid}/maps").read_text():
            return


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        part = sock.recv(4096)
        assert part, data
        data += part
    return data


def test_out_of_descriptors_costs_only_those_who_come_then(start: StartServer) -> None:
    hashed = bcrypt.hashpw(b"b", bcrypt.gensalt(4)).decode()
    users = f"{{user: a, password: a}}, {{user: b, password: '{hashed}'}}"
    server = start(limited_argv(64), config=f"authorization {{ users: [{users}] }}\nno_auth_user: a")
    wait_until_mapped(server, "_bcrypt")
    log = LogTail(server)
    with Bystander(server) as bystander, ExitStack() as clients:
        inside: list[Raw] = []
        while True:
            client = clients.enter_context(Raw(server.port))
            if not select.select([client.socket], [], [], 0.5)[0]:
                break
            client.info()
            inside.append(client)
        waiting = client
        assert len(inside) > 20
        log.has("Error accepting a connection, trying again in")
        log.has("Too many open files")
        bystander.goes_on(50)
        # Whoever is in may do everything, also for the first time.
        for client, name in zip(inside, b"ab", strict=False):
            client.send(b'CONNECT {"verbose":false,"user":"%c","pass":"%c"}\r\n' % (name, name))
            assert client.round_trip() == []
        for leaver in inside[2:6]:
            leaver.lines.close()
            leaver.socket.close()
        with Raw(server.port) as late:
            late.enter()
        waiting.info()
        assert log.text.count("Error accepting") < 40
    assert "Traceback" not in server.log
