"""A configuration that changes while a hundred clients talk: who is not concerned loses nothing.

Forty pairs of clients send each other numbered messages all the time, twenty of them over TLS; twenty more belong to
users whose rights change. Every step rewrites the file, sends SIGHUP, and looks at what has become of it.
"""

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

import certificate
from conform.conftest import StartServer
from tidelog.testing.peer import ServerProcess, tidelog_argv

PAIRS = 40
SECURE_PAIRS = 10
CHANGING = 10
PATIENCE_S = 15.0
PASSWORD = "correct-horse"
BATCH = 4
PAUSE_S = 0.005

Until = Callable[[], bool]


async def until(done: Until, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.003)


@dataclass
class Client:
    """A client that notes what it is told."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    name: str

    @classmethod
    async def enter(cls, port: int, name: str, trust: ssl.SSLContext | None = None) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()
        if trust is not None:
            await writer.start_tls(trust, server_hostname="localhost")
        client = cls(reader, writer, name)
        fields = {"verbose": False, "pedantic": False, "protocol": 1, "user": name, "pass": PASSWORD}
        client.send(b"CONNECT " + json.dumps(fields).encode() + b"\r\nPING\r\n")
        assert await client.line() == b"PONG\r\n"
        assert (await client.line()).startswith(b"INFO ")
        return client

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def line(self) -> bytes:
        return await asyncio.wait_for(self.reader.readline(), PATIENCE_S)

    async def round_trip(self) -> list[bytes]:
        """The lines that come before the answer to a PING, but for PING and INFO; what came before the end."""
        self.send(b"PING\r\n")
        said = []
        while (line := await self.line()) not in (b"PONG\r\n", b""):
            if line == b"PING\r\n":
                self.send(b"PONG\r\n")
            elif not line.startswith(b"INFO "):
                said.append(line)
        return said

    async def rest(self) -> bytes:
        """All that comes until the server ends the connection, but for PING and INFO."""
        told = await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        lines = told.splitlines(keepends=True)
        return b"".join(line for line in lines if not line.startswith((b"PING", b"INFO ")))

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Pair:
    """One publishes numbers, the other expects them in order and without a gap."""

    def __init__(self, number: int, publisher: Client, receiver: Client) -> None:
        self.number = number
        self.publisher = publisher
        self.receiver = receiver
        self.sent = 0
        self.received = 0
        self.longest_s = 0.0
        self.sent_s: list[float] = []
        self.complaint = ""
        self.done = False

    @property
    def subject(self) -> bytes:
        return b"steady.%d" % self.number

    async def publish(self) -> None:
        """Until `done`. What the server says to a publisher must be nothing but PING and INFO."""
        while not self.done:
            for _ in range(BATCH):
                self.publisher.send(b"PUB %s 8\r\n%08d\r\n" % (self.subject, self.sent))
                self.sent += 1
            self.sent_s.append(time.monotonic())
            await asyncio.sleep(PAUSE_S)
        said = await self.publisher.round_trip()
        if said:
            self.complaint = f"publisher {self.number} was told {said[0]!r}"

    async def receive(self) -> None:
        while not (self.done and self.received == self.sent):
            line = await self.receiver.line()
            if line == b"PING\r\n":
                self.receiver.send(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                payload = (await self.receiver.line()).rstrip()
                if payload != b"%08d" % self.received:
                    self.complaint = f"pair {self.number}: {payload!r} came instead of {self.received}"
                    return
                if self.received % BATCH == 0:
                    waited_s = time.monotonic() - self.sent_s_of(self.received)
                    self.longest_s = max(self.longest_s, waited_s)
                self.received += 1
            elif not line.startswith(b"INFO "):
                self.complaint = f"pair {self.number}: receiver was told {line!r}"
                return

    def sent_s_of(self, number: int) -> float:
        index = number // BATCH
        return self.sent_s[index] if index < len(self.sent_s) else time.monotonic()


class Crowd:
    """All the pairs, talking while the block runs; leaving it fails if anything got lost."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for pair in self.pairs:
            self.tasks += [asyncio.create_task(pair.publish()), asyncio.create_task(pair.receive())]
        await self.goes_on()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.goes_on()
        for pair in self.pairs:
            pair.done = True
        _, unfinished = await asyncio.wait(self.tasks, timeout=PATIENCE_S)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if kind is None:
            self.check()
            assert not unfinished
            for pair in self.pairs:
                assert pair.received == pair.sent

    def check(self) -> None:
        for pair in self.pairs:
            assert not pair.complaint, pair.complaint

    async def goes_on(self) -> None:
        """Wait until everybody has received more."""
        before = [pair.received for pair in self.pairs]
        await until(
            lambda: (
                any(pair.complaint for pair in self.pairs)
                or all(pair.received >= count + BATCH for pair, count in zip(self.pairs, before, strict=True))
            ),
            "not everybody goes on",
        )
        self.check()


