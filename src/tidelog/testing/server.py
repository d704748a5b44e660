"""A Tidelog server for tests: in this process, or in one of its own.

    with Server() as server:
        connection = server.connect()

`Server()` runs on a thread with an event loop of its own: it starts in milliseconds and shares nothing with the
test's own loop or threads. `Server(process=True)` spawns a process, for tests that kill, signal or measure. Both
listen on free loopback ports, take the text of a nats-server configuration file (without addresses) and nats-server's
flags, and leave nothing behind.

What it promises: after `start()` (or `with`) the ports are known and accept; a configuration that cannot be used
raises ConfigError (in a process: ServerProcessError with the log). After `stop()` thread, process, sockets and files
are gone.
"""

import asyncio
import functools
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvloop

from tidelog.client import Connection, connect
from tidelog.serve import flag
from tidelog.serve.log import open_log
from tidelog.serve.server import Server as Engine
from tidelog.testing.peer import ServerProcess, tidelog_argv

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0

Ports = dict[str, int]


class Server:
    """`monitor`: with a monitoring port. The names of listeners: `nats`, `monitoring`, `websocket`, `leafnodes`."""

    def __init__(
        self, config: str = "", *, flags: Sequence[str] = (), process: bool = False, monitor: bool = True
    ) -> None:
        self._runner: _Thread | _Process
        self._runner = (_Process if process else _Thread)(config, list(flags), monitor=monitor)
        self._connections: list[Connection] = []

    def start(self) -> Self:
        self._runner.start()
        return self

    def stop(self) -> None:
        """May be repeated. Connections made by `connect` are closed, too."""
        while self._connections:
            self._connections.pop().close()
        self._runner.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def connect(self, **options: Any) -> Connection:
        """A synchronous client (`tidelog.client.connect`) that is closed with the server at the latest."""
        connection = connect(self.url, **options)
        self._connections.append(connection)
        return connection

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self.port_of("nats")

    @property
    def monitor_port(self) -> int:
        return self.port_of("monitoring")

    @property
    def websocket_port(self) -> int:
        return self.port_of("websocket")

    @property
    def url(self) -> str:
        """For clients of any kind."""
        return f"nats://{self.host}:{self.port}"

    def port_of(self, listener: str) -> int:
        """KeyError if there is no such listener."""
        return self._runner.ports[listener]

    @property
    def log(self) -> str:
        """All that the server has logged."""
        return self._runner.log


class _Process:
    def __init__(self, config: str, flags: list[str], *, monitor: bool) -> None:
        self._process = ServerProcess(tidelog_argv(), config=config or None, flags=flags, monitor=monitor)
        self.ports: Ports = {}

    def start(self) -> None:
        self._process.start()
        self.ports = {name: self._process.port_of(name) for name in self._process.ports}

    def stop(self) -> None:
        self._process.stop()

    @property
    def log(self) -> str:
        return self._process.log


class _Thread:
    def __init__(self, config: str, flags: list[str], *, monitor: bool) -> None:
        self._config = config
        self._flags = flags
        self._monitor = monitor
        self._directory: Path | None = None
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] | None = None
        self.ports: Ports = {}

    def start(self) -> None:
        assert self._thread is None, "already started"
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-server-"))
        started: Future[Callable[[], object]] = Future()
        # A daemon: a test that fails to stop its server must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, args=(started,), name="tidelog-server", daemon=True)
        self._thread.start()
        try:
            self._end = started.result(START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._thread is not None:
            if self._end is not None:
                self._end()
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                raise TimeoutError(
                    f"the server did not end within {STOP_TIMEOUT_S:g} s; it logged:\n{self.log}"
                )
            self._thread = None
            self._end = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @property
    def log(self) -> str:
        assert self._directory is not None, "not running"
        return (self._directory / "log").read_text("utf-8", "replace")

    def _run(self, started: Future[Callable[[], object]]) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            # Whoever waits for the start is told; later it is the thread's own failure.
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[Callable[[], object]]) -> None:
        assert self._directory is not None
        (self._directory / "server.conf").write_text(self._config, "utf-8")
        arguments = ["-a", "127.0.0.1", "-p", "-1", *(["-m", "-1"] if self._monitor else [])]
        arguments += ["-l", str(self._directory / "log"), "-c", str(self._directory / "server.conf")]
        options = flag.load(flag.parse_arguments([*arguments, *self._flags]), {})
        log = open_log(options.log)
        try:
            engine = Engine(options, log)
            await engine.start()
            engine.answer_requests()
            self.ports = {name: sock.getsockname()[1] for name, sock in engine.sockets.items()}
            ending = asyncio.Event()
            loop = asyncio.get_running_loop()
            started.set_result(functools.partial(loop.call_soon_threadsafe, ending.set))
            await ending.wait()
            await engine.stop()
        finally:
            log.close()
