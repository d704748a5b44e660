"""What the server knows about itself that the broker does not. The server keeps it up to date."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.serve.options import Options

if TYPE_CHECKING:
    from tidelog.broker.desk.desk import Desk


@dataclass(slots=True, kw_only=True)
class ServerState:
    """`options` is exchanged on reload, with `config_load_ns`. Ports are those listened on; 0: off."""

    options: Options
    server_id: str
    version: str
    runtime: str  # `go` in INFO and /varz
    git_commit: str = ""
    port: int = 0
    http_port: int = 0
    https_port: int = 0
    websocket_port: int = 0
    leafnode_port: int = 0
    start_ns: int = 0  # wall time
    config_load_ns: int = 0  # wall time
    # Where streams are asked for and stored; None: there are none.
    desk: Desk | None = None
    store_path: str = ""
    connect_urls: tuple[str, ...] = ()
    websocket_connect_urls: tuple[str, ...] = ()
    certificate_end_ns: int = 0  # wall time; 0: no TLS
    # Listeners that should accept and do not (`server`, `websocket`, `leafnode`): /healthz fails.
    unready: tuple[str, ...] = ()
    # Answered requests by path.
    http_requests: dict[str, int] = field(default_factory=dict)

    def accounts_with_streams(self) -> tuple[str, ...]:
        if self.desk is None:
            return ()
        return tuple(name for name, account in self.desk.accounts.items() if account.streams is not None)

    @property
    def server_name(self) -> str:
        return self.options.broker.server_name or self.server_id
