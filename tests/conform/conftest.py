"""Servers for the tests that compare: the original and ours, each a process that ends with the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conform.protocol.identity import write_certificates
from conform.protocol.stage import Stage
from tidelog.testing.peer import ServerProcess, nats_server_path, tidelog_argv

StartServer = Callable[..., ServerProcess]


@pytest.fixture(scope="session")
def peer_argv() -> list[str]:
    """What starts the original; without it there is nothing to compare with."""
    try:
        return [str(nats_server_path())]
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `cert.pem` and `key.pem` for 127.0.0.1."""
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


@pytest.fixture
def start_peer(peer_argv: list[str]) -> Iterator[StartServer]:
    """Starts originals: `start_peer(config=..., flags=[...])`."""
    yield from _starter(peer_argv)


@pytest.fixture
def start_ours() -> Iterator[StartServer]:
    """Starts Tidelog as a process: `start_ours(config=..., flags=[...])`."""
    yield from _starter(tidelog_argv())


@pytest.fixture(scope="session")
def their_stage(peer_argv: list[str], certificates: Path) -> Iterator[Stage]:
    with Stage(peer_argv, certificates) as stage:
        yield stage


@pytest.fixture(scope="session")
def our_stage(certificates: Path) -> Iterator[Stage]:
    with Stage(tidelog_argv(), certificates) as stage:
        yield stage


def _starter(argv: list[str]) -> Iterator[StartServer]:
    with ExitStack() as running:

        def start(**options: object) -> ServerProcess:
            return running.enter_context(ServerProcess(argv, **options))  # type: ignore[arg-type]

        yield start
