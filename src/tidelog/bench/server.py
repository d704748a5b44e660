"""A server under test: a process on free ports, with the configuration that a case asks for.

Ours and the peer get the same file, word for word, and the same flags. Where they listen is read from the
ports file.
"""

import contextlib
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tidelog.bench.case import TEAMS, Access
from tidelog.bench.certificate import write_certificate
from tidelog.bench.fault import ServerFailed
from tidelog.bench.link import Target

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.01
LOG_TAIL_SIZE = 2000
MONITOR_TIMEOUT_S = 5.0

USER, PASSWORD = "bench", "bench"

LISTENERS = """\
host: "127.0.0.1"
port: -1
http: "127.0.0.1:-1"
"""


def rights_block() -> str:
    """Lists as long as a service's would be: most subjects need the allow list and then the deny list."""
    allow = [f"rights.t{team}.*" for team in range(TEAMS)] + ["orders.>", "metrics.*.cpu", "audit.log"]
    deny = ["rights.*.secret", "rights.t3.private.>", "orders.*.delete", "admin.>"]
    publish = f"{{ allow: {json.dumps(allow)}, deny: {json.dumps(deny)} }}"
    subscribe = '{ allow: ["rights.>", "_INBOX.>"], deny: ["rights.*.secret"] }'
    user = (
        f"user: {USER}, password: {PASSWORD}, permissions: {{ publish: {publish}, subscribe: {subscribe} }}"
    )
    return f"authorization {{ users: [ {{ {user} }} ] }}\n"


def config_text(access: Access, certificate: Path, key: Path) -> str:
    """The configuration file for a kind of access."""
    if access is Access.RIGHTS:
        return LISTENERS + rights_block()
    if access is Access.TLS:
        return LISTENERS + f'tls {{ cert_file: "{certificate}", key_file: "{key}", timeout: 5 }}\n'
    return LISTENERS


@dataclass(frozen=True, slots=True)
class Ports:
    host: str
    port: int
    monitor: str | None


class Server:
    """A running server; a context manager that ends the process."""

    def __init__(
        self,
        command: Sequence[str],
        config: Path,
        folder: Path,
        access: Access,
        ca: Path,
        *,
        streams: bool = False,
    ) -> None:
        self.command = tuple(command)
        self.access = access
        self.ca = ca
        self.folder = folder
        self.log = folder / "log"
        with self.log.open("wb") as log:
            arguments = [*command, "-c", str(config), "--ports_file_dir", str(folder)]
            if streams:
                arguments += ["-js", "-sd", str(folder / "store")]
            try:
                self.process = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            except OSError as error:
                raise ServerFailed(f"cannot start {command[0]}: {error}") from error
        try:
            self.ports = self.await_ports()
        except BaseException:
            self.stop()
            raise

    def await_ports(self) -> Ports:
        """The ports file appears once all listeners are bound; it may be seen while half written."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            self.require_alive()
            for path in self.folder.glob("*.ports"):
                with contextlib.suppress(ValueError, KeyError, IndexError):
                    document = json.loads(path.read_text())
                    target = Target.parse(document["nats"][0].replace("tls://", "nats://"))
                    monitor = document.get("monitoring") or [None]
                    return Ports(target.host, target.port, monitor[0])
            time.sleep(POLL_S)
        raise ServerFailed(
            f"{self.command[0]} wrote no ports file in {START_TIMEOUT_S:g} s: {self.log_tail()}"
        )

    def require_alive(self) -> None:
        if self.process.poll() is not None:
            raise ServerFailed(
                f"{' '.join(self.command)} ended with {self.process.returncode}: {self.log_tail()}"
            )

    def log_tail(self) -> str:
        return self.log.read_text("utf-8", "replace")[-LOG_TAIL_SIZE:]

    def target(self) -> Target:
        """How clients of the case reach it."""
        tls = ssl.create_default_context(cafile=str(self.ca)) if self.access is Access.TLS else None
        user, password = (USER, PASSWORD) if self.access is Access.RIGHTS else ("", "")
        return Target(self.ports.host, self.ports.port, user, password, tls)

    def cpu_s(self) -> float:
        """CPU seconds that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def in_msgs(self) -> int | None:
        """Messages that the server says it has received; None if it has no monitor."""
        if self.ports.monitor is None:
            return None
        with urllib.request.urlopen(f"{self.ports.monitor}/varz", timeout=MONITOR_TIMEOUT_S) as answer:
            return int(json.load(answer)["in_msgs"])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def serving(
    access: Access, *commands: Sequence[str], block: str = "", streams: bool = False
) -> Iterator[list[Server]]:
    """One server per command, all with the same configuration, of which `block` is a part.

    With `streams` each has a directory for them.
    """
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        certificate, key = folder / "cert.pem", folder / "key.pem"
        if access is Access.TLS:
            write_certificate(certificate, key)
        config = folder / "server.conf"
        config.write_text(config_text(access, certificate, key) + block)
        servers = []
        for number, command in enumerate(commands):
            own = folder / str(number)
            own.mkdir()
            servers.append(
                stack.enter_context(Server(command, config, own, access, certificate, streams=streams))
            )
        yield servers
