"""A server process of one's own for each test of a bad day."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tidelog.testing.peer import ServerProcess, tidelog_argv

StartServer = Callable[..., ServerProcess]


@pytest.fixture
def start() -> Iterator[StartServer]:
    """Starts Tidelog as a process: `start(config=..., flags=[...], argv=[...])`."""
    with ExitStack() as running:

        def start(argv: list[str] | None = None, **options: object) -> ServerProcess:
            return running.enter_context(ServerProcess(argv or tidelog_argv(), **options))  # type: ignore[arg-type]

        yield start
