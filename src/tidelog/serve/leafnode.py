"""The leafnode listener, which binds and refuses politely.

Configurations of common client suites hold a `leafnodes` block, so the port must be there. Leafnodes themselves are
not built: whoever comes is greeted with INFO, told so as soon as they speak, and hung up on.
"""

import asyncio
from typing import cast

from tidelog.serve.listener import shown
from tidelog.serve.log import Logger

REFUSAL = b"-ERR 'Leafnode connections are not supported by this server'\r\n"
# How long somebody may be connected without a word.
PATIENCE_S = 2.0


class LeafnodeRefusal(asyncio.Protocol):
    def __init__(self, greeting: bytes, log: Logger) -> None:
        self.greeting = greeting
        self.log = log
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The loop of the program, uvloop, has transports that are none of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.greeting)
        self.timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.refuse)

    def data_received(self, _data: bytes) -> None:
        self.refuse()

    def refuse(self) -> None:
        if not self.transport.is_closing():
            peer = shown(*self.transport.get_extra_info("peername")[:2])
            self.log.warn(f"Leafnode connection from {peer} refused: leafnodes are not supported")
            self.transport.write(REFUSAL)
            self.transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