@dataclass
class House:
    """The server and the file that it runs by."""

    server: ServerProcess
    folder: Path
    settings: dict[str, object]
    users: dict[str, object]
    passwords: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        users = [
            {"user": name, "password": self.passwords.get(name, PASSWORD)}
            | ({"permissions": rights} if rights else {})
            for name, rights in self.users.items()
        ]
        return json.dumps(self.settings | {"authorization": {"users": users}}, indent=1)

    async def reload(self, text: str = "") -> str:
        """Reload; what the log says of it."""
        start = len(self.server.log)
        self.server.write_config(text or self.text())
        self.server.signal(signal.SIGHUP)
        ends = ("Reloaded server configuration", "Failed to reload server configuration")
        await until(lambda: any(end in self.server.log[start:] for end in ends), "no reload")
        return self.server.log[start:]


@pytest.fixture
def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.authority().cert_pem.decode())


@pytest.fixture
def house(tmp_path: Path, start_ours: StartServer) -> Iterator[House]:
    cert, key = certificate.issue().write(tmp_path, "server")
    settings: dict[str, object] = {
        "tls": {"cert_file": cert, "key_file": key},
        "allow_non_tls": True,
        "max_payload": 100_000,
    }
    users: dict[str, object] = {"steady": None, "joe": None, "leaver": None, "mover": None}
    made = House(None, tmp_path, settings, users)  # type: ignore[arg-type]
    made.server = start_ours(config=made.text())
    yield made
    assert "Traceback" not in made.server.log
    assert PASSWORD not in made.server.log


@contextlib.asynccontextmanager
async def entered(port: int, names: list[str]) -> AsyncIterator[list[Client]]:
    async with contextlib.AsyncExitStack() as leaving:
        clients = []
        for name in names:
            clients.append(await Client.enter(port, name))
            leaving.push_async_callback(clients[-1].close)
        yield clients


def test_reload_under_load(house: House, trust: ssl.SSLContext) -> None:
    asyncio.run(reload_under_load(house, trust))


@contextlib.asynccontextmanager
async def paired(port: int, trust: ssl.SSLContext) -> AsyncIterator[list[Pair]]:
    pairs = []
    async with contextlib.AsyncExitStack() as leaving:
        for number in range(PAIRS):
            way = trust if number < SECURE_PAIRS else None
            publisher, receiver = [await Client.enter(port, "steady", way) for _ in range(2)]
            leaving.push_async_callback(publisher.close)
            leaving.push_async_callback(receiver.close)
            pair = Pair(number, publisher, receiver)
            pair.receiver.send(b"SUB %s 1\r\n" % pair.subject)
            assert await pair.receiver.round_trip() == []
            pairs.append(pair)
        yield pairs


