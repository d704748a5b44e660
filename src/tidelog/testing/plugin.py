"""pytest fixtures; pytest finds them by itself where Tidelog is installed.

    def test_orders(tidelog_server):
        connection = tidelog_server.connect()

    def test_reload(start_tidelog):
        server = start_tidelog("max_payload: 1024", process=True)

The server is imported with the first test that asks for one, so that other test runs pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing.server import Server


@pytest.fixture
def tidelog_server() -> Iterator[Server]:
    """A fresh server in this process, with default settings."""
    from tidelog.testing.server import Server

    with Server() as server:
        yield server


@pytest.fixture
def start_tidelog() -> Iterator[Callable[..., Server]]:
    """Starts servers, with the arguments of `tidelog.testing.Server`; they end with the test."""
    from tidelog.testing.server import Server

    with ExitStack() as running:

        def start(*arguments: Any, **options: Any) -> Server:
            return running.enter_context(Server(*arguments, **options))

        yield start
