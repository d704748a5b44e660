"""Commands run in this process against a server in this process; nothing of the user's settings is seen."""

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.cli import command
from tidelog.client import Connection
from tidelog.testing import Server


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A running server that commands find by NATS_URL."""
    monkeypatch.setenv("NATS_URL", shared_server.url)
    return shared_server


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


class Running:
    """A command on a thread."""

    def __init__(self, arguments: list[str]) -> None:
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(arguments,))
        self._thread.start()

    def _run(self, arguments: list[str]) -> None:
        self.code = command.run(arguments)

    def wait(self) -> int | None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.code


@pytest.fixture
def begin() -> Callable[..., Running]:
    """`begin("sub", "a")` runs a command beside the test."""
    return lambda *arguments: Running(list(arguments))


@pytest.fixture
def await_listener(connection: Connection) -> Callable[[str], None]:
    """Wait until somebody listens to a subject: a request to it is no longer answered with 503."""

    def wait(subject: str) -> None:
        deadline = time.monotonic() + 10
        inbox = connection.subscribe(reply := connection.new_inbox())
        while True:
            connection.publish(subject, b"", reply=reply)
            connection.flush()
            if not inbox.pending or not inbox.next(0).is_no_responders:
                break
            assert time.monotonic() < deadline, f"nobody listens to {subject}"
            time.sleep(0.005)
        inbox.unsubscribe()

    return wait


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """What standard input gives."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