async def reload_under_load(house: House, trust: ssl.SSLContext) -> None:
    port = house.server.port
    names = ["joe"] * CHANGING + ["leaver", "mover"] * (CHANGING // 2)
    async with paired(port, trust) as pairs, entered(port, names) as others, Crowd(pairs) as crowd:
        joes, leavers, movers = others[:CHANGING], others[CHANGING::2], others[CHANGING + 1 :: 2]
        await permissions_change(house, joes)
        await crowd.goes_on()
        await users_change(house, joes, leavers, movers)
        await crowd.goes_on()
        await limits_change(house, joes[0])
        await log_level_changes(house)
        await certificate_changes(house, trust)
        await crowd.goes_on()
        await wrong_files_change_nothing(house, joes[0])
        for _ in range(5):
            assert "Reloaded server configuration" in await house.reload()
    count = sum(pair.received for pair in pairs)
    slowest_s = max(pair.longest_s for pair in pairs)
    print(f"\n{2 * PAIRS + 2 * CHANGING} clients, {count} messages, slowest {slowest_s * 1000:.0f} ms")


async def permissions_change(house: House, joes: list[Client]) -> None:
    """Rights that shrink take effect at once: on publishes and on subscriptions that stand."""
    for joe in joes:
        joe.send(b"SUB joe.keep 1\r\nSUB joe.lose 2\r\nSUB joe.queue crew 3\r\n")
        assert await joe.round_trip() == []
    house.users["joe"] = {"publish": {"deny": "joe.secret"}, "subscribe": "joe.keep"}
    log = await house.reload()
    assert "Reloaded: users" in log or "Reloaded: " in log
    lost = [
        b'-ERR \'Permissions Violation for Subscription to "joe.lose" (sid "2")\'\r\n',
        b'-ERR \'Permissions Violation for Subscription to "joe.queue" using queue "crew" (sid "3")\'\r\n',
    ]
    for joe in joes:
        assert sorted(await joe.round_trip()) == lost
    joes[0].send(b"PUB joe.secret 1\r\nx\r\nPUB joe.lose 1\r\nx\r\nPUB joe.keep 1\r\nx\r\n")
    refused = b"-ERR 'Permissions Violation for Publish to \"joe.secret\"'\r\n"
    assert await joes[0].round_trip() == [refused, b"MSG joe.keep 1 1\r\n", b"x\r\n"]
    for joe in joes[1:]:
        assert await joe.round_trip() == [b"MSG joe.keep 1 1\r\n", b"x\r\n"]


async def users_change(house: House, joes: list[Client], leavers: list[Client], movers: list[Client]) -> None:
    """Who is no longer a user, or has another password, is out; a new one may come in."""
    del house.users["leaver"]
    house.users["fresh"] = None
    house.passwords["mover"] = "battery-staple"
    await house.reload()
    for leaver in leavers:
        assert await leaver.rest() == b""
    for mover in movers:
        assert await mover.rest() == b"-ERR 'Authorization Violation'\r\n"
    closed = house.server.monitor_json("/connz?state=closed&limit=100000")["connections"]
    reasons = [connection["reason"] for connection in closed]
    assert reasons.count("Credentials Revoked") == len(leavers)
    assert reasons.count("Authentication Failure") == len(movers)
    async with entered(house.server.port, ["fresh"]) as [fresh]:
        assert await fresh.round_trip() == []
    for joe in joes:
        assert await joe.round_trip() == []


async def limits_change(house: House, joe: Client) -> None:
    house.settings["max_payload"] = 1000
    assert "Reloaded: max_payload = 1000" in await house.reload()
    async with entered(house.server.port, ["steady"]) as [client]:
        client.send(b"PUB large 1001\r\n")
        assert await client.round_trip() == [b"-ERR 'Maximum Payload Violation'\r\n"]
    joe.send(b"PING\r\n")
    infos = []
    while (line := await joe.line()) != b"PONG\r\n":
        if line.startswith(b"INFO "):
            infos.append(json.loads(line[5:]))
    assert [info["max_payload"] for info in infos] == [1000]


async def log_level_changes(house: House) -> None:
    for level, spoken in ((True, True), (False, False)):
        house.settings["debug"] = level
        assert f"Reloaded: debug = {'true' if level else 'false'}" in await house.reload()
        start = len(house.server.log)
        async with entered(house.server.port, ["steady"]):
            pass
        assert ("[DBG]" in house.server.log[start:]) is spoken


async def certificate_changes(house: House, trust: ssl.SSLContext) -> None:
    """New files under the same names: new connections get the new certificate."""
    before = await served_certificate(house.server.port, trust)
    renewed = certificate.issue(common_name="renewed")
    renewed.write(house.folder, "server")
    assert "Reloaded server configuration" in await house.reload()
    after = await served_certificate(house.server.port, trust)
    assert after == renewed.der
    assert before != after


async def served_certificate(port: int, trust: ssl.SSLContext) -> bytes:
    client = await Client.enter(port, "steady", trust)
    tls: ssl.SSLObject = client.writer.get_extra_info("ssl_object")
    served = tls.getpeercert(binary_form=True)
    await client.close()
    assert served is not None
    return served


async def wrong_files_change_nothing(house: House, joe: Client) -> None:
    """Each of these would also give joe his rights back, and none of them does."""
    rights = house.users.pop("joe")
    house.users["joe"] = None
    good = house.text()
    lines = good.count("\n") + 1
    cert, key = house.folder / "server.pem", house.folder / "server.key"
    wrong = {
        good + "\nmax_payload: lots\n": f"server.conf:{lines + 1}:1: ",
        good[: len(good) // 2]: "server.conf:",  # caught while it was written
        good + "\nno_such_option: 1\n": 'unknown field "no_such_option"',
        good + "\nserver_name: other\n": "config reload not supported for ServerName: old=, new=other",
        good + "\nhttp_base_path: /there\n": "config reload not supported for HTTPBasePath",
        good.replace(str(cert), str(house.folder / "none.pem")): "none.pem",
        good.replace(str(key), str(cert)): "cert_file",
        good + f"\nlog_file: '{house.folder}/no/log'\n": "error opening file",
    }
    for text, why in wrong.items():
        log = await house.reload(text)
        assert "Failed to reload server configuration: " in log
        assert why in log
        assert "Reloaded" not in log
        joe.send(b"PUB joe.secret 1\r\nx\r\n")
        assert await joe.round_trip() == [b"-ERR 'Permissions Violation for Publish to \"joe.secret\"'\r\n"]
    house.users["joe"] = rights


def test_another_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        port, other_port = taken.getsockname()[1], other.getsockname()[1]
    path, log_path = tmp_path / "server.conf", tmp_path / "server.log"
    common = f"host: 127.0.0.1\nlog_file: '{log_path}'\n"
    path.write_text(f"{common}port: {port}\n")
    with subprocess.Popen([*tidelog_argv(), "-c", str(path)]) as process:
        try:
            wait_for(log_path, "Server is ready")
            path.write_text(f"{common}port: {other_port}\ndebug: true\n")
            process.send_signal(signal.SIGHUP)
            wait_for(log_path, f"config reload not supported for Port: old={port}, new={other_port}")
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                assert client.recv(5) == b"INFO "
            assert "[DBG]" not in log_path.read_text()
            assert "Reloaded" not in log_path.read_text()
        finally:
            process.terminate()
    assert process.returncode == 0


def wait_for(path: Path, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or words not in path.read_text():
        assert time.monotonic() < deadline, path.read_text() if path.exists() else "no log"
        time.sleep(0.003)
