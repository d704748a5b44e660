"""The end of a server, while everybody is talking."""

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from crash.conftest import StartServer
from crash.raw import LogTail, Raw
from tidelog.serve.log import Logger, NullSink
from tidelog.serve.options import Options
from tidelog.serve.server import Server
from tidelog.testing.peer import ServerProcess

TALKERS = 8
# SIGTERM to exit; a second is what last words may take.
END_S = 2.0
BURST = b"PUB talk 64\r\n" + b"x" * 64 + b"\r\n"


class Talker:
    """Publishes as fast as it can, receives what it and the others publish, until the server ends it."""

    def __init__(self, server: ServerProcess) -> None:
        self.raw = Raw(server.port)
        self.raw.enter()
        self.raw.send(b"SUB talk 1\r\n")
        self.raw.round_trip()
        self.received = 0
        self.ended_by = ""
        self.threads = [threading.Thread(target=work) for work in (self.talk, self.listen)]
        for thread in self.threads:
            thread.start()

    def talk(self) -> None:
        try:
            while True:
                self.raw.socket.sendall(BURST * 100)
        except OSError as error:
            self.ended_by = type(error).__name__

    def listen(self) -> None:
        try:
            while part := self.raw.socket.recv(65536):
                self.received += len(part)
        except ConnectionResetError:
            pass
        finally:
            # The writer may sit in a full socket.
            with contextlib.suppress(OSError):
                self.raw.socket.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()
        self.raw.lines.close()
        self.raw.socket.close()


def test_sigterm_under_load(start: StartServer) -> None:
    server = start()
    talkers = [Talker(server) for _ in range(TALKERS)]
    wait_until(lambda: all(talker.received > 100_000 for talker in talkers))
    begin = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    took_s = time.monotonic() - begin
    for talker in talkers:
        talker.join()
        assert talker.ended_by in ("ConnectionResetError", "BrokenPipeError")
    print(f"\nSIGTERM to exit: {took_s * 1000:.0f} ms")
    assert took_s < END_S
    assert "Traceback" not in server.log
    for line in ('Trapped "terminated" signal', "Initiating Shutdown...", "Server Exiting.."):
        assert line in server.log


def test_sigterm_sends_what_was_already_accepted(start: StartServer) -> None:
    server = start()
    with Raw(server.port) as publisher, Raw(server.port) as receiver:
        publisher.enter()
        receiver.enter()
        receiver.send(b"SUB talk 1\r\n")
        receiver.round_trip()
        publisher.send(BURST * 10_000)
        assert publisher.round_trip() == []
        server.signal(signal.SIGTERM)
        assert receiver.rest().count(b"MSG talk 1 64\r\n") == 10_000
    assert server.wait() == 0


def test_a_client_that_does_not_read_cannot_hold_up_the_end(start: StartServer) -> None:
    server = start()
    with Raw(server.port, receive_size=4096) as deaf, Raw(server.port) as publisher:
        deaf.enter()
        deaf.send(b"SUB talk 1\r\n")
        deaf.round_trip()
        publisher.enter()
        publisher.send(BURST * 100_000)
        assert publisher.round_trip() == []
        begin = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - begin < 2 * END_S
    assert "Traceback" not in server.log


def test_lame_duck(start: StartServer) -> None:
    """Told, let go one by one; the server ends when the last has gone, and the log tells of it."""
    server = start(config="lame_duck_duration: 30s\nlame_duck_grace_period: '300ms'\ndebug: true")
    log = LogTail(server)
    clients = [Raw(server.port) for _ in range(4)]
    for client in clients:
        client.enter(protocol=1)
        assert b'"connect_info":true' in client.line()
    server.signal(signal.SIGUSR2)
    for client in clients:
        told = client.line()
        assert told.startswith(b"INFO ")
        assert b'"ldm":true' in told
    log.has("Entering lame duck mode, stop accepting new clients")
    assert is_refused(server.port)
    # SIGTERM has no say in this, and those who are in still talk.
    server.signal(signal.SIGTERM)
    log.has('Trapped "terminated" signal')
    clients[-1].send(b"SUB late 1\r\nPUB late 2\r\nhi\r\n")
    assert b"".join(clients[-1].round_trip()) == b"MSG late 1 2\r\nhi\r\n"
    # One is closed after the grace period; the next only seconds later, so they can go by themselves.
    assert clients[0].rest() == b""
    assert clients[1].round_trip() == []
    assert "Closing existing clients" in log.text
    for client in clients:
        client.lines.close()
        client.socket.close()
    assert server.wait() == 0
    assert "Server Exiting.." in log.text
    assert "Traceback" not in server.log


def test_lame_duck_spreads_the_ends() -> None:
    """With times that no configuration file may ask for."""
    asyncio.run(lame_duck_in_a_hurry())


async def lame_duck_in_a_hurry() -> None:
    options = replace(Options(), host="127.0.0.1", port=-1, lame_duck_grace_s=0.1, lame_duck_duration_s=0.6)
    server = Server(options, Logger(NullSink()))
    await server.start()
    clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
    for reader, _ in clients:
        await reader.readline()
    begin = time.monotonic()
    duck = asyncio.create_task(server.lame_duck())
    ends = []
    for reader, writer in clients:
        await reader.read()
        ends.append(time.monotonic() - begin)
        writer.close()
        await writer.wait_closed()
    await duck
    assert server.stopped.is_set()
    for number, end in enumerate(ends):
        assert end >= 0.1 + number * 0.1 - 0.01, ends


def test_lame_duck_without_clients_ends_at_once(start: StartServer) -> None:
    server = start(config="lame_duck_duration: 30s")
    server.signal(signal.SIGUSR2)
    assert server.wait() == 0


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.003)
