"""Fixtures for other people's tests: a real server in this process or beside it.

`tidelog.testing.Server` is the public one, and the pytest fixtures `tidelog_server` and `start_tidelog` hand it out.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.server import Server

__all__ = ["Server"]


def __getattr__(name: str) -> object:
    # The server and its event loop are imported by those who want them in their process, and by nobody else.
    if name == "Server":
        from tidelog.testing.server import Server

        return Server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
